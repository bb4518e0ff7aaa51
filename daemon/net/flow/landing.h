/*
 * Landings: where an endpoint takes moves in. A landing is memory for slots, the outputs that BEGIN names,
 * and a range of flow numbers, and it belongs to one op at a time: whatever comes is looked up by its flow's
 * number, checked, and has its place, without regard to anything else that is under way.
 *
 * A landing is lent to one op and returned when it is settled; only then are its memory and its numbers used
 * again. Or it is standing: standing.h says for which op.
 *
 * Landings belong to the proxy of their endpoint, as flows do. Nothing blocks; nothing waits for memory.
 */
#ifndef BLINK_LANDING_H
#define BLINK_LANDING_H

#include "base/vec.h"
#include "net/flow/flow.h"
#include "wire.h"

/* Where memory of landings comes from, and who is charged for it. */
typedef struct landing_memory {
    /* Charge and allocate, or change nothing; never waits. Errors: QUOTA, NO_MEMORY. */
    blink_result_t (*take)(void *context, uint64_t bytes, void **memory);
    void (*give)(void *context, void *memory, uint64_t bytes);
    void *context;
} landing_memory_t;

/* An output of the op that moves may be written to. */
typedef struct landing_output {
    void *address;
    uint64_t bytes;
} landing_output_t;

typedef struct landing {
    uint32_t first_flow; /* the numbers of its flows adjoin */
    uint32_t flow_count;
    uint32_t unsettled; /* of its flows */
    bool standing;
    uint32_t first_sequence; /* of a standing landing: wire_standing_sequence(round, 0); else 0 */
    flow_receiver_t *flows;  /* borrowed */
    void *memory;
    uint64_t bytes;
    const landing_output_t *outputs; /* borrowed; places 1 … output_count */
    uint32_t output_count;
    void *user;    /* the caller's, set after it was lent, and the next one */
    bool is_shown; /* the peer's NIC may write to its memory */
} landing_t;

/* All landings of an endpoint. */
typedef struct landings {
    VEC(landing_t *) units; /* whose each LANDING_UNIT flow numbers are; NULL: nobody's */
    size_t units_most;
    size_t next_unit; /* where the search for free ones goes on */
    landing_memory_t memory;
} landings_t;

/* Flow numbers are given out in so many. */
#define LANDING_UNIT 64u

/* For flow numbers below flows_most, at most WIRE_FLOWS. Allocates nothing yet. */
void landings_init(landings_t *landings, uint32_t flows_most, landing_memory_t memory);

/* All landings have been returned. */
void landings_destroy(landings_t *landings);

/* The endpoint is fenced for good: all its landings are settled with what has come. */
void landings_cut(landings_t *landings);

/* ---- one landing ---- */

/* Give flow numbers and memory to an op. The caller has opened the flows and keeps landing, flows and outputs
 * until the landing is returned. The outputs are set after this call, and before BEGIN names them. `bytes`
 * may be 0. Errors: QUOTA (no flow numbers are left; and as landing_memory_t), NO_MEMORY. */
blink_result_t landing_lend(landings_t *landings, landing_t *landing, flow_receiver_t *flows,
                            uint32_t flow_count, uint64_t bytes);

/* The op has ended. The landing is settled. */
void landing_return(landings_t *landings, landing_t *landing);

/* Give its memory back before: the landing is settled, and is lent to no op any more. */
void landing_give_memory(landings_t *landings, landing_t *landing);

/* The peer's BEGIN agrees with this host's: flow i has moves[i] moves, those from `count` on have none. Not
 * after landing_fail(). No number is more than the flow was opened with: the caller checks that before, for
 * the numbers are the peer's.
 * What is settled stays as it is, here and below. Errors: PROTOCOL (more have come). */
blink_result_t landing_agree(landing_t *landing, const uint32_t *moves, uint32_t count);

/* The peer's FAIL: of flow i it has sent the moves below sent[i], of those from `count` on none. Errors:
 * PROTOCOL (there are no such flows; as flow_receiver_fail()). */
blink_result_t landing_fail(landing_t *landing, const uint32_t *sent, uint32_t count);

/* Whether nothing will be written for this op any more. */
bool landing_is_settled(const landing_t *landing);

/* The endpoint is fenced: no NIC writes to its memory any more. The flows resume with what has come;
 * landing_cut() settles them instead. */
void landing_fence(landing_t *landing);
void landing_cut(landing_t *landing);

/* ---- moves that come ---- */

typedef struct landing_move {
    landing_t *landing; /* NULL: nobody waits for the move; its bytes are read and dropped */
    uint32_t flow;      /* in its landing, from 0 */
    uint32_t sequence;  /* in the flow, from 0 */
    void *address;      /* where its bytes go */
} landing_move_t;

/* A DATA frame has come: find its place, before a byte is written. What is checked are the flow, the grant,
 * and that the bytes lie in the op's own memory; whether they are the very bytes of that move the executor
 * knows. Nobody waits for what comes to a standing landing after it is settled: hosts that disagree about the
 * op can send such. Errors: PROTOCOL, which names flow and move: the peer lies, and the endpoint is to be
 * closed. */
blink_result_t landing_claim(landings_t *landings, const wire_frame_t *frame, landing_move_t *move);

/* The same for a move that the NIC has written, told by its immediate; it has no address. A move
 * that nobody waits for has overwritten nothing that is needed: a sender ends one op of a landing before it
 * sends the next. */
blink_result_t landing_claim_immediate(landings_t *landings, uint32_t immediate, landing_move_t *move);

/* The bytes of a claimed move are there. Returns up to where its flow has arrived. */
uint32_t landing_arrive(const landing_move_t *move);

#endif

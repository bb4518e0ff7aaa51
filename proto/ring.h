/*
 * The shared-memory ABI between one client and the daemon: a submission queue (SQ) and a completion queue
 * (CQ) in a memfd that the daemon creates and seals. Both queues are single-producer single-consumer.
 *
 * Trust. Each side keeps private copies of every index it owns and never reads them back. The daemon copies
 * an entry once and validates the copy; whatever a client writes here can harm only that client.
 *
 * Waiting without missed wake-ups. Either side that is about to sleep first announces it (engine_sleeping,
 * client_sleepers), then looks at the queue once more, and only then sleeps; the other side first publishes
 * its entry, then looks at the announcement. All four accesses are sequentially consistent, so in their
 * single total order either the sleeper's second look comes after the publication and finds the entry, or the
 * publisher's look comes after the announcement and sends the wake-up. (This is Dekker's argument; weaker
 * orders admit the outcome in which both look too early.) The wake-up itself cannot be lost: the engine
 * sleeps on an eventfd, which counts; the client sleeps on the futex wake_sequence, read before the
 * announcement and increased before every FUTEX_WAKE. tests/model goes through all interleavings of this.
 *
 * The heartbeat. A client that waits for long counts up `ping`, and wakes the engine if it sleeps; the engine
 * copies the word to `pong` whenever it is about to sleep, and every few milliseconds while it is busy. An
 * engine that turns thus answers, however much it has to do.
 */
#ifndef BLINK_RING_H
#define BLINK_RING_H

#include "collective.h"
#include "error.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RING_MAGIC   0x676e6b62u /* "bkng" */
#define RING_VERSION 4u

#define RING_ENTRIES_MIN 8u
#define RING_ENTRIES_MAX 4096u

typedef enum ring_opcode {
    RING_OP_NOP = 0, /* completes at once: measures the round trip */
#define RING_OPCODE(collective, opcode, ...) RING_OP_##collective = opcode,
    COLLECTIVES(RING_OPCODE) /* RING_OP_ALLREDUCE = 1 and so on, as the table of collective.h has it */
#undef RING_OPCODE
    RING_OP_SEND = RING_OP_SENDRECV, /* matched with a RECV by (source, destination, number of the pair's) */
    RING_OP_RECV = 10,
    RING_OP_BARRIER = 11, /* no buffers; complete once every rank has submitted it */
    RING_OP_FORGET = 12,  /* the stored op of `window` runs no more; complete once it is forgotten */
} ring_opcode_t;

/*
 * Groups. A run of submissions of one member that all but the last have RING_SQE_MORE set is a group: nothing
 * of it starts before the last has come, its entries run in any order, and it has one completion, that of the
 * last entry, with the first failure of any. Entries with MORE have no completion and take no slot of the CQ.
 *
 * The other flags say how an op uses the window that it names (windows.h): its input or output is staged, it
 * is in the order of a stream, or it is stored for a graph's replays.
 */
enum {
    RING_SQE_MORE = 1,
    RING_SQE_IN_STAGED = 2,
    RING_SQE_OUT_STAGED = 4,
    RING_SQE_STREAM = 8,
    RING_SQE_STORED = 16,
};

/** What a waiting client had best do; the daemon keeps it current. */
typedef enum ring_wait_policy {
    RING_WAIT_SPIN = 0,  /* cores to spare: spin */
    RING_WAIT_YIELD = 1, /* more threads want to run than there are cores: spin a little, yield once, sleep */
    RING_WAIT_SLEEP = 2, /* work of more than 200 µs under way: sleep at once */
} ring_wait_policy_t;

/** Submission. Offsets and counts are checked by the daemon against the region; region 0 is "no buffer". */
typedef struct ring_sqe {
    uint8_t opcode;
    uint8_t datatype;
    uint8_t redop;
    uint8_t flags;   /* RING_SQE_… */
    uint32_t member; /* communicator handle of one rank, as CommInitReply gave it; 0 for a nop */
    uint32_t root;   /* send and recv: the other rank */
    uint32_t in_region;
    uint32_t out_region;
    uint32_t window; /* of the staged buffers, or of the stream; 0 where there is neither */
    uint64_t count;  /* elements of one block (what each rank gives or gets) */
    uint64_t in_offset_bytes;
    uint64_t out_offset_bytes;
    uint64_t user_data;
    uint64_t scalar; /* PRE_MUL_SUM: the bits of one element, in the low bytes; else 0 */
} ring_sqe_t;

/** Completion. text is a NUL-terminated sentence when result is not BLINK_OK. */
typedef struct ring_cqe {
    uint64_t user_data;
    uint32_t result; /* blink_result_t */
    uint32_t reserved;
    char text[BLINK_ERROR_TEXT_BYTES];
    uint8_t padding[48];
} ring_cqe_t;

static_assert(sizeof(ring_sqe_t) == 64, "an SQE is one cache line");
static_assert(offsetof(ring_sqe_t, count) == 24, "SQE layout");
static_assert(offsetof(ring_sqe_t, user_data) == 48, "SQE layout");
static_assert(sizeof(ring_cqe_t) == 256, "a CQE is four cache lines; success touches only the first");
static_assert(offsetof(ring_cqe_t, text) == 16, "CQE layout");

/** First page of the memfd. Indices run freely over 32 bits; entry = index & (entries - 1). */
typedef struct ring_header {
    /* constant once the memfd is passed on */
    uint32_t magic;
    uint32_t version;
    uint32_t sq_entries; /* powers of two */
    uint32_t cq_entries;
    uint32_t sq_offset; /* from the start of the memfd */
    uint32_t cq_offset;
    uint64_t total_bytes;
    uint8_t padding0[32];
    /* written by the client */
    _Alignas(64) _Atomic uint32_t sq_tail;
    _Alignas(64) _Atomic uint32_t cq_head;
    _Alignas(64) _Atomic uint32_t client_sleepers; /* threads asleep on wake_sequence, or about to be */
    _Atomic uint32_t client_wants_event;           /* raise the completion event as well */
    _Atomic uint32_t ping; /* counts the client's questions whether the engine turns */
    /* written by the daemon */
    _Alignas(64) _Atomic uint32_t sq_head;
    _Alignas(64) _Atomic uint32_t cq_tail;
    _Alignas(64) _Atomic uint32_t engine_sleeping; /* ring the doorbell after publishing */
    _Atomic uint32_t wait_policy;                  /* ring_wait_policy_t */
    _Atomic uint32_t pong;                         /* the last ping that the engine has seen */
    /* increased by either side before it wakes the client's sleepers */
    _Alignas(64) _Atomic uint32_t wake_sequence;
} ring_header_t;

#define RING_HEADER_BYTES 4096u

static_assert(sizeof(ring_header_t) <= RING_HEADER_BYTES, "the header fits its page");
static_assert(offsetof(ring_header_t, sq_tail) == 64, "ring layout");
static_assert(offsetof(ring_header_t, cq_head) == 128, "ring layout");
static_assert(offsetof(ring_header_t, client_sleepers) == 192, "ring layout");
static_assert(offsetof(ring_header_t, ping) == 200, "ring layout");
static_assert(offsetof(ring_header_t, sq_head) == 256, "ring layout");
static_assert(offsetof(ring_header_t, cq_tail) == 320, "ring layout");
static_assert(offsetof(ring_header_t, engine_sleeping) == 384, "ring layout");
static_assert(offsetof(ring_header_t, pong) == 392, "ring layout");
static_assert(offsetof(ring_header_t, wake_sequence) == 448, "ring layout");

/** One side's view of a ring. Not thread-safe: one producer and one consumer per queue, serialised by the
 * owner. */
typedef struct ring {
    ring_header_t *header;
    ring_sqe_t *sqes;
    ring_cqe_t *cqes;
    uint32_t sq_entries, cq_entries; /* private copies: the header's are not trusted after the start */
    uint32_t sq_index;               /* the SQ index this side owns: tail for a client, head for the daemon */
    uint32_t cq_index;               /* the CQ index this side owns: head for a client, tail for the daemon */
    uint32_t cq_reserved;            /* daemon: entries taken whose completion is still to come */
    size_t bytes;
} ring_t;

/* ---- both sides ---- */

/** Unmap. The memfd is not touched. */
void ring_unmap(ring_t *ring);

/** The completion event: a descriptor that is readable (8 bytes) once raised, until it is read; -1 with errno
 * if there can be none. A timer that is set to expire, not an eventfd: both sides share its O_NONBLOCK, and a
 * write to an eventfd that its client has filled and made to block would hang the engine. Raising never
 * blocks. */
int ring_create_event(void);
void ring_raise_event(int event_fd);

/** Wake every sleeper of this ring's client: after a completion another thread waits for, or when all is
 * lost. */
void ring_wake_client(ring_t *ring);

/* ---- daemon ---- */

/** Wake the sleepers, if there are any, after a word of a window that they wait for has been stored. */
void ring_notify(ring_t *ring);

/** Make a sealed memfd (SHRINK | GROW | SEAL) with both queues and map it. Entries are powers of two within
 * RING_ENTRIES_MIN…MAX. The descriptor is the caller's. Errors: INVALID_ARGUMENT, SYSTEM. */
blink_result_t ring_create(uint32_t sq_entries, uint32_t cq_entries, ring_t *ring, int *memfd);

/** Map, as the side that takes submissions, a fresh ring that the other side created: the GPU worker, whose
 * client is the service. Checks as ring_attach(). Errors: PROTOCOL, SYSTEM. */
blink_result_t ring_adopt(int memfd, ring_t *ring);

/** Copy the next submission and, unless it has RING_SQE_MORE, reserve its completion's slot. False if there
 * is none, or no free CQ slot (a client that does not reap stalls only itself). */
bool ring_take(ring_t *ring, ring_sqe_t *sqe);

/** Whether ring_take() would return a submission. Sequentially consistent: the second look before sleeping.
 */
bool ring_has_submission(ring_t *ring);

/** Publish a completion for an entry taken before; wakes the client if it sleeps. `text` may be NULL. Returns
 * true if the client also wants its event raised. */
bool ring_complete(ring_t *ring, uint64_t user_data, blink_result_t result, const char *text);

/** Announce that the engine sleeps (or is awake again). See the top of this file. */
void ring_set_engine_sleeping(ring_t *ring, bool sleeping);
void ring_set_wait_policy(ring_t *ring, ring_wait_policy_t policy);

/** Answer the client's ping, if there is a new one. */
void ring_answer_ping(ring_t *ring);

/* ---- client ---- */

/** Map a ring received from the daemon and check magic, version, sizes and seals. Errors: PROTOCOL, SYSTEM.
 */
blink_result_t ring_attach(int memfd, ring_t *ring);

/** Publish a submission. False if the SQ is full. A client keeps at most cq_entries submissions unreaped: the
 * engine leaves more in the SQ, and may sleep over them until the doorbell rings. */
bool ring_submit(ring_t *ring, const ring_sqe_t *sqe);

/** After ring_submit(): whether the engine sleeps and its doorbell must be rung. */
bool ring_needs_doorbell(ring_t *ring);

/** Take the next completion. False if there is none. cqe->text is always terminated. */
bool ring_reap(ring_t *ring, ring_cqe_t *cqe);

/** Whether ring_reap() would find a completion. Sequentially consistent: the second look before sleeping. */
bool ring_has_completion(ring_t *ring);

ring_wait_policy_t ring_wait_policy(const ring_t *ring);

/** Ask whether the engine turns; ring its doorbell if ring_needs_doorbell(). One thread at a time. */
void ring_ping(ring_t *ring);

/** Whether the engine has turned since ring_ping(). */
bool ring_ping_is_answered(const ring_t *ring);

/** Announce a sleeper and return the sequence to sleep on. Look again (ring_has_completion(), and whatever
 * else may end the wait) before ring_sleep(); ring_sleep_end() follows in every case. Thread-safe. */
uint32_t ring_sleep_begin(ring_t *ring);
void ring_sleep(ring_t *ring, uint32_t sequence, uint64_t timeout_us);
void ring_sleep_end(ring_t *ring);

/** From now on the daemon also raises the completion event. Look at the CQ after this call. Thread-safe. */
void ring_want_event(ring_t *ring);

#endif

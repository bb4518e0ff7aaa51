/*
 * The transport over RDMA: a queue pair for control, on which small moves go too, and queue pairs for moves,
 * all made by librdmacm. What goes is copied into registered memory of the endpoint's. From there a move to a
 * landing that the peer has shown is written to it, by RDMA writes on one queue pair, the last of which has
 * an immediate that says which move it was; one that the devices may read where it is need not be copied. All
 * else goes as messages: what comes so lands in registered memory, of receives that are posted ahead, and is
 * copied to its place. The messages of a queue pair are a stream of bytes, the same as a TCP connection's;
 * writes are none of it.
 *
 * Each side has posted DEPTH receives to a queue pair when it connects, and posts each again once what it
 * received is taken in. A message uses one up, and so does a write with an immediate. The immediate of every
 * message for control tells how many were posted again by then, on the queue pair for control and on a group
 * of those for moves; so many may be used, and so nothing that is sent ever finds none. Queue pairs overtake
 * one another, and therefore those for moves tell nothing.
 *
 * Queue pairs for moves may be on other devices than the one for control: each device is a *rail* of the
 * transport.
 *
 * A peer may write to what is shown to it, and to nothing else: all memory of an endpoint is registered in
 * protection domains of its own, to which no other endpoint's queue pairs have access, and only landings for
 * this peer are registered for remote writes. None is for remote reads, but in a domain where this host's
 * device alone, by a queue pair that is joined with itself (loop.h), reaches memory of GPUs.
 */
#ifndef BLINK_VERBS_H
#define BLINK_VERBS_H

#include "net/data/intake.h"
#include "net/data/verbs/device.h"

extern const transport_calls_t verbs_transport;

/* ---- between the files of this transport ---- */

/* What one message carries, and how many each side may have under way. */
#define VERBS_CONTROL_BYTES 4096u
#define VERBS_CONTROL_DEPTH 64u
#define VERBS_MOVES_BYTES   (32u << 10)
#define VERBS_MOVES_DEPTH   32u

/* Messages on the control queue pair that only tell which receives were posted again have so many to
 * themselves, and those that tell of many for control, by which the peer can go on telling, the last one. */
#define VERBS_RESERVE 2u

/* An immediate has so many bits for each queue pair that it tells of: first that for control, then a group of
 * those for moves, whose number stands above. */
#define VERBS_COUNT_BITS  10u
#define VERBS_COUNT_MASK  ((1u << VERBS_COUNT_BITS) - 1)
#define VERBS_TOLD_MOVES  2u
#define VERBS_GROUP_SHIFT ((1 + VERBS_TOLD_MOVES) * VERBS_COUNT_BITS)

static_assert(DATA_MOVE_STREAMS_MOST <= VERBS_TOLD_MOVES << (32 - VERBS_GROUP_SHIFT),
              "all groups have numbers");

typedef struct verbs verbs_t;

/* A device, and what the queue pairs on it need there. */
typedef struct verbs_rail {
    verbs_t *verbs;
    verbs_device_t *device; /* NULL: not any more */
    list_t of_device;
    struct ibv_pd *domain;
    transport_source_t of_completions;
    struct ibv_comp_channel *completions;
    struct ibv_cq *queue;
} verbs_rail_t;

/* A move that is written from where it was. */
typedef struct verbs_lent {
    transport_move_t move;
    uint32_t number; /* of the write that has read it to the end */
} verbs_lent_t;

typedef struct verbs_qp {
    verbs_t *verbs;
    uint32_t number;
    verbs_rail_t *rail;    /* that its memory is registered on; NULL: none yet */
    struct rdma_cm_id *id; /* NULL: not there yet, or gone */
    bool connected;
    bool elsewhere; /* who dials: over another NIC than that for control, which it may still go over */
    uint32_t depth, message_bytes, inline_bytes;
    uint8_t *memory; /* `depth` messages that go, then `depth` that come */
    struct ibv_mr *region;
    /* What goes. All these count, and wrap around. */
    uint32_t sent;    /* messages and writes that were handed to the device */
    uint32_t done;    /* of these: it has done with their memory */
    uint32_t used;    /* receives of the peer's that they use up, */
    uint32_t allowed; /* and may */
    /* The move that is under way, */
    bool has_move, whole; /* some of it is left */
    bool untold;          /* nothing of it is left but the immediate that tells it */
    transport_move_t move;
    uint32_t gone_bytes; /* and how much of it, its header included */
    /* Moves whose sources devices read, in order; both count, and wrap around. */
    verbs_lent_t lent[VERBS_MOVES_DEPTH];
    uint32_t lent_count, returned_count;
    /* What comes. */
    intake_t intake;
    uint32_t posted; /* receives that were posted again */
    uint32_t told;   /* of these the peer knows */
} verbs_qp_t;

/* Receives that were posted again, and of which the peer does not know. */
static inline uint32_t verbs_untold(const verbs_qp_t *qp)
{
    return qp->posted - qp->told;
}

/* The number of the first queue pair of a group. */
static inline uint32_t verbs_group_first(uint32_t group)
{
    return 1 + group * VERBS_TOLD_MOVES;
}

/* Memory that the peer may write to, or this side's devices may read. */
typedef struct verbs_shown {
    list_t link; /* in no list: the transport was closed */
    const verbs_library_t *library;
    struct ibv_mr *regions[DATA_STREAMS_MOST]; /* by rail; NULL: no queue pair for moves is there, or the
                                                * transport was closed */
} verbs_shown_t;

struct verbs {
    transport_t transport;
    transport_config_t config;
    const verbs_library_t *library;
    verbs_rail_t rails[DATA_STREAMS_MOST]; /* in the order in which they were needed */
    uint32_t rail_count;
    list_t shown;            /* verbs_shown_t.link */
    bool said_it_cannot_pin; /* memory that was to be shown */
    bool cannot_reach;       /* memory of GPUs: that has been said */
    transport_source_t of_channel, of_timer;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listeners[DATA_STREAMS_MOST]; /* NULL: none, or no more */
    data_ends_t control_ends;                        /* of who dials */
    int timer_fd;        /* when queue pairs that are elsewhere have taken too long; -1: none */
    bool peer_closed;    /* so it was told; what came before is looked at */
    bool waits_for_room; /* something could not be sent */
    uint32_t next_qp;    /* that is asked first whether it can take a move */
    wire_hello_t hellos[DATA_STREAMS_MOST];
    verbs_qp_t qps[DATA_STREAMS_MOST];
};

static inline verbs_t *verbs_of(transport_t *transport)
{
    return CONTAINER_OF(transport, verbs_t, transport);
}

/* With this thread's error text: the endpoint is lost. */
void verbs_lose(verbs_t *verbs, blink_result_t code);

/* No connection is waited for any more. */
void verbs_stop_listening(verbs_t *verbs);

/* What the transport's sentences begin with: "RDMA device mlx5_0". NULL: there is none yet. */
#define VERBS_NAMED "RDMA device %s"
const char *verbs_name(const verbs_rail_t *rail);

/* ---- qp.c ---- */

/* The rail of a device, or NULL if it has none yet. */
verbs_rail_t *verbs_find_rail(verbs_t *verbs, const struct ibv_context *context);

/* Find or open the rail of a device. Errors: as verbs_device_get(); SYSTEM. */
blink_result_t verbs_open_rail(verbs_t *verbs, struct ibv_context *context, verbs_rail_t **rail);

/* Give all rails back, queue pairs included, but for their memory. */
void verbs_close_rails(verbs_t *verbs);

/* Have the memory of a queue pair registered there, and nowhere else. Errors: QUOTA (it cannot be pinned),
 * NO_MEMORY. */
blink_result_t verbs_place_qp(verbs_qp_t *qp, verbs_rail_t *rail);

/* Make the queue pair of a connection on the connection's device, and post its receives. Errors: as
 * verbs_open_rail() and verbs_place_qp(); SYSTEM. */
blink_result_t verbs_make_qp(verbs_qp_t *qp);

/* End a connection, if there is one. */
void verbs_drop_connection(verbs_qp_t *qp);

/* The memory of a message that goes, or comes, by its number. */
uint8_t *verbs_message_out(const verbs_qp_t *qp, uint32_t number);
uint8_t *verbs_message_in(const verbs_qp_t *qp, uint32_t number);

/* transport_calls_t.show, pin, hide and shows */
void *verbs_show(transport_t *transport, void *memory, uint64_t bytes, data_keys_t *keys);
void *verbs_pin(transport_t *transport, void *memory, uint64_t bytes, data_keys_t *keys);
void verbs_hide(void *shown);
bool verbs_shows(const void *shown);

/* transport_calls_t.reach, unreach, settle and reaches */
void *verbs_reach(transport_t *transport, device_memory_t *memory, uint64_t offset, uint64_t bytes,
                  data_keys_t *keys);
void verbs_unreach(void *reach);
blink_result_t verbs_settle(void *reach, uint64_t offset, const void *source, uint32_t bytes);
bool verbs_reaches(const void *reach);

/* What a write takes: memory by a key. */
typedef struct verbs_piece {
    const void *memory;
    uint32_t bytes, key;
    bool in_place; /* what becomes of it is to be told */
} verbs_piece_t;

/* Send the next message, which has so many bytes; write something to the peer's memory, as the piece of its
 * move that tells it or an earlier one; post the receive of a message again. Errors: SYSTEM. */
blink_result_t verbs_post_send(verbs_qp_t *qp, uint32_t bytes);
blink_result_t verbs_post_write(verbs_qp_t *qp, const verbs_piece_t *piece, uint64_t address, bool tells);
blink_result_t verbs_post_receive(verbs_qp_t *qp, uint32_t number);

/* Register memory of a GPU with the devices of all queue pairs for moves, for the peer's to write to. NULL:
 * it cannot be, and this thread's error text says why. verbs_hide() ends it. */
void *verbs_show_device(verbs_t *verbs, device_memory_t *memory, uint64_t offset, uint64_t bytes,
                        data_keys_t *keys);

/* ---- receive.c ---- */

/* Take in what has come, within a bound. Returns whether it stopped there. */
bool verbs_take_completions(verbs_t *verbs);
void verbs_on_completions(transport_source_t *source, uint32_t events);

/* ---- send.c ---- */

/* Whether the next message may be sent or written, if so many more are kept for others. */
bool verbs_has_room(const verbs_qp_t *qp, uint32_t kept);

/* transport_calls_t.send */
bool verbs_send(transport_t *transport);

/* ---- cm.c ---- */

/* transport_calls_t.dial and listen */
blink_result_t verbs_dial(transport_t *transport, const transport_path_t *path,
                          const wire_hello_t hellos[DATA_STREAMS_MOST]);
blink_result_t verbs_listen(transport_t *transport, const transport_path_t *path,
                            const wire_hello_t hellos[DATA_STREAMS_MOST], uint16_t *port);

blink_result_t verbs_closed_by_peer(const verbs_t *verbs);

/* What librdmacm has told; connections over other NICs have taken too long. */
void verbs_on_channel(transport_source_t *source, uint32_t events);
void verbs_on_timer(transport_source_t *source, uint32_t events);
void verbs_take_channel(verbs_t *verbs);

#endif

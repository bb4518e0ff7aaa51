/*
 * What carries the frames and moves of one endpoint. A transport takes frames from the endpoint's outbox and
 * pulls moves when it has room for them, and takes in what the peer sends; it knows frames, and neither flows
 * nor runs. Whoever calls has the proxy's turn, in both directions, and nothing blocks.
 */
#ifndef BLINK_DATA_TRANSPORT_H
#define BLINK_DATA_TRANSPORT_H

#include "base/list.h"
#include "net/data/data.h"
#include "net/flow/landing.h"

#include <stdbool.h>

/* A move to be made. */
typedef struct transport_move {
    wire_frame_t frame; /* its header: where it goes */
    const void *source; /* frame.bytes of it, not written to until the transport has told that it was sent */
    void *owner;        /* the endpoint's, and the next two */
    uint32_t flow, sequence;
    bool is_copied; /* to the outbox */
    bool in_order;  /* it goes behind the control frames that were queued before it, and before later ones */
    uint64_t remote_address; /* where it goes, if the peer lets this host's device write there; 0, also once
                                the transport has it sent as a message instead: it may not */
    data_keys_t remote_keys;
    bool in_place; /* the transport's devices may read its source by these keys; false also once it was copied
                    */
    data_keys_t source_keys;
} transport_move_t;

typedef struct outbox outbox_t;
typedef struct verbs_devices verbs_devices_t;

/* What a transport tells its endpoint. An error closes the endpoint for that reason. */
typedef struct transport_events {
    /* All connections are there. */
    void (*connected)(void *context);
    /* A frame other than DATA has come; the payload is valid during the call. */
    blink_result_t (*control)(void *context, const wire_frame_t *frame, const uint8_t *payload);
    /* The header of a DATA frame has come: where does its payload go? landing_claim(). */
    blink_result_t (*claim)(void *context, const wire_frame_t *frame, landing_move_t *move);
    /* The payload is there; not `whole`: pages of its place are not, and it was dropped. Not called for moves
     * that nobody waits for. `is_copied`: it came over the connection for control, and the peer has a copy.
     */
    blink_result_t (*arrived)(void *context, const landing_move_t *move, const wire_frame_t *frame,
                              bool is_copied, bool whole);
    /* A whole frame has come over the connection for control, with so many bytes: told before the frame. */
    void (*took)(void *context, uint32_t bytes);
    /* The peer's device has written a move to memory that was shown, and told that by this immediate, with so
     * many bytes in the last piece. landing_claim_immediate(). */
    blink_result_t (*written)(void *context, uint32_t immediate, uint32_t bytes);
    /* The next move, if there is one. */
    bool (*next)(void *context, transport_move_t *move);
    /* Its source may be used for something else; not `whole`: pages of it are not there, and zeros went in
     * their stead. */
    void (*sent)(void *context, const transport_move_t *move, bool whole);
    /* The connections are gone; with this thread's error text. The endpoint closes the transport. */
    void (*lost)(void *context, blink_result_t code);
    /* The endpoint is to be served again although nothing has come for it. */
    void (*busy)(void *context);
} transport_events_t;

/* Something that a transport watches by epoll: the address is the data of its events. */
typedef struct transport_source transport_source_t;
struct transport_source {
    void (*serve)(transport_source_t *source, uint32_t events);
};

/* Memory that nobody reads: where what has no place goes. */
#define TRANSPORT_TRASH_BYTES (64u << 10)

typedef struct transport_config {
    int epoll_fd;
    uint8_t *trash; /* TRANSPORT_TRASH_BYTES */
    double timeout_s;
    uint32_t stream_count;  /* the endpoint's connections; the first one is for control */
    outbox_t *outbox;       /* the endpoint's */
    verbs_devices_t *verbs; /* the data plane's; NULL: it has no RDMA */
    bool adaptive_routing;  /* of RDMA writes: as the settings have it */
    const transport_events_t *events;
    void *context;
} transport_config_t;

typedef struct transport transport_t;

/* The two ends of connections, as data_route_t has them; ports are those of connect(). */
typedef struct transport_path {
    net_address_t own, peer;
    data_ends_t moves[DATA_MOVE_STREAMS_MOST];
} transport_path_t;

typedef struct transport_calls {
    data_by_t by;
    /* Without connections yet. Errors: NO_MEMORY. */
    blink_result_t (*create)(const transport_config_t *config, transport_t **transport);
    /* Begin to make all connections. Errors: PEER_LOST, SYSTEM, NO_MEMORY; the caller closes it. */
    blink_result_t (*dial)(transport_t *transport, const transport_path_t *path,
                           const wire_hello_t hellos[DATA_STREAMS_MOST]);
    /* Wait for connections at the own ends of the path, whose ports are 0, from somebody who says these
     * hellos; *port is where, at all of them. NULL: connections come by accept(). Errors: UNSUPPORTED (no
     * device has the address), QUOTA, SYSTEM, NO_MEMORY; the caller closes it. */
    blink_result_t (*listen)(transport_t *transport, const transport_path_t *path,
                             const wire_hello_t hellos[DATA_STREAMS_MOST], uint16_t *port);
    /* A connection is there; NULL: they come by listen(). The socket is taken over, also on failure. Errors:
     * EXISTS, NO_MEMORY, SYSTEM. */
    blink_result_t (*accept)(transport_t *transport, uint32_t stream, int fd);
    /* Send what waits in the outbox, and moves as long as there are some and connections take them, within a
     * bound. Returns whether it stopped at the bound. */
    bool (*send)(transport_t *transport);
    /* Let the peer's device, and nobody else's, write to memory that lives until hide(); what is shown is
     * hidden when the transport is closed. The connections are there. NULL: it cannot. show() itself is NULL
     * where no device writes. */
    void *(*show)(transport_t *transport, void *memory, uint64_t bytes, data_keys_t *keys);
    void (*hide)(void *shown);        /* also later than destroy(), and the next one */
    bool (*shows)(const void *shown); /* whether the transport has not been closed */
    /* The same of memory that only this host's devices may read. */
    void *(*pin)(transport_t *transport, void *memory, uint64_t bytes, data_keys_t *keys);
    /* Let the peer's device write to memory of a GPU, as show(), and have this host's devices reach it, until
     * unreach(), which may be later than destroy(). NULL: it cannot. reach() itself is NULL as show(). */
    void *(*reach)(transport_t *transport, device_memory_t *memory, uint64_t offset, uint64_t bytes,
                   data_keys_t *keys);
    void (*unreach)(void *reach);
    /* What is there from `offset` on is to be seen by all GPUs that this memory is for: what peers' devices
     * have written, or so many bytes of the host's, which are copied there first; `source` NULL: the former.
     * Waits for this host's device, for a few microseconds. Also when the transport is closed, or gone.
     * Errors: SYSTEM (the device fails: nothing more is reached so). */
    blink_result_t (*settle)(void *reach, uint64_t offset, const void *source, uint32_t bytes);
    bool (*reaches)(const void *reach); /* whether it has not failed, nor the transport been closed */
    /* What is being taken in for this landing is dropped, and so is the rest of it. */
    void (*drop)(transport_t *transport, const landing_t *landing);
    /* Close all connections, if there are some: what was under way is forgotten, and nobody is told. */
    void (*close)(transport_t *transport);
    /* Closed before. */
    void (*destroy)(transport_t *transport);
} transport_calls_t;

struct transport {
    const transport_calls_t *calls;
    list_t of_retired;  /* data->retired */
    uint32_t connected; /* connections that are there, or have been */
    bool closed;
};

#endif

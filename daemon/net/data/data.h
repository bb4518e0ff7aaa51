/*
 * The data plane: the connections over which daemons move the bytes of ops, and the runs that use them. It
 * knows flows and landings (net/flow), and what executors want moved (exec/wire.h); it knows no ops, clients
 * and communicators.
 *
 * An *endpoint* is all data connections to one peer daemon, as long as one session lasts. Where they fail and
 * the session lives they may be made anew, which is another *round* of them, and moves go on. A *run* is the
 * wire lanes of one op's run on this host. A *proxy* is the thread that serves the connections. Who works on
 * endpoints and flows has the proxy's turn: the proxy itself, or for a short time any thread that calls here.
 * So every call below may be made by any thread unless it says otherwise, and waits for the turn at most,
 * which nobody keeps for longer than it takes to move some hundred KiB.
 */
#ifndef BLINK_DATA_H
#define BLINK_DATA_H

#include "base/pages.h"
#include "base/settings.h"
#include "exec/wire.h"
#include "net/address.h"
#include "wire.h"

#include <stdbool.h>

typedef struct data data_t;
typedef struct data_endpoint data_endpoint_t;
typedef struct data_run data_run_t;
typedef struct data_standing data_standing_t;

/* Data connections of an endpoint: one for control frames and small moves, the others for moves. There is one
 * of the latter for each pair of NICs that moves go over, and so many at least, and at most. */
#define DATA_MOVE_STREAMS_LEAST 2u
#define DATA_MOVE_STREAMS_MOST  8u
#define DATA_STREAMS_MOST       (1 + DATA_MOVE_STREAMS_MOST)

/* Who dials a data connection shows this, once. */
#define DATA_TOKEN_BYTES 32u

/* Control frames that may wait for a peer to read them; beyond that the endpoint is lost. */
#define DATA_UNSENT_MOST_BYTES (8u << 20)

/* Words of a peer that are kept until they are taken; beyond that the peer's endpoint is lost, and no other
 * one. */
#define DATA_KEPT_MOST_BYTES (16u << 20)

/*
 * Called by whoever has the turn, which may be a thread that is in a call of this header: nothing here may
 * call back, or wait. `endpoint` and `context` of a run are valid during the call.
 */
typedef struct data_handler {
    /* The endpoint is used for the first time: its connections are to be made, by data_endpoint_dial() or
     * data_endpoint_accept(). */
    void (*wanted)(void *context, data_endpoint_t *endpoint);
    /* Connections have failed, and are closed: others are to be made, as data_endpoint_fence() says. Only for
     * endpoints that may resume. */
    void (*broken)(void *context, data_endpoint_t *endpoint);
    /* A control frame of the engine's has come, BEGIN, FAIL or LEFT; in the order sent. The payload is valid
     * during the call. An error closes the endpoint with this thread's error text. */
    blink_result_t (*frame)(void *context, data_endpoint_t *endpoint, const wire_frame_t *frame,
                            const uint8_t *payload);
    /* The executor aborted the run, whoever made it: its op is to fail, and FAIL to be sent. Once at most;
     * the code with this thread's error text. Not after data_run_ended(). */
    void (*aborted)(void *context, void *run_context, blink_result_t code);
    /* Nothing of the run is under way any more, neither here nor on its way here: memory of the op that the
     * network was shown may be used for something else. Exactly once for each run that data_run_settle() was
     * called for, and not before that. The executor's end of the run is told by itself, before or after. */
    void (*settled)(void *context, void *run_context);
    /* The endpoint is gone, for the code and data_endpoint_why(), which calls the peer "it", and all its
     * flows are cut: nothing comes or goes there any more. Once; not after data_endpoint_close(BLINK_OK). */
    void (*lost)(void *context, data_endpoint_t *endpoint, blink_result_t code);
    /* Charge or credit a tenant for memory of landings; called in data_run_create(), data_run_destroy() and
     * data_standing_leave() alone. Errors: QUOTA. */
    blink_result_t (*charge)(void *context, void *tenant, uint64_t bytes);
    void (*credit)(void *context, void *tenant, uint64_t bytes);
    void *context;
} data_handler_t;

typedef struct verbs_library verbs_library_t;

typedef struct data_config {
    settings_transport_t transport;
    bool adaptive_routing;        /* as the settings have it */
    const verbs_library_t *verbs; /* what to use for RDMA; NULL: this machine's libraries */
    pages_source_t landings;      /* where memory of landings comes from; zero: the system */
    double timeout_s; /* the peers': so long the kernel waits for what a peer does not acknowledge */
    data_handler_t handler;
} data_config_t;

/* Start the proxy's thread. Errors: NO_MEMORY, SYSTEM, UNSUPPORTED (RDMA is asked for and not there). */
blink_result_t data_create(const data_config_t *config, data_t **data);

/* Whether data connections may be TCP connections. */
bool data_takes_tcp(const data_t *data);

/* Stop the thread. All runs and endpoints are gone. NULL is ignored. */
void data_destroy(data_t *data);

/* ---- endpoints ---- */

/* `peer` is the name of its host, for messages; copied. `owner` is the caller's. The caller holds it once.
 * Errors: NO_MEMORY. */
blink_result_t data_endpoint_create(data_t *data, const char *peer, void *owner, data_endpoint_t **endpoint);

/* Hold it once more, and once less; the last one frees it, which may be done in a call of the handler's, too.
 */
void data_endpoint_get(data_endpoint_t *endpoint);
void data_endpoint_put(data_endpoint_t *endpoint);

void *data_endpoint_owner(const data_endpoint_t *endpoint);
const char *data_endpoint_peer(const data_endpoint_t *endpoint);

/* Before it is used: the peer can make connections anew. An endpoint that may not resume is lost with its
 * connections. `knows_keys`: the peer heeds data_offer_t.round; else what it sends over later connections
 * goes as messages. */
void data_endpoint_may_resume(data_endpoint_t *endpoint, bool knows_keys);

/* Before it is used: so many of its connections are for moves, as both daemons know by themselves;
 * DATA_MOVE_STREAMS_LEAST unless this is called. Then how many are. */
void data_endpoint_set_move_streams(data_endpoint_t *endpoint, uint32_t count);
uint32_t data_endpoint_move_streams(const data_endpoint_t *endpoint);

/* Where an endpoint stands: how often connections were made anew, and how many bytes of control had come by
 * then, which the peer need not send again. */
typedef struct data_fence {
    uint32_t round;
    uint64_t taken_bytes;
} data_fence_t;

/* The peer has closed the connections of all rounds before this one, so close this side's: nothing of them
 * comes any more. Returns where this side stands, whose round may be a later one; then the peer is to hear of
 * it. Round 0 asks only. Errors: PROTOCOL (no such round can come so soon), PEER_LOST. */
blink_result_t data_endpoint_fence(data_endpoint_t *endpoint, uint32_t round, data_fence_t *fence);

/* Where the peer stands in this round; what does not concern the round that this side is in is ignored.
 * Errors: PROTOCOL (what it says that it has has not gone). */
blink_result_t data_endpoint_resume(data_endpoint_t *endpoint, const data_fence_t *peer);

/* One way to connect, by TCP or by RDMA: where who waits is dialled, and what who dials shows. */
typedef struct data_way {
    uint16_t port; /* 0: no connections are taken so */
    uint8_t tokens[DATA_STREAMS_MOST][DATA_TOKEN_BYTES];
} data_way_t;

/* The two ends of a connection; the ports are not looked at. */
typedef struct data_ends {
    net_address_t own, peer;
} data_ends_t;

typedef struct data_route {
    uint32_t round;
    net_address_t own, peer; /* of the session; the ports are not looked at */
    data_ends_t rdma_ends;   /* of the RDMA connection for control */
    /* Of connections for moves, where they go over other NICs than that for control; where they cannot be
     * made they go over that one's. AF_UNSPEC: that one's. */
    data_ends_t moves[DATA_MOVE_STREAMS_MOST];
    uint64_t instance; /* this daemon's */
    data_way_t tcp, rdma;
} data_route_t;

/* Connect to the peer by one of the ways, and show a token on each connection. Returns at once; what goes
 * wrong is told as `lost`, with how many connections were made, or as `broken`. Once in a round, and not
 * beside data_endpoint_accept(). A round that is over is ignored, here and below. */
void data_endpoint_dial(data_endpoint_t *endpoint, const data_route_t *route);

/* Wait for the peer, with this instance, to dial by RDMA at this host's ends of the route; way->port becomes
 * where, or 0 if it cannot do so and may use TCP, or connections are made anew and will be again. Once in a
 * round, and not beside data_endpoint_dial(). Errors: UNSUPPORTED, QUOTA, SYSTEM (only RDMA may be used, and
 * why that cannot be), PEER_LOST, NO_MEMORY. */
blink_result_t data_endpoint_listen(data_endpoint_t *endpoint, const data_route_t *route, uint64_t instance,
                                    data_way_t *way);

/* The peer has dialled by TCP, and shown the right token for this stream of this round: the socket, which is
 * non-blocking, is taken over, also on failure. Errors: EXISTS (the stream has a connection already, or had
 * one), PEER_LOST (the endpoint or the round is gone), UNSUPPORTED (only RDMA may be used). */
blink_result_t data_endpoint_accept(data_endpoint_t *endpoint, uint32_t round, uint32_t stream, int fd);

/* The peers' time-out has passed since `wanted`, or the session has ended (the code with this thread's error
 * text), or the peer lies: close the connections. `lost` is called, within this call or later, unless
 * the endpoint is lost already or the code is BLINK_OK. */
void data_endpoint_close(data_endpoint_t *endpoint, blink_result_t code);

/* By what its connections go, as bits; none: they have not been made. Thread-safe. */
typedef enum data_by {
    DATA_BY_NONE = 0,
    DATA_BY_TCP = 1,
    DATA_BY_RDMA = 2,
    DATA_BY_GPUS = 4 /* beside RDMA: what has come was written to memory of GPUs */
} data_by_t;

data_by_t data_endpoint_by(const data_endpoint_t *endpoint);

/* Whether it has been lost or closed, and once that is so, why. Thread-safe. */
bool data_endpoint_is_lost(const data_endpoint_t *endpoint);
const char *data_endpoint_why(const data_endpoint_t *endpoint);

/* Charge the peer with bytes that are kept of what it has said, and credit it with them. Errors: QUOTA. */
blink_result_t data_endpoint_charge(data_endpoint_t *endpoint, size_t bytes);
void data_endpoint_credit(data_endpoint_t *endpoint, size_t bytes);

/* Queue a control frame for the peer; the payload is copied. It leaves at the end of the turn, or with
 * data_turn() if data_soon() was called by this thread. Errors: QUOTA (the peer does not read; the endpoint
 * is lost), PEER_LOST, NO_MEMORY. */
blink_result_t data_send(data_endpoint_t *endpoint, wire_type_t type, const void *payload, uint32_t bytes);

/* What went over an endpoint: by wire_type_t, frames and bytes of payload; of moves that came as writes of
 * the peer's device, those of their last pieces. Thread-safe. */
typedef struct data_counts {
    uint64_t frames_out[8], frames_in[8], bytes_out[8], bytes_in[8];
    uint64_t writes_out; /* moves that this host's device wrote to where they go, */
    uint64_t in_place;   /* and of these, those that it read from where they were */
    uint64_t waited;     /* moves of collectives whose data were ready before the peer's BEGIN let them go */
} data_counts_t;

void data_endpoint_count(const data_endpoint_t *endpoint, data_counts_t *counts);

/* ---- runs ---- */

typedef struct data_run_config {
    exec_instance_t *instance; /* bound to the payload; its program is one host's part, with wire lanes */
    /* By host number; those that wire lanes come from or go to must be there, others are not looked at. Held
     * until the run is destroyed. */
    data_endpoint_t *const *endpoints;
    /* By rank of the program, as exec_run_t's: where outputs are, NULL where none is written or the rank is
     * on another host. Blocks adjoin. */
    void *const *outputs;
    const uint64_t *output_bytes; /* of each that is not NULL */
    void *tenant;                 /* whom the handler charges */
    void *context;                /* the handler's run_context */
    data_standing_t *standing;    /* of the op's communicator; NULL: the op is a transfer */
    uint64_t number;              /* of the op among the communicator's collectives */
    uint64_t ended;  /* so many of these have ended here, the first ones; data_standing_holds() */
    bool is_crowded; /* the executor's threads have no core to themselves: whoever takes moves in goes on with
                        them */
} data_run_config_t;

/* Lend landings, or find standing ones, and open flows. Nothing is sent yet, and nothing comes before the
 * peers know the offers. Errors: QUOTA, NO_MEMORY, PEER_LOST. */
blink_result_t data_run_create(data_t *data, const data_run_config_t *config, data_run_t **run);

/* By which memory of one host may be written to by another one's device, over each stream for moves. */
typedef struct data_keys {
    uint32_t all[DATA_MOVE_STREAMS_MOST];
} data_keys_t;

/* What BEGIN tells a peer of where its moves land. */
typedef struct data_offer {
    uint32_t first_flow, flow_count; /* flow_count 0: nothing comes from there */
    uint32_t slots;                  /* that each edge has here */
    bool stands;                     /* in a standing landing */
    data_keys_t keys; /* with which the peer's RDMA device may write to the landing by itself, */
    uint64_t address; /* where that is; 0: it may not */
    uint32_t round;   /* and over the connections of which round (data_fence_t); 0 also if it may not */
} data_offer_t;

/* This side's offer to a host. */
data_offer_t data_run_offer(const data_run_t *run, uint32_t host);

/* A host's BEGIN was found to be of the same program and payload as this side's; its offer is the peer's
 * number for number, and is checked here. Moves may go there now, and what comes from there has an end.
 * Errors: PROTOCOL (the offer contradicts the program; the endpoint is closed with that reason). */
blink_result_t data_run_agree(data_run_t *run, uint32_t host, const data_offer_t *offer);

/* What exec_run_t.wires of the run gets. To be called just before exec_start() and then alone: the executor
 * has the run from here until data_run_ended(). */
const exec_wires_t *data_run_start(data_run_t *run);

/* The executor's run has ended: exec_start() returned true, or run->done was called. */
void data_run_ended(data_run_t *run);

/* A host's FAIL: of flow i of what comes from there the moves below sent[i] were sent, of others none. For
 * what comes to standing landings nobody waits then. After data_run_agree() or without. `sent` NULL: it
 * answers that the op has ended there, so that all was sent; its BEGIN has been agreed to. Errors: PROTOCOL
 * (more have come; the endpoint is closed). */
blink_result_t data_run_fail(data_run_t *run, uint32_t host, const uint32_t *sent, uint32_t count);

/* The op has failed on this host: no move goes to that host that has not gone, and what comes from there to a
 * standing landing is not waited for. `sent` receives how far each flow to that host was sent, which FAIL
 * says, up to the last flow of which anything was, and at most of `most` flows. Returns of how many: none
 * unless the host has lent a landing, since what went to a standing one it does not wait for. Again, it tells
 * the same. If `most` is not enough the endpoint is lost, for the peer would not wait for what comes. */
uint32_t data_run_stop(data_run_t *run, uint32_t host, uint32_t *sent, uint32_t most);

/* Whether moves may still go to that host. */
bool data_run_sends(const data_run_t *run, uint32_t host);

/* The op has failed so long ago that all of it should be settled: peers that it still waits for are lost. */
void data_run_lose_silent(data_run_t *run, double silent_s);

/* From now on `settled` may be called, and is called once all flows are settled: those from a host by its
 * BEGIN (agree) and all moves, or by its FAIL; those to a host by all moves, or by data_run_stop(). It may be
 * called during this call. */
void data_run_settle(data_run_t *run);

/* After `settled` and after the executor's run has ended, or before anybody was told an offer: landings are
 * returned, memory is freed. */
void data_run_destroy(data_run_t *run);

/* ---- standing landings ---- */

/*
 * Those of a communicator on this host, and what is known of those that its other hosts have for this one
 * (net/flow/standing.h). They are made for a host once an op takes something in from there that suits them:
 * of a program whose moves all land in slots, few and small enough. Both hosts see that by the op alone. Each
 * BEGIN of such an op names the landing that the op uses, so that later ops which use it again need not wait
 * for theirs.
 *
 * What comes for an op after it has ended here is dropped. So an op that fails waits for nothing that still
 * comes there. Calls are the thread's that makes runs of the communicator, but for create.
 */

/* Collectives of a communicator that may be under way at once. */
#define DATA_STANDING_OPS 4u

/* No landing yet. `endpoints` by host, NULL for this one; held. Errors: NO_MEMORY. */
blink_result_t data_standing_create(data_t *data, data_endpoint_t *const *endpoints, uint32_t host_count,
                                    void *tenant, data_standing_t **standing);

/* Whether the number-th collective is to begin later: so many have ended here, the first ones. All
 * collectives of the communicator obey, so that the BEGIN of an op is always enough to send for it. */
static inline bool data_standing_holds(uint64_t ended, uint64_t number)
{
    return number >= ended + DATA_STANDING_OPS;
}

/* A host's BEGIN of the number-th collective, whatever is to become of it: where that host takes in what
 * comes from here, and how many of the first collectives have ended there. Errors: PROTOCOL (it has left, or
 * has no such landing). */
blink_result_t data_standing_heed(data_standing_t *standing, uint32_t host, uint64_t number,
                                  const data_offer_t *offer, uint64_t ended);

/* Whether a host has told of a landing: then it is to hear, once the communicator leaves this host, that
 * nothing more is sent there. And whether it may have been told of one, and is to say so in turn. */
bool data_standing_is_told(const data_standing_t *standing, uint32_t host);
bool data_standing_is_open(const data_standing_t *standing, uint32_t host);

/* The host has left the communicator, and tells of no landing any more: nothing more goes to those that it
 * has told of, but by runs that may send there already (data_run_sends()). */
void data_standing_stop(data_standing_t *standing, uint32_t host);

/* The peer sends nothing more to these landings: it has left the communicator, or its endpoint is lost. */
void data_standing_peer_left(data_standing_t *standing, const data_endpoint_t *endpoint);

/* The communicator leaves this host, and has no runs: memory is given back, and what still comes is dropped.
 * The tenant is not used any more. */
void data_standing_leave(data_standing_t *standing);

/* Whether some peer may still send. */
bool data_standing_is_needed(const data_standing_t *standing);

/* Peers that may still send have not said within this time that they do not: their endpoints are lost. */
void data_standing_lose_silent(data_standing_t *standing, double silent_s);

/* If it is not needed, or nothing comes any more. NULL is ignored. */
void data_standing_destroy(data_standing_t *standing);

/* ---- the turn ---- */

/* This thread will call data_turn() in a moment: until then what it sends, and what executors tell of, wakes
 * no proxy. */
void data_soon(data_t *data);

/* After data_soon(): do what is due, so that small moves leave from this thread. While somebody else has the
 * turn, that is left to the proxy. */
void data_turn(data_t *data);

/* This thread looks at the connections by itself from now on, by data_poll() again and again, and the proxy's
 * thread does not: so nobody needs to be woken for what comes. Until it says that it does no more. */
void data_watch(data_t *data, bool watches);

/* While this thread watches: take in what has come, and do what is due, without waiting. Returns whether
 * there was anything. */
bool data_poll(data_t *data);

#endif

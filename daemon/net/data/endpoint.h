/*
 * An endpoint: landings, the flows of the runs that use it, and the transport below them. With the turn, but
 * for what is said otherwise.
 */
#ifndef BLINK_DATA_ENDPOINT_H
#define BLINK_DATA_ENDPOINT_H

#include "net/data/outbox.h"
#include "net/data/proxy.h"
#include "net/data/transport.h"

#define ENDPOINT_PEER_BYTES 80

typedef struct peer_flows peer_flows_t;

/* What an endpoint asks of a run's flows there. */
typedef struct peer_flows_calls {
    /* The next move that may go; false: there is none for now. */
    bool (*next)(peer_flows_t *flows, transport_move_t *move);
    void (*sent)(peer_flows_t *flows, const transport_move_t *move, bool whole);
    /* What was claimed from the landing has come, and its flow has arrived up to `arrived`; frame NULL: the
     * peer's device has written it. Errors: PROTOCOL (it is not what the run expects there). */
    blink_result_t (*arrived)(peer_flows_t *flows, const landing_move_t *move, const wire_frame_t *frame,
                              uint32_t arrived, bool whole);
    /* Errors: PROTOCOL. */
    blink_result_t (*credit)(peer_flows_t *flows, uint32_t flow, uint32_t credit);
    /* The peer says what has come of a flow: flow_sender_arrived(). Errors: PROTOCOL. */
    blink_result_t (*came)(peer_flows_t *flows, uint32_t flow, uint32_t arrived, uint64_t came);
    /* There are other connections, and the peer has said what has come by the former ones: the rest is sent
     * again, as messages. By keys of theirs nothing is written any more. */
    void (*resume)(peer_flows_t *flows);
    /* The endpoint is lost. */
    void (*cut)(peer_flows_t *flows);
} peer_flows_calls_t;

/* The flows of one run over one endpoint. */
struct peer_flows {
    const peer_flows_calls_t *calls;
    data_endpoint_t *endpoint;
    list_t of_endpoint;
    list_t of_due;           /* it may have moves to be sent */
    uint32_t first_outgoing; /* the peer's number of the first flow; the numbers adjoin */
    uint32_t outgoing_count; /* 0: there are none, or their numbers are not known yet */
    bool is_numbered;
};

struct data_endpoint {
    _Atomic uint32_t holders;
    data_t *data;
    void *owner;
    char peer[ENDPOINT_PEER_BYTES];
    _Atomic bool lost;
    _Atomic int by;                /* data_by_t */
    _Atomic uint64_t counts[4][8]; /* as data_counts_t; counters only grow, and order nothing */
    _Atomic uint64_t waited, writes_out, in_place;
    _Atomic size_t kept_bytes; /* data_endpoint_charge() */
    /* By the turn. */
    list_t link;    /* data->endpoints or data->gone */
    list_t of_busy; /* data->busy */
    bool wanted;
    uint32_t stream_count;
    bool connected;       /* all streams */
    uint64_t deadline_ns; /* by which the streams must be there; 0: none */
    /* resume.c. */
    bool resumes;           /* data_endpoint_may_resume(), and the next one */
    bool knows_keys;        /* the peer knows which round keys are of */
    uint32_t round;         /* so often connections were made anew, */
    uint32_t resumed_round; /* and in this round the peer has said what had come */
    bool retries;           /* they could not be made, and are to be tried again */
    uint32_t vain_rounds;   /* that the peer has begun since there were connections */
    uint32_t failures;      /* since `failing_ns` */
    uint64_t failing_ns;
    uint64_t taken_bytes;             /* so much has come over the connection for control, */
    uint64_t told_bytes;              /* so much of it the peer knows, */
    uint64_t fenced_bytes;            /* and so much had come before this round */
    VEC(wire_arrived_t) arrivals;     /* to be told, packed */
    char why[BLINK_ERROR_TEXT_BYTES]; /* the former connections failed, or the endpoint is lost */
    landings_t landings;
    pool_t pool; /* memory of landings that the peer's device may write to, and that nobody else ever has */
    list_t sources; /* source_t.of_endpoint */
    list_t flows;   /* peer_flows_t.of_endpoint */
    list_t due;     /* peer_flows_t.of_due; the next first */
    VEC(peer_flows_t *)
    units; /* by the peer's flow number / LANDING_UNIT: whose they are here; NULL: nobody's */
    VEC(wire_credit_t) credits; /* to be told, packed */
    outbox_t outbox;
    transport_t *transport; /* NULL: there are no connections yet */
    data_route_t route;     /* if this side dials */
    /* Have TCP connections made, or wait for them, instead of RDMA ones, for the reason that is this thread's
     * error text. Once; NULL: that may not be. */
    void (*fall_back)(data_endpoint_t *endpoint);
    uint64_t fall_back_ns; /* until then who dials tries RDMA; 0: it does not */
};

/* So long connections may take to be made: the peers' time-out, and 5 s at least. */
uint64_t endpoint_connect_ns(const data_endpoint_t *endpoint);

/* What a transport tells its endpoint. */
extern const transport_events_t endpoint_events;

/* Close the transport, which may be in a call; it is not the endpoint's any more. */
void endpoint_retire_transport(data_endpoint_t *endpoint);

/* Connections have failed, or cannot be made, for the code with this thread's error text: others are made in
 * their stead, or the endpoint is lost. */
void endpoint_fail(data_endpoint_t *endpoint, blink_result_t code);

/* Have the connections made, unless that is under way. */
void endpoint_want(data_endpoint_t *endpoint);

/* Something may be sent. */
void endpoint_busy(data_endpoint_t *endpoint);

/* Send within a bound. Returns whether there is more. */
bool endpoint_serve(data_endpoint_t *endpoint);

/* Lose the endpoint, for the code with this thread's error text, unless it is lost: cut all flows, and tell
 * the handler. */
void endpoint_lose(data_endpoint_t *endpoint, blink_result_t code);

/* The connections have not come in time. */
void endpoint_check_deadline(data_endpoint_t *endpoint, uint64_t now_ns);

/* The data plane's own hold of a lost endpoint ends. */
void endpoint_let_go(data_endpoint_t *endpoint);

/* ---- flows ---- */

/* Those of a lost endpoint are cut at once: why it is lost is told to whom that concerns by its `lost` call,
 * and the flows' run waits for that as all do that were there before. */
void endpoint_add_flows(data_endpoint_t *endpoint, peer_flows_t *flows, const peer_flows_calls_t *calls);

/* Nothing of them is under way. */
void endpoint_remove_flows(peer_flows_t *flows);

/* The peer's numbers of the outgoing flows are known. Errors: PROTOCOL (they are none that the peer can have
 * for them), NO_MEMORY. */
blink_result_t endpoint_number_flows(peer_flows_t *flows, uint32_t first, uint32_t count);

/* No credit for them concerns anybody any more. */
void endpoint_forget_numbers(peer_flows_t *flows);

/* What comes for a standing landing's op is dropped from now on, also what is being taken in: it is settled.
 */
void endpoint_drop(data_endpoint_t *endpoint, landing_t *landing);

/* The flows may have moves to be sent. */
void endpoint_flows_due(peer_flows_t *flows);

/* Tell the peer how far a flow may be sent. */
void endpoint_grant(data_endpoint_t *endpoint, uint32_t flow, uint32_t credit);

/* Queue credits and arrivals that are to be told. Errors: as outbox_add(). */
blink_result_t endpoint_queue_news(data_endpoint_t *endpoint);

/* Queue a control frame. Errors: as outbox_add(). */
blink_result_t endpoint_queue(data_endpoint_t *endpoint, const wire_frame_t *frame, const void *payload);

/* Whose flow it is by the peer's number; NULL: nobody's. */
peer_flows_t *endpoint_find_outgoing(const data_endpoint_t *endpoint, uint32_t number);

/* ---- resume.c ---- */

/* Something has come that the peer keeps no copy of: it is told, so that it need not send that again. */
void endpoint_tell_arrived(data_endpoint_t *endpoint, uint32_t flow, const flow_receiver_t *receiver);

/* Queue what is to be told of what has come; `must`: even if that is nothing. Errors: as outbox_add(). */
blink_result_t endpoint_queue_arrivals(data_endpoint_t *endpoint, bool must);

/* The peer's ARRIVED. Errors: PROTOCOL. */
blink_result_t endpoint_take_arrivals(data_endpoint_t *endpoint, const wire_frame_t *frame,
                                      const uint8_t *payload);

/* transport_events_t.took */
void endpoint_took(void *context, uint32_t bytes);

/* Whether keys for memory here may be told. They are good for the round in which the memory was shown, and
 * BEGIN, which tells them, may go again in later ones: so it tells the round as well. */
static inline bool endpoint_tells_keys(const data_endpoint_t *endpoint)
{
    return endpoint->round == 0 || endpoint->knows_keys;
}

/* Whether moves may go: all that is to go again is known. */
static inline bool endpoint_has_resumed(const data_endpoint_t *endpoint)
{
    return endpoint->resumed_round == endpoint->round;
}

#endif

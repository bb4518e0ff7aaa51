/* The state of the hosts, and what its parts have in common. hosts.h says what is modelled. */
#ifndef WORLD_H
#define WORLD_H

#include "hosts.h"

#include "net/flow/standing.h"

#define LANES_MAX    8u
#define LINKS_MAX    4u
#define STREAMS      2u
#define QUEUE_MAX    8u
#define CELLS        18u
#define MOVES_MAX    6u
#define UNITS        8u
#define NO_NUMBER    UINT32_MAX
#define CELL_WRITING 0xffu /* a byte that somebody is writing; 0: nothing is there */

typedef enum op_state { OP_AHEAD, OP_RUNS, OP_FAILS, OP_ENDED, OP_FAILED } op_state_t;

typedef struct host {
    uint8_t states[OPS_MAX]; /* op_state_t */
    bool cut;
} host_t;

/* A flow of an op, on both hosts. */
typedef struct lane {
    flow_sender_t sender;
    flow_receiver_t receiver; /* of a lent landing */
    landing_t landing;        /* the same */
    landing_output_t output;
    uint32_t number; /* of the flow, as the sender knows it */
    bool sends, cut, lent;
    uint8_t consumed;
    uint8_t written;          /* bit s: move s has come */
    uint8_t read;             /* bit s: the transport has done with the source of move s */
    uint8_t cells[MOVES_MAX]; /* the output */
} lane_t;

typedef struct data {
    uint8_t *address; /* verbs: where the NIC writes */
    uint32_t flow, sequence;
    uint8_t lane, move, offset, place;
} data_t;

typedef struct stream {
    data_t queue[QUEUE_MAX];
    landing_move_t move; /* of the first one, if it is being written; not for verbs */
    uint8_t count;
    bool writing; /* the first one is being written; verbs: it is written, and not told of yet */
} stream_t;

typedef enum control_type { CONTROL_BEGIN, CONTROL_CREDIT, CONTROL_FAIL, CONTROL_RESUME } control_type_t;

typedef struct control {
    uint32_t number; /* BEGIN, CREDIT: the receiver's flow */
    uint8_t type, op;
    uint8_t value;    /* BEGIN: `ended`; CREDIT: the credit; FAIL: how far was sent */
    uint8_t resuming; /* RESUME: a bit for each lane, and what of it has come: */
    uint8_t arrived[LANES_MAX], came[LANES_MAX];
} control_t;

/* From one host to another: what is under way, and the landings there. */
typedef struct link {
    landings_t landings;
    landing_t *units[UNITS];
    standing_t standing[COMMS_MAX];
    flow_receiver_t flows[COMMS_MAX][STANDING_MOST];
    uint8_t cells[CELLS];
    bool taken[CELLS];
    stream_t streams[STREAMS];
    control_t controls[QUEUE_MAX];
    uint8_t control_count;
    bool dead;                 /* the receiver has fenced and the sender does not know */
    bool fail_told[OPS_MAX];   /* FAIL has left */
    uint8_t told[COMMS_MAX];   /* of BEGINs that have come: `ended` */
    uint8_t failed[OPS_MAX];   /* FAIL has come: 1 + how far was sent; 0: it has not */
    bool begun[OPS_MAX];       /* BEGIN has come */
    uint32_t numbers[OPS_MAX]; /* the flow that it named */
} link_t;

extern struct world {
    const char *wrong;
    uint8_t fails, fences;
    bool faulty; /* something has been failed, cut or fenced */
    host_t hosts[HOSTS_MAX];
    lane_t lanes[LANES_MAX];
    link_t links[LINKS_MAX];
} world;

/* What does not change. */
extern struct setting {
    const hosts_plan_t *plan;
    uint32_t lane_count, link_count;
    const flow_plan_t *flows[LANES_MAX];
    uint8_t ops[LANES_MAX], links[LANES_MAX]; /* of lanes */
    uint8_t k[OPS_MAX];
    uint8_t from[LINKS_MAX], to[LINKS_MAX];
    uint8_t link_at[HOSTS_MAX][HOSTS_MAX], lane_at[LINKS_MAX][OPS_MAX]; /* 1 + number; 0: there is none */
    uint32_t standing_cells[LINKS_MAX];
} setting;

/* Something is wrong unless this holds, or unless the call succeeded; what is wrong first counts. */
void must(bool condition, const char *wrong);
void must_succeed(blink_result_t result);

/* ---- who is joined (world.c) ---- */

const op_plan_t *plan_of(uint32_t op);

/* NULL: the hosts have no connection. */
link_t *link_between(uint32_t from, uint32_t to);

/* The op's lane on this link; NULL: there is none. */
lane_t *lane_on(const link_t *link, uint32_t op);
uint32_t index_of(const lane_t *lane);
const flow_plan_t *flow_of(const lane_t *lane);

/* Whether the first host's program of the op joins it to the other. */
bool is_joined(uint32_t host, uint32_t op, uint32_t peer);

/* Whether all hosts have one program for the op. */
bool agree(uint32_t op);

/* As the receiver believes. */
uint32_t moves_there(const lane_t *lane);

/* The lane that comes to a host from its peer, as the host believes. */
lane_t *lane_from(uint32_t peer, uint32_t host, uint32_t op);

/* The standing landing of the op; NULL: it is for another op. */
landing_t *standing_of(link_t *link, uint32_t op);
landing_t *landing_of(lane_t *lane);

bool is_over(uint32_t host, uint32_t op);
bool is_under_way(uint32_t host, uint32_t op);
uint8_t content_of(const lane_t *lane, uint32_t move);

/* The first so many ops of the communicator have ended on the host. */
uint32_t count_ended(uint32_t host, uint32_t comm);

/* ---- what the engine does (hosts.c) ---- */

void send_control(uint32_t from, uint32_t to, control_t control);
void tell_credit(lane_t *lane);
void fail_op(uint32_t host, uint32_t op);
void cut_sender(lane_t *lane);

/* What is being written to the landing is dropped (streams.c). */
void drop_from_streams(link_t *link, const landing_t *landing);

/* Standing landings whose ops have ended go on to later ones. */
void advance(uint32_t host);

/* ---- what may happen; false: it cannot ---- */

bool host_begin(uint32_t which);
bool host_fail(uint32_t which);
bool host_take_control(uint32_t which);
bool host_end(uint32_t which);

bool stream_post(uint32_t which);
bool stream_report_done(uint32_t which);
bool stream_take_in(uint32_t which);
bool stream_arrive(uint32_t which);
bool host_use_up(uint32_t which);
bool host_cut(uint32_t which);
bool host_fence(uint32_t which);

#endif

/*
 * Hosts that gather, and what lies between them: messages arrive in an order that the test chooses, in order
 * between two hosts unless it shuffles them; hosts die at any moment, and the others hear of it some time.
 */
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include "control/gather/gather.h"

#define HOSTS_MAX       1024u
#define INIT_TIMEOUT_MS 30000u
#define ACK_TIMEOUT_MS  5000u
#define USER            1000u

typedef enum rank_state {
    RANK_AWAY,
    RANK_WAITING,
    RANK_REFUSED,
    RANK_READY,
    RANK_LOST,
    RANK_GONE
} rank_state_t;

typedef struct rank {
    gather_rank_t gathers;
    uint32_t host;
    rank_state_t state;
    gather_comm_t comm;
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
} rank_t;

typedef struct failed_id {
    unique_id_t id;
    uint32_t uid;
    blink_result_t code;
    char text[BLINK_ERROR_TEXT_BYTES];
} failed_id_t;

struct hosts;

typedef struct host {
    struct hosts *hosts;
    gather_t *gather;
    gather_host_t known; /* its name is n0, n1, … and its instance its number and 100, as its topology */
    bool is_dead, begins_badly;
    unsigned unsent; /* bit i: no message of kind i can be sent, and where one is tried the session ends */
    uint64_t charged;
    failed_id_t failed[8];
    uint32_t failed_count;
    uint64_t sent[GATHER_ENDED + 1], received[GATHER_ENDED + 1];
} host_t;

/* A message under way, or the news that `from` is dead. */
typedef struct parcel {
    struct parcel *next;
    uint32_t from, to;
    bool is_news;
    gather_message_t message;
    gather_join_rank_t *ranks;
    char text[BLINK_ERROR_TEXT_BYTES];
} parcel_t;

typedef struct hosts {
    uint32_t count;
    host_t *hosts;
    rank_t *ranks; /* of the communicator that the test makes */
    uint32_t rank_count;
    terms_t terms;
    unique_id_t id;
    uint64_t now_ms;
    parcel_t *first, **last; /* in the order in which they were sent */
    uint32_t under_way;
    bool any_order;
    uint32_t lose_percent, double_percent;
    uint64_t dice;
    gather_message_t ready; /* the arrays of the latest READY, which its parcels share */
} hosts_t;

/* So many hosts, the first of which is the id's home, and so many ranks, of which host i has those that the
 * division by `per_host` gives. */
hosts_t *hosts_create(uint32_t count, uint32_t rank_count, uint32_t per_host);
void hosts_destroy(hosts_t *hosts);

/* A rank comes; hosts_join(): and its host has it join; hosts_join_all(): all ranks come, and each host has
 * its own join together. The result of gather_join(). */
blink_result_t hosts_come(hosts_t *hosts, uint32_t rank);
blink_result_t hosts_join(hosts_t *hosts, uint32_t rank);
void hosts_join_all(hosts_t *hosts);

/* A rank that waits goes. */
void hosts_leave(hosts_t *hosts, uint32_t rank);

/* The host is dead: of its parcels that are under way `keep` arrive. */
void hosts_kill(hosts_t *hosts, uint32_t host, uint32_t keep);

/* What could arrive next, of which one arrives: the number of choices, 0 if nothing is under way. */
uint32_t hosts_choices(const hosts_t *hosts);
void hosts_step(hosts_t *hosts, uint32_t choice);

/* Let things happen, without time passing, in an order by the dice, until nothing is under way; and then with
 * time passing as it has to. */
void hosts_settle(hosts_t *hosts);
void hosts_run(hosts_t *hosts);

uint32_t hosts_roll(hosts_t *hosts, uint32_t sides);

/* Of all hosts alive. */
gather_counts_t hosts_left(const hosts_t *hosts);

#endif

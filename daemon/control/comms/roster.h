/*
 * A communicator as the control thread knows it: the ranks that gather under an unguessable id, leave, abort
 * and die. What the ranks submit is the engine's business.
 *
 * A roster gathers until every rank has joined, and is then ready. It is aborted once, with a reason: by a
 * rank, by a rank's death, by the engine, or because the daemon stops. It ends when the last rank has left. A
 * roster whose gathering fails ends at once.
 *
 * Under an id with a home the ranks may be on several hosts (gather/gather.h): the roster has members on this
 * host alone, and when all ranks have gathered their hosts meet before the roster is ready (meeting.h).
 */
#ifndef BLINK_CONTROL_ROSTER_H
#define BLINK_CONTROL_ROSTER_H

#include "base/deadline.h"
#include "blink.pb-c.h"
#include "control/clients/client.h"
#include "control/comms/failed_ids.h"
#include "control/comms/rendezvous.h"

typedef struct lost_ops lost_ops_t;

typedef enum roster_state {
    ROSTER_GATHERING,
    ROSTER_MEETING, /* all ranks have gathered, and their hosts meet */
    ROSTER_READY,
    ROSTER_ABORTED
} roster_state_t;

/* One rank of a roster. */
typedef struct member {
    struct roster *roster;
    client_t *client;                    /* NULL: not joined, left, or dead; or it is on another host */
    gather_rank_t gather;                /* rendezvous.h's while it gathers: `local` is not NULL then */
    list_t link;                         /* on client->members */
    list_t of_joined;                    /* on roster->joined */
    table_link_t of_numbers, of_devices; /* in rosters->members; in roster->devices while it gathers */
    list_t of_expected;         /* until it has joined: on `expecting` of the parent's member (children.h) */
    struct member *expected_of; /* that member, as long as it is on that list */
    list_t expecting;           /* places in rosters that gather, which this rank is to take */
    list_t surviving;           /* the same in rosters of survivors, which outlive this one */
    list_t of_losing;           /* on roster->losing */
    list_t of_asking;           /* on roster->asking */
    uint64_t asks;              /* CommSurvivors to be answered, while on that list, */
    uint32_t asks_fewer_than;   /* and not before fewer live; 0: at once */
    bool survives;              /* it is on another host, which says that it lives */
    const char *gone;           /* how it left, for those that expected it; NULL: it has not */
    uint32_t rank, number, device; /* number: 0 until it has joined */
    uint64_t request;              /* CommInit or CommDestroy to be answered */
    bool leaving, left;
} member_t;

/* The hosts of a communicator that have ranks, in an order that is the same on all of them. */
typedef struct roster_hosts {
    uint32_t count, own;
    uint32_t *host_of_rank, *device_of_rank; /* by rank */
    bool *has_told;          /* by host: which of its ranks live, or that cannot be known (survivors.h) */
    bool are_partial;        /* some of them has no such communicator, as has been told */
    blink_result_t end_code; /* how the communicator ended, with the text; BLINK_OK: it has not */
    char end_text[BLINK_ERROR_TEXT_BYTES];
    gather_host_t hosts[];
} roster_hosts_t;

typedef struct roster {
    control_t *control;
    bag_item_t of_all, of_tenant; /* in rosters->all, in tenant->rosters */
    table_link_t of_numbers;      /* in rosters->by_number */
    deadline_t deadline; /* of the gathering, in loop time: on rosters->gathering unless the id has a home */
    table_link_t of_ids; /* in rosters->ids while it gathers */
    list_t joined;       /* members with a client */
    list_t losing;    /* member_t.of_losing: those that will not join what expects them, which is to fail */
    work_t lose;      /* its slices, while there are such */
    uint32_t aborter; /* the rank that aborted it, and its process */
    pid_t aborter_pid;
    table_t devices; /* of the members, while it gathers */
    uint32_t number;
    char label[LABEL_BYTES]; /* that the first rank gave; "": none */
    char title[COMM_TITLE_BYTES];
    uint8_t unique_id[UNIQUE_ID_BYTES];
    char id[9];            /* as tools show it: digits of its nonce, too few to join by */
    bool has_home;         /* the id has: ranks may be on other hosts */
    gather_comm_t comm;    /* its name on all hosts, once all ranks have gathered there; number 0: none */
    bool is_named;         /* it has one, and not all hosts know how the communicator has ended */
    table_link_t of_comms; /* in rosters->comms, while it has a name */
    roster_hosts_t *hosts; /* NULL: not gathered, or all ranks are on this one */
    list_t of_meeting;     /* on rosters->meeting */
    list_t of_shrinking;   /* on rosters->shrinking, once hosts tell each other which ranks live */
    work_t miss_hosts;     /* its slice, while it is to find out which of its hosts are lost */
    list_t asking;         /* member_t.of_asking: those that want to know (survivors.h) */
    deadline_t asked;      /* until when, in loop time: on rosters->asked */
    tenant_t *tenant;
    uint32_t rank_count, joined_count, left_count; /* the last two: of this host */
    uint32_t first_rank;                           /* the rank that joined first */
    blink_algorithm_t algorithm;
    uint32_t op_timeout_ms, init_timeout_ms; /* 0: the daemon's setting */
    roster_state_t state;
    bool aborted_by_rank;
    bool of_survivors; /* of the parent's ranks */
    terms_note_t note;
    engine_comm_t *engine; /* NULL while gathering, and once all ranks have left */
    member_t members[];
} roster_t;

struct rosters {
    control_t *control;
    bag_t all;
    list_t gathering; /* roster_t.deadline */
    table_t ids; /* of those that gather; hashed with id_secrets, for the ids are the clients' to choose */
    uint64_t id_secrets[2];
    table_t by_number;
    table_t comms;              /* those with ranks on several hosts, by gather_comm_t */
    list_t meeting;             /* roster_t.of_meeting: those that wait for sessions of their hosts */
    list_t shrinking;           /* roster_t.of_shrinking */
    list_t asked;               /* roster_t.asked */
    uv_timer_t asked_timer;     /* the earliest of these */
    table_t members;            /* those that have joined, by their numbers */
    uint32_t *ranks_on;         /* by device: members that have joined */
    uv_timer_t gathering_timer; /* the earliest deadline */
    failed_ids_t *failed_ids;
    lost_ops_t *lost_ops;
    uint32_t last_roster, last_member;
    size_t to_abort; /* the first so many of `all`, while the daemon stops */
};

/* Errors: NO_MEMORY. */
blink_result_t rosters_create(control_t *control, rosters_t **rosters);

/* After the loop is closed. NULL is ignored. */
void rosters_destroy(rosters_t *rosters);

/* A roster whose first rank has come, on the tenant's account, which has been charged. NULL: no memory. */
roster_t *roster_create(const client_t *client, const Blinkwire__CommInit *message);

void roster_free(roster_t *roster);

/* Have the timer run for the roster whose deadline, of this list, comes first; stop it if there is none. */
void rosters_arm(uv_timer_t *timer, const list_t *deadlines, uv_timer_cb on_timer);

/* The roster ends if all of its ranks have left, and nothing is to fail any more that expected them. */
void roster_end_if_left(roster_t *roster);

/* The roster does not gather any more. */
void roster_end_gathering(roster_t *roster);

/* All ranks have gathered on all hosts, and this is what they are called. False without memory. */
bool roster_name(roster_t *roster, gather_comm_t comm);

/* All hosts know how the communicator has ended. */
void roster_forget_name(roster_t *roster);

/* NULL: no roster has the name. */
roster_t *roster_find_named(const rosters_t *rosters, gather_comm_t comm);

/* " on n1" for sentences that other hosts may hear; "" if the id has no home. */
const char *roster_place(const roster_t *roster, char text[GATHER_NAME_BYTES + 4]);

/* NULL: no roster has the number. */
roster_t *roster_find_number(const rosters_t *rosters, uint32_t number);

/* The user's roster that gathers under the id; NULL: none does. */
roster_t *roster_find_gathering(const rosters_t *rosters, const uint8_t unique_id[UNIQUE_ID_BYTES],
                                uid_t uid);

/* How long its ranks may take to join. */
uint64_t roster_init_timeout_ms(const roster_t *roster);

/* How long its ops may wait for ranks. */
uint64_t roster_op_timeout_us(const roster_t *roster);

/* A rank says how long from now on, for all of this host; it is answered. */
void roster_set_timeout(client_t *client, uint64_t request, const Blinkwire__CommTimeout *message);

/* Whether its ranks have a communicator, be it aborted. */
static inline bool roster_has_begun(const roster_t *roster)
{
    return roster->state >= ROSTER_READY;
}

/* Whether the rank has joined and not begun to leave, as far as that is known: of ranks on other hosts once
 * they have been asked for. */
static inline bool member_lives(const member_t *member)
{
    return member->survives || (member->client && !member->client->leaving && !member->leaving);
}

/* The client takes the member's place. False without memory; then nothing has changed. */
bool member_link(member_t *member, client_t *client);
void member_unlink(member_t *member);

/* The member that a client's handle names, unless the roster still gathers or the member has begun to leave.
 * Errors: NOT_FOUND. */
blink_result_t roster_find_member(const client_t *client, uint32_t number, member_t **found);

#endif

/*
 * How ranks on several hosts find each other. Pure: no sockets, no clock, no thread; time is passed in, and
 * messages go out by a call. One thread at a time.
 *
 * Ranks gather under an id at the id's home, which is one daemon. A daemon has its own ranks join
 * there; the home checks that they agree, refuses those that do not, and when all
 * are there sends word down a tree of the hosts, of which it is the root. Every host acknowledges up the tree
 * once all below it have the word. From then on the tree serves to tell all hosts when the communicator is
 * lost; it ends from its leaves when the hosts have ended their parts.
 *
 *   a host              home                 the tree
 *   JOIN, JOIN  ──────►  (checks)
 *       ◄────── REFUSED  (a rank, or)
 *       ◄─────── FAILED  (all of them)
 *   LEFT  ────────────►  (a rank has gone: all of them)
 *                        READY  ───────────►  READY …    the ranks are told
 *                               ◄── ACKNOWLEDGED … ◄──
 *                        LOST  ◄──────────►  LOST …      in either direction, once
 *                              ◄──── ENDED … ◄──
 *
 * A gathering fails for all of its ranks with one reason, which is the first that the home knows: a rank or a
 * host goes, a host fails to begin, the time is up. Until a host has the home's word its ranks wait; they
 * wait at most a second longer than the home's time, and no longer than the home lives. A host that has had
 * READY tells the same reason as the loss of the communicator.
 *
 * What a call costs: at most as many steps as one communicator has ranks, unless its comment says otherwise;
 * a JOIN at the home as many as it has ranks times the hosts that have come.
 * What is kept: at the home a place for every rank of the communicator, charged to the user until all have
 * joined, and a note of every host until all have READY; elsewhere a note of each rank that gathers, charged
 * too; and of a communicator that has begun, on every host, at most 17 neighbours.
 */
#ifndef BLINK_GATHER_H
#define BLINK_GATHER_H

#include "base/list.h"
#include "control/gather/terms.h"
#include "unique_id.h"

/* How much longer than the home a host waits for the home. */
#define GATHER_GRACE_MS 1000u

/* Hosts below a host of the tree: host i has hosts 16 i + 1 to 16 i + 16 below it. */
#define GATHER_CHILDREN 16u

#define GATHER_NAME_BYTES   65u
#define GATHER_DIGEST_BYTES 32u

/* A daemon, as others know it. */
typedef struct gather_host {
    char name[GATHER_NAME_BYTES]; /* "": not known yet */
    uint64_t instance;            /* of its process; never 0 */
    uint16_t port;
    uint8_t addresses[UNIQUE_ID_ADDRESSES][16]; /* as in an id */
    uint8_t topology[GATHER_DIGEST_BYTES];      /* of the host's devices and links; of zeros: not told */
} gather_host_t;

/* A communicator, the same on all hosts. A number of 0 is none. */
typedef struct gather_comm {
    uint64_t home;
    uint32_t number;
} gather_comm_t;

/* ---- messages ---- */

typedef struct gather_join_rank {
    uint32_t rank, device, ticket; /* ticket: counted by the host, by which it knows the rank again */
    bool on_gpu;
} gather_join_rank_t;

/* A host in the order of the tree; the first is the home, with or without ranks. */
typedef struct gather_ready_host {
    gather_host_t host;
    uint64_t attempt; /* of the host's JOIN */
} gather_ready_host_t;

typedef struct gather_seat {
    uint32_t host, device, ticket;
} gather_seat_t;

typedef enum gather_kind {
    GATHER_JOIN,         /* host to home: id, uid, attempt, terms, ranks */
    GATHER_REFUSED,      /* home to host: id, attempt, ticket, code, text */
    GATHER_FAILED,       /* home to host: id, attempt, comm if READY has gone out, code, text */
    GATHER_LEFT,         /* host to home, a rank has gone: id, uid, attempt, code, text */
    GATHER_READY,        /* down the tree: id, uid, comm, terms, hosts, seats */
    GATHER_ACKNOWLEDGED, /* up: comm */
    GATHER_LOST,         /* both ways: comm, code, text */
    GATHER_ENDED         /* up: comm */
} gather_kind_t;

/* Only what the kind names is set. Arrays and text are borrowed until the call returns. */
typedef struct gather_message {
    gather_kind_t kind;
    unique_id_t id;
    uint32_t uid, ticket;
    uint64_t attempt; /* the host's own number for this gathering of its ranks */
    gather_comm_t comm;
    blink_result_t code;
    const char *text;
    terms_t terms;
    const gather_join_rank_t *ranks;
    uint32_t rank_count; /* in `ranks`; terms.rank_count is the communicator's */
    const gather_ready_host_t *hosts;
    uint32_t host_count;
    const gather_seat_t *seats; /* by rank: terms.rank_count of them */
} gather_message_t;

/* ---- what the caller provides ---- */

/* A rank of this host that gathers. It is the caller's, and stays where it is until `refused` or `ready`
 * names the rank, or until gather_leave(). The caller fills in the first three. */
typedef struct gather_rank {
    uint32_t rank, device;
    bool on_gpu;
    uint32_t ticket; /* this and the rest: gather's */
    list_t link;
    struct local *local;
} gather_rank_t;

/* Must not call back into gather. Where a code is passed, this thread's error text is the sentence. */
typedef struct gather_calls {
    /* Send to another host, now or later; if it turns out later that this cannot be, call gather_peer_lost().
     * On an error the host is lost, for this thread's error text. */
    blink_result_t (*send)(void *context, const gather_host_t *to, const gather_message_t *message);

    /* The rank does not come about. */
    void (*refused)(void *context, gather_rank_t *rank, blink_result_t code);

    /* All ranks have joined, and these are here, in no order; none: this is the home and no more. After an
     * error the communicator is lost everywhere, and the ranks have been told by the callee. */
    blink_result_t (*ready)(void *context, const gather_message_t *ready, uint32_t own_host, list_t *ranks);

    /* What was ready is lost, once; not called for what gather_comm_lost() was called for. */
    void (*lost)(void *context, gather_comm_t comm, blink_result_t code);

    /* Charge a user for so many ranks that gather, and credit them. */
    blink_result_t (*charge)(void *context, uint32_t uid, uint32_t rank_count);
    void (*credit)(void *context, uint32_t uid, uint32_t rank_count);

    /* An id has failed for good, of ranks that have so long to join; and whether it has: BLINK_OK if not. */
    void (*remember)(void *context, uint32_t uid, const unique_id_t *id, uint64_t init_timeout_ms,
                     blink_result_t code);
    blink_result_t (*recall)(void *context, uint32_t uid, const unique_id_t *id);
} gather_calls_t;

typedef struct gather_config {
    gather_host_t own;
    gather_calls_t calls;
    void *context;
    uint32_t init_timeout_ms;        /* of ranks that ask for none */
    uint32_t acknowledge_timeout_ms; /* for READY to reach all hosts */
    uint64_t id_secrets[2];          /* id_hash.h */
} gather_config_t;

typedef struct gather gather_t;

/* Errors: NO_MEMORY. */
blink_result_t gather_create(const gather_config_t *config, gather_t **gather);

/* Whoever still gathers is not told. NULL is ignored. */
void gather_destroy(gather_t *gather);

/* ---- this host's ranks ---- */

/*
 * A rank is to gather under this id; if the home is another host, then it joins there in the next
 * gather_work(), with all that have come until then. On success `refused` or `ready` is called for the rank,
 * maybe before this returns. Errors: INVALID_ARGUMENT, QUOTA, NO_MEMORY, what `recall` says: nothing is
 * called.
 */
blink_result_t gather_join(gather_t *gather, const unique_id_t *id, uint32_t uid, const terms_t *terms,
                           gather_rank_t *rank, uint64_t now_ms);

/* The rank goes: the gathering fails for all others with this code and this thread's error text. */
void gather_leave(gather_t *gather, gather_rank_t *rank, blink_result_t code);

/* This host gives a communicator up that was ready here: all hosts are told, with this thread's error text.
 */
void gather_comm_lost(gather_t *gather, gather_comm_t comm, blink_result_t code);

/* This host's part of a communicator has ended in good order. */
void gather_comm_ended(gather_t *gather, gather_comm_t comm);

/* ---- other hosts ---- */

/* A message has come, whose form has been checked. */
void gather_receive(gather_t *gather, const gather_host_t *from, const gather_message_t *message,
                    uint64_t now_ms);

/* What a host is called, of which an id may have told no more than where it is; "": not known. */
void gather_name_host(gather_t *gather, uint64_t instance, const char *name);

/* A host is gone or cannot be reached, for the reason in this thread's error text. What it took part in fails
 * in gather_work(). */
void gather_peer_lost(gather_t *gather, uint64_t instance);

/* ---- time ---- */

/* Do one thing that is due: true if there may be more. */
bool gather_work(gather_t *gather, uint64_t now_ms);

/* When gather_work() is to be called: 0: now; UINT64_MAX: not before something else has happened. */
uint64_t gather_due_ms(const gather_t *gather);

/* Steps that calls made beyond the ranks of one communicator, since this was asked last: places that were
 * passed by in a list of deadlines. */
uint64_t gather_take_steps(gather_t *gather);

/* How much there is: gatherings at this home, of this host's ranks, trees, hosts that take part. */
typedef struct gather_counts {
    size_t homes, locals, trees, peers;
} gather_counts_t;

gather_counts_t gather_count(const gather_t *gather);

#endif

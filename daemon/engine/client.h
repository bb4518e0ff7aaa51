/*
 * The engine's side of one client: its ring, what is owed to it, and the communicators that it is a member
 * of. Every field is the engine thread's unless its comment says otherwise.
 */
#ifndef BLINK_ENGINE_CLIENT_H
#define BLINK_ENGINE_CLIENT_H

#include "engine/engine.h"
#include "engine/region.h"

typedef struct comm_rank comm_rank_t;
typedef struct stored_op stored_op_t;

#define REGION_BUCKETS     64u
#define MEMBERSHIP_BUCKETS 16u /* to begin with */

struct engine_client {
    engine_t *engine;
    uint32_t client;
    ring_t ring;
    int doorbell_fd, completion_fd;
    engine_region_t *regions[REGION_BUCKETS]; /* by number modulo buckets */
    engine_region_t *windows;                 /* its windows region; NULL: none */
    stored_op_t *stored;
    uint32_t kept;             /* turns on streams, and stored entries */
    stored_op_t *storing;      /* whose last entry has not come; not among `stored` */
    comm_rank_t **memberships; /* by member modulo buckets, which are a power of two */
    uint32_t membership_buckets, membership_count;
    uint32_t outstanding; /* completions owed */
    uint32_t begun_ops;   /* live ops whose first submission was this client's */
    uint32_t long_ops;    /* of these, in a run expected to take long */
    bool removed;         /* its process is gone: complete nothing, free when `outstanding` is 0 */
    _Atomic uint64_t op_count;
    engine_done_t done;
    mailbox_item_t add_item, remove_item;
    mailbox_item_t *deferred, **deferred_end; /* to be run once the ring has been found empty */
    engine_region_t *control_regions;         /* control thread */
    engine_client_t *next;
};

/* Take and handle a few submissions; true if there was one. May free this client and others. */
bool client_poll(engine_client_t *client);

/* One of the outstanding is no more; frees a removed client with its last one. */
void client_release(engine_client_t *client);

/* Publish a completion and update the client's counts; frees a removed client with its last one. */
void client_complete(engine_client_t *client, uint64_t user_data, blink_result_t result, const char *text);

void client_add_membership(engine_client_t *client, comm_rank_t *rank);

void client_remove_membership(engine_client_t *client, comm_rank_t *rank);

/* Free a removed client whose last op and membership have ended. */
void client_free_if_done(engine_client_t *client);

void client_update_wait_policy(engine_client_t *client);

/* Run an item after the submissions that the client made before it asked for what the item does: the control
 * socket may be faster than the ring. */
void client_defer(engine_client_t *client, mailbox_item_t *item, void (*run)(mailbox_item_t *item));

#endif

/*
 * The engine's side of one client: its ring, what it is owed, and the communicators that it is a member of.
 * Every field is the engine thread's unless its comment says otherwise.
 */
#ifndef BLINK_ENGINE_CLIENT_H
#define BLINK_ENGINE_CLIENT_H

#include "base/list.h"
#include "engine/comm/rank.h"
#include "engine/loop.h"

#define REGION_BUCKETS 64u

struct engine_client {
    engine_t *engine;
    list_t of_active; /* tenant->active_clients while it is active, engine->leaving once it is removed */
    uint32_t client;  /* number, for messages */
    tenant_t *tenant;
    ring_t ring;
    int doorbell_fd, completion_fd;
    list_t regions[REGION_BUCKETS];     /* engine_region_t.of_client, by number modulo buckets */
    engine_region_t *windows;           /* its windows region; NULL: none */
    list_t awaited;                     /* ops in OP_AWAITING that wait for this client (op/await.h) */
    uint32_t awaited_gpu_ops;           /* of these, whose words GPUs may write */
    uint32_t awaited_count, looks_owed; /* of these, and that are to be looked at before it may rest */
    list_t stored;                      /* stored_op_t.of_client */
    stored_op_t *storing;               /* whose last entry has not come; not in `stored` */
    stored_op_t *replaying;      /* not all of whose entries are submitted yet (replay.h); NULL: none */
    uint32_t kept;               /* tickets and stored entries that the engine keeps (CLIENT_KEPT_MAX) */
    list_t *memberships;         /* comm_rank_t.of_client, by member modulo buckets */
    uint32_t membership_buckets; /* a power of two */
    uint32_t membership_count;
    uint32_t outstanding; /* completions owed, and replays that have not ended */
    uint32_t begun_ops;   /* live ops whose first submission was this client's */
    uint32_t long_ops;    /* of these, in a run expected to take long */
    bool removed;         /* its process is gone: complete nothing, free when nothing of it is left */
    _Atomic uint64_t op_count;
    bool told;             /* its ring says that it must ring its doorbell (serve.h) */
    bool settled;          /* told, and looked at since (serve.h) */
    bool crowded;          /* engine->crowded, when its wait policy was set */
    uint64_t active_us;    /* when it last did something */
    uint64_t pong_us;      /* when its ping was last looked at */
    uint32_t left_buckets; /* of its memberships, that have been looked at since it was removed */
    mailbox_item_t *deferred, **deferred_end; /* what the control thread asked for, until the ring has been
                                                 found empty; oldest first */
    engine_done_t done;
    mailbox_item_t add_item, remove_item;
};

/* Give a client that is removed another slice. */
static inline void client_leave_attend(engine_client_t *client)
{
    if (list_is_empty(&client->of_active))
        list_append(&client->engine->leaving, &client->of_active);
}

/* The client is owed `count` more. */
static inline void client_owe(engine_client_t *client, uint32_t count)
{
    if (client->outstanding == 0 && count > 0)
        client->engine->clients_waiting++;
    client->outstanding += count;
}

/* The client is owed one less. */
static inline void client_release(engine_client_t *client)
{
    if (--client->outstanding > 0)
        return;
    client->engine->clients_waiting--;
    if (client->removed)
        client_leave_attend(client);
}

/* Publish a completion that was owed. */
static inline void client_complete(engine_client_t *client, uint64_t user_data, blink_result_t result,
                                   const char *text)
{
    /* Relaxed: a counter. */
    atomic_fetch_add_explicit(&client->op_count, 1, memory_order_relaxed);
    if (!client->removed && ring_complete(&client->ring, user_data, result, text))
        ring_raise_event(client->completion_fd);
    client_release(client);
}

void client_add_membership(engine_client_t *client, comm_rank_t *rank);
void client_remove_membership(engine_client_t *client, comm_rank_t *rank);

/* The rank with this handle; NULL: the client has none. */
static inline comm_rank_t *client_find_membership(const engine_client_t *client, uint32_t member)
{
    LIST_FOR_EACH (link, &client->memberships[member % client->membership_buckets]) {
        comm_rank_t *rank = CONTAINER_OF(link, comm_rank_t, of_client);
        if (rank->member == member)
            return rank;
    }
    return NULL;
}

/* The client is visited from now on. Nothing to do if it is visited already or is being removed. */
void client_activate(engine_client_t *client);

/* The client is not visited any more. */
void client_deactivate(engine_client_t *client);

/* The client hears that the engine turns. */
void client_answer_ping(engine_client_t *client);

/* Tell the client whether it must ring its doorbell. */
void client_tell(engine_client_t *client, bool sleeping);

void client_update_wait_policy(engine_client_t *client);

static inline bool client_is_active(const engine_client_t *client)
{
    return !client->removed && !list_is_empty(&client->of_active);
}

/* The client has been looked at since it was told; or something may have come that is to be looked at. */
static inline void client_settle(engine_client_t *client)
{
    client->engine->unsettled -= !client->settled && client_is_active(client);
    client->settled = true;
}

static inline void client_unsettle(engine_client_t *client)
{
    client->engine->unsettled += client->settled && client_is_active(client);
    client->settled = false;
}

/* How many of the ops that await the client are to be looked at. */
static inline void client_set_looks_owed(engine_client_t *client, uint32_t owed)
{
    owed = owed < client->awaited_count ? owed : client->awaited_count;
    client->engine->looks_owed += owed - client->looks_owed;
    client->looks_owed = owed;
}

/* Run an item after the submissions that the client made before it asked for what the item does: the control
 * socket may be faster than the ring. */
void client_defer(engine_client_t *client, mailbox_item_t *item, void (*run)(mailbox_item_t *item));

/* Run some of what was deferred; true if there was anything. */
bool client_run_deferred(engine_client_t *client);

/* Its process is gone: take the client apart, slice by slice, and hand it back to the control thread once it
 * is owed nothing and is a member of nothing (leave.c). */
void client_leave_begin(engine_client_t *client);
void client_leave_slice(engine_client_t *client);

/* Nothing of the client is left: the control thread closes it and frees it. */
void client_hand_back(engine_client_t *client);

#endif

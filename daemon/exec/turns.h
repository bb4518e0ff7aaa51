/*
 * Whose turn it is of what waits in an executor. Tenants, and of each tenant its communicators, take turns by
 * deficit round robin (base/fair.h), and pay in bytes that are read and written. What waits is the executor's
 * own: here is only for whom. Not thread-safe: the executor guards it.
 */
#ifndef BLINK_EXEC_TURNS_H
#define BLINK_EXEC_TURNS_H

#include "base/fair.h"
#include "exec/share.h"

typedef struct pace_flows pace_flows_t;

typedef struct exec_turns {
    fair_round_t tenants; /* exec_tenant_t.turn: those of which something waits */
    list_t known;         /* exec_tenant_t.of_turns: those that have shares */
} exec_turns_t;

/* A tenant that has shares. */
typedef struct exec_tenant {
    list_t of_turns;
    const void *key;
    uint32_t share_count;
    fair_share_t turn;   /* while something of it waits */
    fair_round_t shares; /* exec_share_t.turn: of those of which something waits */
    uint32_t granted;    /* on GPUs: runs that have been granted and have not ended */
    pace_flows_t *flows; /* on host devices, paced: for its bookings */
} exec_tenant_t;

struct exec_share {
    exec_t *exec;
    exec_tenant_t *tenant;
    fair_share_t turn; /* while something of it waits */
    list_t due;        /* what waits, by a link of the executor's, the oldest first */
    /* On host devices. */
    uint32_t users;      /* workers that run a task of it */
    bool destroyed;      /* the last of them frees it */
    pace_flows_t *flows; /* paced: for its bookings */
};

/* @param quantum_bytes  what a communicator may take before the next communicator's turn, and a tenant of
 *                       weight 1 before the next tenant's. */
void exec_turns_init(exec_turns_t *turns, int64_t quantum_bytes);

/* Make the share, which is zero, one of this tenant's. Errors: NO_MEMORY. */
blink_result_t exec_turns_add_share(exec_turns_t *turns, const void *tenant, uint32_t weight,
                                    exec_share_t *share);

/* Nothing of the share waits. Returns its tenant, to be freed, if the share was its last; else NULL. A share
 * that could not be added is ignored. */
exec_tenant_t *exec_turns_remove_share(exec_share_t *share);

/* Something of the share waits from now on. Returns whether of its tenant nothing did before. */
static inline bool exec_turns_enter(exec_turns_t *turns, exec_share_t *share)
{
    fair_enter(&share->tenant->shares, &share->turn);
    if (fair_is_waiting(&share->tenant->turn))
        return false;
    fair_enter(&turns->tenants, &share->tenant->turn);
    return true;
}

/* Nothing of the share waits any more. Returns whether nothing of its tenant does. */
static inline bool exec_turns_leave(exec_share_t *share)
{
    fair_leave(&share->turn);
    if (!list_is_empty(&share->tenant->shares.waiting))
        return false;
    fair_leave(&share->tenant->turn);
    return true;
}

/* Whose turn it is; NULL: nothing waits. */
static inline exec_share_t *exec_turns_next(exec_turns_t *turns)
{
    fair_share_t *turn = fair_next(&turns->tenants);
    if (!turn)
        return NULL;
    return CONTAINER_OF(fair_next(&CONTAINER_OF(turn, exec_tenant_t, turn)->shares), exec_share_t, turn);
}

/* The share has had so much. */
static inline void exec_turns_charge(exec_turns_t *turns, exec_share_t *share, uint64_t bytes)
{
    fair_charge(&share->tenant->shares, &share->turn, bytes);
    fair_charge(&turns->tenants, &share->tenant->turn, bytes);
}

#endif

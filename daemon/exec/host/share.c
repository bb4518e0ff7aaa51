#include "exec/host/pool.h"

#include <stdlib.h>

/* ---- under the pool's lock ---- */

/* Paced: the share, and its tenant unless it has them, are booked for. */
static blink_result_t add_flows(const exec_host_t *exec, uint32_t weight, exec_share_t *share)
{
    exec_tenant_t *tenant = share->tenant;
    if (!exec->config.pace)
        return BLINK_OK;
    if (!tenant->flows)
        BLINK_TRY(pace_flows_create(exec->config.pace, NULL, weight, &tenant->flows));
    return pace_flows_create(exec->config.pace, tenant->flows, 1, &share->flows);
}

void share_free(exec_share_t *share)
{
    exec_tenant_t *tenant = exec_turns_remove_share(share);
    pace_flows_destroy(share->flows);
    free(share);
    if (tenant)
        pace_flows_destroy(tenant->flows);
    free(tenant);
}

/* ---- the calls ---- */

blink_result_t host_share_create(exec_t *base, const void *tenant, uint32_t weight, exec_share_t **share)
{
    exec_host_t *exec = (exec_host_t *)base;
    exec_share_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a share of the workers");
    created->exec = base;
    pthread_mutex_lock(&exec->mutex);
    blink_result_t result = exec_turns_add_share(&exec->queue.turns, tenant, weight, created);
    if (result == BLINK_OK)
        result = add_flows(exec, weight, created);
    if (result != BLINK_OK)
        share_free(created);
    pthread_mutex_unlock(&exec->mutex);
    if (result == BLINK_OK)
        *share = created;
    return result;
}

void host_share_destroy(exec_share_t *share)
{
    exec_host_t *exec = (exec_host_t *)share->exec;
    pthread_mutex_lock(&exec->mutex);
    share->destroyed = true;
    if (share->users == 0)
        share_free(share);
    pthread_mutex_unlock(&exec->mutex);
}

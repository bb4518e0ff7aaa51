#include "exec/host/pool.h"

#include <stdlib.h>

/* ---- under the pool's lock ---- */

static void tenant_free(exec_tenant_t *tenant)
{
    pace_flows_destroy(tenant->flows);
    free(tenant);
}

static exec_tenant_t *tenant_find(const exec_host_t *exec, const void *key)
{
    LIST_FOR_EACH (link, &exec->tenants) {
        exec_tenant_t *tenant = CONTAINER_OF(link, exec_tenant_t, of_exec);
        if (tenant->key == key)
            return tenant;
    }
    return NULL;
}

static exec_tenant_t *tenant_add(exec_host_t *exec, const void *key, uint32_t weight)
{
    exec_tenant_t *tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    if (exec->config.pace && pace_flows_create(exec->config.pace, NULL, weight, &tenant->flows) != BLINK_OK) {
        free(tenant);
        return NULL;
    }
    tenant->key = key;
    fair_share_init(&tenant->turn, weight, WORK_QUANTUM_BYTES);
    fair_round_init(&tenant->shares, WORK_QUANTUM_BYTES);
    list_append(&exec->tenants, &tenant->of_exec);
    return tenant;
}

static blink_result_t share_init(exec_host_t *exec, exec_share_t *share, const void *key, uint32_t weight)
{
    exec_tenant_t *tenant = tenant_find(exec, key);
    if (!tenant)
        tenant = tenant_add(exec, key, weight);
    if (!tenant)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a tenant's share of the workers");
    *share = (exec_share_t){.exec = exec, .tenant = tenant};
    fair_share_init(&share->turn, 1, WORK_QUANTUM_BYTES);
    list_init(&share->due);
    tenant->share_count++;
    if (!exec->config.pace)
        return BLINK_OK;
    return pace_flows_create(exec->config.pace, tenant->flows, 1, &share->flows);
}

void share_free(exec_share_t *share)
{
    exec_tenant_t *tenant = share->tenant;
    pace_flows_destroy(share->flows);
    free(share);
    if (!tenant || --tenant->share_count > 0)
        return;
    list_remove(&tenant->of_exec);
    tenant_free(tenant);
}

/* ---- the calls ---- */

blink_result_t exec_share_create(exec_host_t *exec, const void *tenant, uint32_t weight, exec_share_t **share)
{
    exec_share_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a share of the workers");
    pthread_mutex_lock(&exec->mutex);
    blink_result_t result = share_init(exec, created, tenant, weight);
    if (result != BLINK_OK)
        share_free(created);
    pthread_mutex_unlock(&exec->mutex);
    if (result == BLINK_OK)
        *share = created;
    return result;
}

void exec_share_destroy(exec_share_t *share)
{
    if (!share)
        return;
    exec_host_t *exec = share->exec;
    pthread_mutex_lock(&exec->mutex);
    share->destroyed = true;
    if (share->users == 0)
        share_free(share);
    pthread_mutex_unlock(&exec->mutex);
}

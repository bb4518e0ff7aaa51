#include "exec/turns.h"

#include <stdlib.h>

void exec_turns_init(exec_turns_t *turns, int64_t quantum_bytes)
{
    fair_round_init(&turns->tenants, quantum_bytes);
    list_init(&turns->known);
}

static exec_tenant_t *find_tenant(const exec_turns_t *turns, const void *key)
{
    LIST_FOR_EACH (link, &turns->known) {
        exec_tenant_t *tenant = CONTAINER_OF(link, exec_tenant_t, of_turns);
        if (tenant->key == key)
            return tenant;
    }
    return NULL;
}

static exec_tenant_t *add_tenant(exec_turns_t *turns, const void *key, uint32_t weight)
{
    exec_tenant_t *tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->key = key;
    fair_share_init(&tenant->turn, weight, turns->tenants.quantum);
    fair_round_init(&tenant->shares, turns->tenants.quantum);
    list_append(&turns->known, &tenant->of_turns);
    return tenant;
}

blink_result_t exec_turns_add_share(exec_turns_t *turns, const void *key, uint32_t weight,
                                    exec_share_t *share)
{
    exec_tenant_t *tenant = find_tenant(turns, key);
    if (!tenant)
        tenant = add_tenant(turns, key, weight);
    if (!tenant)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a tenant's share of an executor");
    tenant->share_count++;
    share->tenant = tenant;
    fair_share_init(&share->turn, 1, turns->tenants.quantum);
    list_init(&share->due);
    return BLINK_OK;
}

exec_tenant_t *exec_turns_remove_share(exec_share_t *share)
{
    exec_tenant_t *tenant = share->tenant;
    if (!tenant || --tenant->share_count > 0)
        return NULL;
    list_remove(&tenant->of_turns);
    return tenant;
}

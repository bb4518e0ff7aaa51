#include "base/tenant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tenants_init(tenants_t *tenants, const budget_limit_t limits[BUDGET_KINDS])
{
    list_init(&tenants->all);
    budget_init(&tenants->budget, limits);
}

static tenant_t *tenant_find(const tenants_t *tenants, uid_t uid, const char *cgroup)
{
    LIST_FOR_EACH (link, &tenants->all) {
        tenant_t *tenant = CONTAINER_OF(link, tenant_t, link);
        if (tenant->uid == uid && strcmp(tenant->cgroup, cgroup) == 0)
            return tenant;
    }
    return NULL;
}

static tenant_t *tenant_create(tenants_t *tenants, uid_t uid, const char *cgroup)
{
    size_t cgroup_bytes = strlen(cgroup) + 1;
    tenant_t *tenant = calloc(1, sizeof(*tenant) + cgroup_bytes);
    if (!tenant)
        return NULL;
    tenant->uid = uid;
    tenant->weight = 1;
    memcpy(tenant->cgroup, cgroup, cgroup_bytes);
    snprintf(tenant->name, sizeof(tenant->name), "user %u%s%s", uid, *cgroup ? " in " : "", cgroup);
    account_open(&tenant->account, &tenants->budget, tenant->name);
    list_append(&tenants->all, &tenant->link);
    return tenant;
}

tenant_t *tenant_get(tenants_t *tenants, uid_t uid, const char *cgroup)
{
    tenant_t *tenant = tenant_find(tenants, uid, cgroup);
    if (!tenant)
        tenant = tenant_create(tenants, uid, cgroup);
    if (tenant)
        tenant_hold(tenant);
    return tenant;
}

void tenant_hold(tenant_t *tenant)
{
    tenant->holders++;
}

void tenant_put(tenant_t *tenant)
{
    if (--tenant->holders > 0)
        return;
    account_close(&tenant->account);
    list_remove(&tenant->link);
    free(tenant);
}

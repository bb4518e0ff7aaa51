#include "base/tenant.h"

#include <stdlib.h>

tenant_t *tenant_of(list_t *tenants, uid_t uid)
{
    LIST_FOR_EACH (link, tenants) {
        tenant_t *tenant = CONTAINER_OF(link, tenant_t, link);
        if (tenant->uid == uid)
            return tenant;
    }
    tenant_t *tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->uid = uid;
    tenant->weight = 1;
    list_append(tenants, &tenant->link);
    return tenant;
}

void tenant_release(tenant_t *tenant)
{
    if (tenant->session_count > 0 || tenant->roster_count > 0)
        return;
    list_remove(&tenant->link);
    free(tenant);
}

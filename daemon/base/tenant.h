/*
 * One user and what the user has in the daemon: what the limits per tenant are compared with. A tenant is
 * there from its first session until it has neither sessions nor rosters any more.
 */
#ifndef BLINK_TENANT_H
#define BLINK_TENANT_H

#include "base/list.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct tenant {
    list_t link;
    uid_t uid;
    uint32_t session_count, client_count, roster_count, region_count;
    uint64_t registered_bytes;
} tenant_t;

/* The tenant with this uid, made if there is none. NULL: no memory. */
tenant_t *tenant_of(list_t *tenants, uid_t uid);

/* Free the tenant if it has neither sessions nor rosters. */
void tenant_release(tenant_t *tenant);

#endif

/*
 * One user and what the user has in the daemon: what the limits per tenant are compared with, and between
 * whom time is shared. The control thread and the engine thread both see a tenant; what is below without a
 * word about the engine is the control thread's alone.
 *
 * The control thread makes and frees tenants, by its own counts: a tenant is there from its first session
 * until it has neither sessions nor rosters any more. The engine's pointers to it are in its clients, which
 * are gone when engine_client_remove() is done, and in its communicators, which do not follow them any more
 * when the last engine_comm_leave() is done. A session ends after the first, a roster after the second.
 */
#ifndef BLINK_TENANT_H
#define BLINK_TENANT_H

#include "base/list.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct tenant {
    list_t link;
    uid_t uid;       /* never changes: the engine reads it too */
    uint32_t weight; /* its share of time beside the other tenants'; never changes, the engine reads it */
    uint32_t session_count, client_count, roster_count, region_count;
    uint64_t registered_bytes;
} tenant_t;

/* The tenant with this uid, made if there is none. NULL: no memory. */
tenant_t *tenant_of(list_t *tenants, uid_t uid);

/* Free the tenant if it has neither sessions nor rosters. */
void tenant_release(tenant_t *tenant);

#endif

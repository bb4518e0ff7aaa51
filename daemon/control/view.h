/*
 * What an asker may see: the objects of its own user, or those of everybody.
 */
#ifndef BLINK_CONTROL_VIEW_H
#define BLINK_CONTROL_VIEW_H

#include "control/comms/roster.h"

typedef struct view {
    control_t *control;
    const tenant_t *tenant; /* the asker */
    bool all;
} view_t;

/* Where a tenant is a user in one cgroup, the user sees what it has in all of them: their objects are picked
 * from everybody's. */
static inline bool view_picks(const view_t *view)
{
    return !view->all && view->control->settings->tenants_by_cgroup;
}

static inline const bag_t *view_rosters(const view_t *view)
{
    return view->all || view_picks(view) ? &view->control->rosters->all : &view->tenant->rosters;
}

static inline const bag_t *view_clients(const view_t *view)
{
    return view->all || view_picks(view) ? &view->control->all_clients : &view->tenant->clients;
}

static inline bool view_sees_user(const view_t *view, uid_t uid)
{
    return view->all || uid == view->tenant->uid;
}

static inline bool view_sees(const view_t *view, const tenant_t *owner)
{
    return view_sees_user(view, owner->uid);
}

/* An item of these; NULL: it is somebody else's. */
static inline const roster_t *view_roster(const view_t *view, bag_item_t *item)
{
    const roster_t *roster = view_rosters(view) == &view->tenant->rosters
                                 ? CONTAINER_OF(item, roster_t, of_tenant)
                                 : CONTAINER_OF(item, roster_t, of_all);
    return view_sees(view, roster->tenant) ? roster : NULL;
}

static inline const client_t *view_client(const view_t *view, bag_item_t *item)
{
    const client_t *client = view_clients(view) == &view->tenant->clients
                                 ? CONTAINER_OF(item, client_t, of_tenant)
                                 : CONTAINER_OF(item, client_t, of_all);
    return view_sees(view, client->tenant) ? client : NULL;
}

#endif

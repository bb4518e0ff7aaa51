/*
 * A client whose process is gone, taken apart in slices: what it asked for last, its memberships, its stored
 * ops; then, once it is owed nothing and is a member of nothing, its regions and itself. In between it is on
 * no list, and client_leave_attend() brings it back when something of it has ended.
 */
#include "engine/client/region.h"
#include "engine/client/replay.h"
#include "engine/client/serve.h"
#include "engine/client/stored.h"
#include "engine/comm/comm.h"
#include "engine/loop.h"

/* Of its hash buckets in a slice; regions are up to so many in one. */
#define BUCKETS_PER_SLICE 64u

void client_leave_begin(engine_client_t *client)
{
    client_deactivate(client);
    client->engine->resting--;
    client_set_looks_owed(client, 0);
    client->removed = true;
    client_leave_attend(client);
}

/* Ranks that were leaving when the process went. True once all have been looked at. */
static bool leave_memberships(engine_client_t *client)
{
    uint32_t *next = &client->left_buckets;
    for (uint32_t i = 0; i < BUCKETS_PER_SLICE && *next < client->membership_buckets; i++, (*next)++) {
        LIST_FOR_EACH (link, &client->memberships[*next]) {
            comm_rank_gone(CONTAINER_OF(link, comm_rank_t, of_client));
            engine_count(client->engine, 1);
        }
    }
    return *next == client->membership_buckets;
}

void client_leave_slice(engine_client_t *client)
{
    if (client->replaying) {
        replay_go_on(client);
        client_leave_attend(client);
        return;
    }
    client_run_deferred(client);
    bool done = !client->deferred && leave_memberships(client) && stored_forget_client_some(client);
    if (done && (client->outstanding > 0 || client->membership_count > 0))
        return;
    if (done && client_free_some_regions(client))
        client_hand_back(client);
    else
        client_leave_attend(client);
}

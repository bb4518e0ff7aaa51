#include "control/clients/client.h"

#include "base/guard.h"
#include "control/comms/leave.h"
#include "control/descriptors.h"
#include "control/memory/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Submissions a client may have under way, and completions it may leave unread. */
#define RING_SQ_ENTRIES 1024u
#define RING_CQ_ENTRIES 1024u

enum { FD_RING, FD_DOORBELL, FD_COMPLETION };

static blink_result_t make_rings(engine_client_config_t *config, int fds[CLIENT_FDS])
{
    blink_result_t result = ring_create(RING_SQ_ENTRIES, RING_CQ_ENTRIES, &config->ring, &fds[FD_RING]);
    if (result != BLINK_OK)
        return descriptors_ran_out(errno) ? descriptors_fail("ring of a client") : result;
    fds[FD_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fds[FD_COMPLETION] = ring_create_event();
    if (fds[FD_DOORBELL] >= 0)
        config->doorbell_fd = fcntl(fds[FD_DOORBELL], F_DUPFD_CLOEXEC, 0);
    if (fds[FD_COMPLETION] >= 0)
        config->completion_fd = fcntl(fds[FD_COMPLETION], F_DUPFD_CLOEXEC, 0);
    if (config->completion_fd >= 0 && descriptors_are_scarce(config->completion_fd))
        errno = EMFILE;
    else if (config->doorbell_fd >= 0 && config->completion_fd >= 0)
        return BLINK_OK;
    return descriptors_fail("doorbell and completion event of a client");
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* The engine's half; its descriptors are duplicates of those that travel to the client. */
static blink_result_t add_to_engine(client_t *client, int fds[CLIENT_FDS])
{
    engine_client_config_t config = {
        .client = client->number, .tenant = client->tenant, .doorbell_fd = -1, .completion_fd = -1};
    blink_result_t result = make_rings(&config, fds);
    if (result == BLINK_OK)
        result = guard_add(config.ring.header, config.ring.bytes, &client->ring_guard);
    if (result != BLINK_OK) {
        ring_unmap(&config.ring);
        close_if_open(config.doorbell_fd);
        close_if_open(config.completion_fd);
        return result;
    }
    result = engine_client_add(client->control->engine, &config, &client->engine);
    if (result != BLINK_OK) {
        guard_remove(client->ring_guard);
        client->ring_guard = GUARD_NONE;
    }
    return result;
}

/* Into the lists of clients; false without memory. */
static bool enlist(client_t *client)
{
    control_t *control = client->control;
    if (!bag_add(&control->all_clients, &client->of_all))
        return false;
    if (!bag_add(&client->tenant->clients, &client->of_tenant)) {
        bag_remove(&control->all_clients, &client->of_all);
        return false;
    }
    list_prepend(&control->clients, &client->link);
    control->client_count++;
    return true;
}

static void unlist(client_t *client)
{
    control_t *control = client->control;
    bag_remove(&control->all_clients, &client->of_all);
    bag_remove(&client->tenant->clients, &client->of_tenant);
    list_remove(&client->link);
    control->client_count--;
}

blink_result_t client_create(control_t *control, connection_t *connection, tenant_t *tenant,
                             const Blinkwire__Hello *hello, int fds[CLIENT_FDS], client_t **created)
{
    for (int i = 0; i < CLIENT_FDS; i++)
        fds[i] = -1;
    BLINK_TRY(account_charge(&tenant->account, BUDGET_CLIENTS, 1));
    client_t *client = calloc(1, sizeof(*client));
    if (!client) {
        account_credit(&tenant->account, BUDGET_CLIENTS, 1);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another client");
    }
    client->control = control;
    client->connection = connection;
    client->tenant = tenant;
    client->number = ++control->last_client;
    client->gpu_losses = control->region_gpus.losses;
    client->pid = connection_pid(connection);
    list_init(&client->regions);
    list_init(&client->pending_regions);
    list_init(&client->members);
    list_init(&client->link);
    client->ring_guard = GUARD_NONE;
    label_set(client->program, hello->program);
    label_set(client->job, hello->job);
    blink_result_t result = enlist(client) ? add_to_engine(client, fds)
                                           : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another client");
    if (result != BLINK_OK) {
        if (!list_is_empty(&client->link))
            unlist(client);
        account_credit(&tenant->account, BUDGET_CLIENTS, 1);
        free(client);
        return result;
    }
    snprintf(client->title, sizeof(client->title), "client %u", client->number);
    tenant_event(tenant, EVENT_CLIENT_CAME, 0, client->title, LOG_LEVEL_INFO, "%s (pid %d, user %u%s%s)",
                 client->program, client->pid, tenant->uid, *client->job ? ", job " : "", client->job);
    *created = client;
    return BLINK_OK;
}

/* An unmapping is as long as so many steps. */
#define UNMAP_STEPS 8u

static void client_free(client_t *client)
{
    engine_done_t left = client->left;
    tenant_event(client->tenant, EVENT_CLIENT_GONE, 0, client->title, LOG_LEVEL_INFO, "gone");
    account_credit(&client->tenant->account, BUDGET_CLIENTS, 1);
    unlist(client);
    table_fini(&client->region_numbers);
    free(client);
    left.call(left.context);
}

static bool release_slice(work_t *work)
{
    client_t *client = CONTAINER_OF(work, client_t, leave);
    turns_t *turns = &client->control->turns;
    while (!turns_slice_is_over(turns)) {
        if (!regions_release_one(client)) {
            if (client->given_back_count == 0)
                client_free(client);
            return false; /* else the last answer of the GPU worker posts this again */
        }
        turns_count(turns, UNMAP_STEPS);
    }
    return true;
}

/* The engine has forgotten the client: nothing reads or writes its memory any more. */
static void on_removed(void *context)
{
    client_t *client = context;
    guard_remove(client->ring_guard);
    client->releasing = true;
    work_init(&client->leave, release_slice);
    turns_post(&client->control->turns, client->tenant, &client->leave);
}

static bool leave_slice(work_t *work)
{
    client_t *client = CONTAINER_OF(work, client_t, leave);
    while (rosters_lose_one(client)) {
        if (turns_slice_is_over(&client->control->turns))
            return true;
    }
    regions_leave_pending(client);
    engine_client_remove(client->engine, (engine_done_t){on_removed, client});
    return false;
}

void client_leave(client_t *client, engine_done_t left)
{
    client->leaving = true;
    client->left = left;
    work_init(&client->leave, leave_slice);
    turns_post(&client->control->turns, client->tenant, &client->leave);
}

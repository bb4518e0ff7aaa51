#include "engine/client/client.h"

#include "base/log.h"
#include "engine/client/region.h"
#include "engine/loop.h"
#include "error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MEMBERSHIP_BUCKETS 16u /* to begin with */

/* Of what was deferred, in one visit to the client. */
#define DEFERRED_PER_VISIT 64u

uint64_t engine_client_op_count(const engine_client_t *client)
{
    /* Relaxed: a counter. */
    return atomic_load_explicit(&client->op_count, memory_order_relaxed);
}

void client_update_wait_policy(engine_client_t *client)
{
    ring_wait_policy_t policy = client->long_ops > 0      ? RING_WAIT_SLEEP
                                : client->engine->crowded ? RING_WAIT_YIELD
                                                          : RING_WAIT_SPIN;
    client->crowded = client->engine->crowded;
    ring_set_wait_policy(&client->ring, policy);
}

/* ---- who is active ---- */

void client_answer_ping(engine_client_t *client)
{
    ring_answer_ping(&client->ring);
    client->pong_us = client->engine->now_us;
}

void client_tell(engine_client_t *client, bool sleeping)
{
    if (client->told == sleeping)
        return;
    client->told = sleeping;
    client_unsettle(client);
    ring_set_engine_sleeping(&client->ring, sleeping);
    if (sleeping)
        client_answer_ping(client); /* a later one rings the doorbell */
    client_set_looks_owed(client, sleeping ? client->awaited_count : 0);
}

void client_activate(engine_client_t *client)
{
    engine_t *engine = client->engine;
    tenant_t *tenant = client->tenant;
    if (client->removed || !list_is_empty(&client->of_active))
        return;
    if (list_is_empty(&tenant->active_clients))
        list_append(&engine->active_tenants, &tenant->of_active);
    list_append(&tenant->active_clients, &client->of_active);
    tenant->active_count++;
    engine->resting--;
    engine->unsettled += !client->settled;
    client->active_us = engine->now_us;
    client_tell(client, engine->drowsy);
    client_update_wait_policy(client);
}

void client_deactivate(engine_client_t *client)
{
    tenant_t *tenant = client->tenant;
    if (list_is_empty(&client->of_active))
        return;
    list_remove(&client->of_active);
    tenant->active_count--;
    client->engine->resting++;
    client->engine->unsettled -= !client->settled;
    if (list_is_empty(&tenant->active_clients))
        list_remove(&tenant->of_active);
}

/* ---- memberships ---- */

static list_t *make_buckets(uint32_t count)
{
    list_t *buckets = malloc(count * sizeof(*buckets));
    for (uint32_t i = 0; buckets && i < count; i++)
        list_init(&buckets[i]);
    return buckets;
}

/* Twice the buckets, if there is memory for them: lists that grow are only slower. */
static void grow_memberships(engine_client_t *client)
{
    uint32_t old_buckets = client->membership_buckets, new_buckets = 2 * old_buckets;
    list_t *old = client->memberships, *grown = make_buckets(new_buckets);
    if (!grown)
        return;
    for (uint32_t i = 0; i < old_buckets; i++) {
        LIST_FOR_EACH (link, &old[i]) {
            list_remove(link);
            list_append(&grown[CONTAINER_OF(link, comm_rank_t, of_client)->member % new_buckets], link);
        }
    }
    client->memberships = grown;
    client->membership_buckets = new_buckets;
    free(old);
}

void client_add_membership(engine_client_t *client, comm_rank_t *rank)
{
    if (client->membership_count >= client->membership_buckets)
        grow_memberships(client);
    list_append(&client->memberships[rank->member % client->membership_buckets], &rank->of_client);
    if (client->membership_count++ == 0)
        client->engine->clients_joined++;
}

void client_remove_membership(engine_client_t *client, comm_rank_t *rank)
{
    list_remove(&rank->of_client);
    if (--client->membership_count > 0)
        return;
    client->engine->clients_joined--;
    if (client->removed)
        client_leave_attend(client);
}

/* ---- coming and going ---- */

static void client_close(engine_client_t *client)
{
    close(client->doorbell_fd);
    close(client->completion_fd);
    ring_unmap(&client->ring);
    free(client->memberships);
    free(client);
}

/* From now on the doorbell is heard. It is watched for edges, so that it need not be read: O_NONBLOCK is the
 * open file's, hence the client's to clear. The change of what is watched takes no memory, so it does not
 * fail. */
static void listen_to(engine_client_t *client)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = client};
    if (epoll_ctl(client->engine->epoll_fd, EPOLL_CTL_MOD, client->doorbell_fd, &event) != 0)
        LOG_ERROR("listen to the doorbell of client %u: %s", client->client, strerror(errno));
}

static void client_add_run(mailbox_item_t *item)
{
    engine_client_t *client = CONTAINER_OF(item, engine_client_t, add_item);
    client->engine->resting++;
    listen_to(client);
    client_activate(client);
}

static engine_client_t *make_client(engine_t *engine, const engine_client_config_t *config)
{
    engine_client_t *created = calloc(1, sizeof(*created));
    list_t *memberships = make_buckets(MEMBERSHIP_BUCKETS);
    if (!created || !memberships) {
        free(created);
        free(memberships);
        return NULL;
    }
    created->engine = engine;
    created->client = config->client;
    created->tenant = config->tenant;
    created->ring = config->ring;
    created->doorbell_fd = config->doorbell_fd;
    created->completion_fd = config->completion_fd;
    created->memberships = memberships;
    created->membership_buckets = MEMBERSHIP_BUCKETS;
    for (uint32_t i = 0; i < REGION_BUCKETS; i++)
        list_init(&created->regions[i]);
    list_init(&created->of_active);
    list_init(&created->awaited);
    list_init(&created->stored);
    created->deferred_end = &created->deferred;
    created->add_item.run = client_add_run;
    return created;
}

blink_result_t engine_client_add(engine_t *engine, const engine_client_config_t *config,
                                 engine_client_t **client)
{
    engine_client_t *created = make_client(engine, config);
    if (!created) {
        ring_t ring = config->ring;
        ring_unmap(&ring);
        close(config->doorbell_fd);
        close(config->completion_fd);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another client");
    }
    /* Until the engine has taken the client up, a submission must ring the doorbell. */
    created->told = true;
    ring_set_engine_sleeping(&created->ring, true);
    /* Of no event yet: the engine is not to meet the client before the item below. */
    struct epoll_event event = {.data.ptr = created};
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, created->doorbell_fd, &event) != 0) {
        blink_result_t result = BLINK_FAIL_ERRNO("watch the doorbell of client %u", config->client);
        client_close(created);
        return result;
    }
    mailbox_post(&engine->mailbox, &created->add_item);
    *client = created;
    return BLINK_OK;
}

static void client_removed_on_control(mailbox_item_t *item)
{
    engine_client_t *client = CONTAINER_OF(item, engine_client_t, remove_item);
    engine_done_t done = client->done;
    client_close(client);
    done.call(done.context);
}

void client_hand_back(engine_client_t *client)
{
    engine_t *engine = client->engine;
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, client->doorbell_fd, NULL);
    client->remove_item.run = client_removed_on_control;
    mailbox_post(engine->config.control, &client->remove_item);
}

/* ---- what waits until the ring has been found empty ---- */

void client_defer(engine_client_t *client, mailbox_item_t *item, void (*run)(mailbox_item_t *item))
{
    item->run = run;
    item->next = NULL;
    *client->deferred_end = item;
    client->deferred_end = &item->next;
    if (client->removed)
        client_leave_attend(client);
    else
        client_activate(client);
    client_unsettle(client);
}

bool client_run_deferred(engine_client_t *client)
{
    uint32_t ran = 0;
    for (; client->deferred && ran < DEFERRED_PER_VISIT; ran++) {
        mailbox_item_t *item = client->deferred;
        client->deferred = item->next;
        if (!client->deferred)
            client->deferred_end = &client->deferred;
        item->run(item);
    }
    engine_count(client->engine, ran);
    return ran > 0;
}

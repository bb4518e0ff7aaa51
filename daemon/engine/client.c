/*
 * The engine's side of one client: its ring, its regions and the communicators it is a member of.
 */
#include "engine/client.h"

#include "base/log.h"
#include "engine/comm.h"
#include "engine/loop.h"
#include "engine/rank.h"
#include "engine/replay.h"
#include "engine/run.h"
#include "engine/stream.h"
#include "engine/submit.h"
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Submissions handled in one visit, so that no client keeps the others waiting. */
#define SUBMISSIONS_PER_VISIT 16u

void client_update_wait_policy(engine_client_t *client)
{
    ring_wait_policy_t policy = client->long_ops > 0      ? RING_WAIT_SLEEP
                                : client->engine->crowded ? RING_WAIT_YIELD
                                                          : RING_WAIT_SPIN;
    ring_set_wait_policy(&client->ring, policy);
}

/* ---- what waits for the ring ---- */

void client_defer(engine_client_t *client, mailbox_item_t *item, void (*run)(mailbox_item_t *item))
{
    item->run = run;
    item->next = NULL;
    *client->deferred_end = item;
    client->deferred_end = &item->next;
}

/* May free the client. */
static void run_deferred(engine_client_t *client)
{
    mailbox_item_t *item = client->deferred;
    client->deferred = NULL;
    client->deferred_end = &client->deferred;
    while (item) {
        mailbox_item_t *next = item->next;
        item->run(item);
        item = next;
    }
}

/* ---- joining and leaving ---- */

static void client_add_run(mailbox_item_t *item)
{
    engine_client_t *client = CONTAINER_OF(item, engine_client_t, add_item);
    client->next = client->engine->clients;
    client->engine->clients = client;
    client->engine->client_list_version++;
    client_update_wait_policy(client);
    ring_set_engine_sleeping(&client->ring, false);
}

static void client_close(engine_client_t *client)
{
    close(client->doorbell_fd);
    close(client->completion_fd);
    ring_unmap(&client->ring);
    free(client->memberships);
    free(client);
}

blink_result_t engine_client_add(engine_t *engine, const engine_client_config_t *config,
                                 engine_client_t **client)
{
    engine_client_t *created = calloc(1, sizeof(*created));
    comm_rank_t **memberships = calloc(MEMBERSHIP_BUCKETS, sizeof(*memberships));
    if (!created || !memberships) {
        free(created);
        free(memberships);
        ring_t ring = config->ring;
        ring_unmap(&ring);
        close(config->doorbell_fd);
        close(config->completion_fd);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another client");
    }
    created->engine = engine;
    created->deferred_end = &created->deferred;
    created->client = config->client;
    created->memberships = memberships;
    created->membership_buckets = MEMBERSHIP_BUCKETS;
    created->ring = config->ring;
    created->doorbell_fd = config->doorbell_fd;
    created->completion_fd = config->completion_fd;
    created->add_item.run = client_add_run;
    /* Until the engine has taken the client up, a submission must ring the doorbell. */
    ring_set_engine_sleeping(&created->ring, true);
    /* Edges, so that the doorbell need not be read: O_NONBLOCK is the open file's, hence the client's to
     * clear. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = created->doorbell_fd};
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

void client_free_if_done(engine_client_t *client)
{
    if (!client->removed || client->outstanding > 0 || client->membership_count > 0)
        return;
    engine_t *engine = client->engine;
    engine_client_t **link = &engine->clients;
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    engine->client_list_version++;
    client_free_regions(client);
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, client->doorbell_fd, NULL);
    client->remove_item.run = client_removed_on_control;
    mailbox_post(engine->config.control, &client->remove_item);
}

/* Ranks that were leaving when their process went will not finish what they submitted: nobody waits for it.
 */
static void lose_unfinished(engine_client_t *client)
{
    for (uint32_t i = 0; i < client->membership_buckets; i++) {
        comm_rank_t *next;
        for (comm_rank_t *rank = client->memberships[i]; rank; rank = next) {
            next = rank->next_membership;
            if (!rank->leaving || rank->outstanding == 0 || rank->comm->lost != BLINK_OK)
                continue;
            char text[BLINK_ERROR_TEXT_BYTES];
            snprintf(text, sizeof(text), "rank %u disconnected before its ops had ended", rank->rank);
            comm_lose(rank->comm, BLINK_ERR_PEER_LOST, text);
            comm_advance(rank->comm);
        }
    }
}

static void client_remove_run(mailbox_item_t *item)
{
    engine_client_t *client = CONTAINER_OF(item, engine_client_t, remove_item);
    run_deferred(client);
    lose_unfinished(client);
    stream_forget_client(client);
    client->removed = true;
    client_free_if_done(client);
}

void engine_client_remove(engine_client_t *client, engine_done_t done)
{
    client->done = done;
    client->remove_item.run = client_remove_run;
    mailbox_post(&client->engine->mailbox, &client->remove_item);
}

uint64_t engine_client_op_count(const engine_client_t *client)
{
    /* Relaxed: a counter. */
    return atomic_load_explicit(&client->op_count, memory_order_relaxed);
}

/* ---- memberships ---- */

static void insert_membership(engine_client_t *client, comm_rank_t *rank)
{
    comm_rank_t **bucket = &client->memberships[rank->member % client->membership_buckets];
    rank->next_membership = *bucket;
    *bucket = rank;
}

/* Twice the buckets, if there is memory for them: chains that grow are only slower. */
static void grow_memberships(engine_client_t *client)
{
    uint32_t old_buckets = client->membership_buckets;
    comm_rank_t **old = client->memberships;
    comm_rank_t **grown = calloc(2 * (size_t)old_buckets, sizeof(*grown));
    if (!grown)
        return;
    client->memberships = grown;
    client->membership_buckets = 2 * old_buckets;
    for (uint32_t i = 0; i < old_buckets; i++) {
        while (old[i]) {
            comm_rank_t *rank = old[i];
            old[i] = rank->next_membership;
            insert_membership(client, rank);
        }
    }
    free(old);
}

void client_add_membership(engine_client_t *client, comm_rank_t *rank)
{
    if (client->membership_count >= client->membership_buckets)
        grow_memberships(client);
    insert_membership(client, rank);
    if (client->membership_count++ == 0)
        client->engine->clients_joined++;
}

void client_remove_membership(engine_client_t *client, comm_rank_t *rank)
{
    comm_rank_t **link = &client->memberships[rank->member % client->membership_buckets];
    while (*link != rank)
        link = &(*link)->next_membership;
    *link = rank->next_membership;
    if (--client->membership_count == 0)
        client->engine->clients_joined--;
}

static comm_rank_t *find_membership(const engine_client_t *client, uint32_t member)
{
    comm_rank_t *rank = client->memberships[member % client->membership_buckets];
    while (rank && rank->member != member)
        rank = rank->next_membership;
    return rank;
}

/* ---- submissions ---- */

/* Of an entry that no communicator sees. */
static void complete_entry(engine_client_t *client, const ring_sqe_t *sqe, blink_result_t result)
{
    if (!(sqe->flags & RING_SQE_MORE)) /* else the last entry of the group hears why */
        client_complete(client, sqe->user_data, result, result != BLINK_OK ? blink_error_text() : NULL);
}

static void member_submission(engine_client_t *client, const ring_sqe_t *sqe)
{
    comm_rank_t *rank = find_membership(client, sqe->member);
    submission_t how = {0};
    bool is_member = rank && !rank->leaving;
    if (is_member && stream_stores(client, rank, sqe)) {
        complete_entry(client, sqe, stream_store(client, rank, sqe));
        return;
    }
    blink_result_t result = stream_begin(client, sqe, &how.ticket);
    if (result == BLINK_OK && !is_member)
        result = BLINK_FAIL(BLINK_ERR_NOT_FOUND, "this client has no communicator handle %u", sqe->member);
    if (is_member)
        comm_submit(rank, sqe, &how);
    else
        complete_entry(client, sqe, result);
    stream_end(how.ticket); /* if no op has taken it */
}

static void forget_submission(engine_client_t *client, const ring_sqe_t *sqe)
{
    bool later;
    blink_result_t result = stream_forget(client, sqe, &later);
    if (!later)
        complete_entry(client, sqe, result);
}

static void client_submission(engine_client_t *client, const ring_sqe_t *sqe)
{
    if (sqe->opcode == RING_OP_NOP)
        complete_entry(client, sqe, BLINK_OK);
    else if (sqe->opcode == RING_OP_FORGET)
        forget_submission(client, sqe);
    else
        member_submission(client, sqe);
}

void client_release(engine_client_t *client)
{
    if (--client->outstanding == 0)
        client->engine->clients_waiting--;
    client_free_if_done(client);
}

bool client_poll(engine_client_t *client)
{
    ring_sqe_t batch[SUBMISSIONS_PER_VISIT];
    uint32_t count = 0, owed = 0;
    while (count < SUBMISSIONS_PER_VISIT && !client->removed && ring_take(&client->ring, &batch[count]))
        owed += !(batch[count++].flags & RING_SQE_MORE);
    if (count == 0) {
        if (!client->deferred)
            return false;
        run_deferred(client);
        return true;
    }
    if (client->outstanding == 0)
        client->engine->clients_waiting++;
    client->outstanding +=
        owed + 1; /* one for this visit: entries without a completion need the client too */
    /* Control posts regions and communicators before it tells the client of them, so they are in the mailbox
     * by now. */
    mailbox_run(&client->engine->mailbox);
    for (uint32_t i = 0; i < count; i++)
        client_submission(client, &batch[i]);
    client_release(client);
    return true;
}

void client_complete(engine_client_t *client, uint64_t user_data, blink_result_t result, const char *text)
{
    /* Relaxed: a counter. */
    atomic_fetch_add_explicit(&client->op_count, 1, memory_order_relaxed);
    if (!client->removed && ring_complete(&client->ring, user_data, result, text))
        ring_raise_event(client->completion_fd);
    client_release(client);
}

/* What calls and messages do, one after another: the parts are in the other files. */
#include "control/gather/gather.h"

#include "control/gather/home.h"
#include "control/gather/local.h"
#include "control/gather/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what becomes of a communicator ---- */

/* The communicator is lost, for this thread's error text. Its neighbours are told, or by the home, while
 * READY spreads, all of its hosts. `from`: who has said so; NULL: nobody. */
static void lose_comm(gather_t *gather, gather_comm_t comm, const peer_t *from, blink_result_t code)
{
    tree_t *tree = tree_find(gather, comm);
    home_t *home = home_find_spreading(gather, comm);
    if (tree && home)
        tree_forget(gather, tree);
    else if (tree)
        tree_lose(gather, tree, from, code);
    if (home)
        home_fail(gather, home, code);
}

/* The same, and this host's ranks are told. */
static void tell_lost(gather_t *gather, gather_comm_t comm, const peer_t *from, blink_result_t code)
{
    bool has_begun = tree_find(gather, comm);
    lose_comm(gather, comm, from, code);
    if (has_begun)
        gather->config.calls.lost(gather->config.context, comm, code);
}

/* A gathering at this home fails, for this thread's error text, whether READY has gone out or not. */
static void fail_home(gather_t *gather, home_t *home, const peer_t *from, blink_result_t code)
{
    if (home_is_complete(home))
        tell_lost(gather, home->comm, from, code);
    else
        home_fail(gather, home, code);
}

/* Everybody below has READY, and so has this host. */
static void acknowledge(gather_t *gather, const tree_t *tree)
{
    home_t *home = home_find_spreading(gather, tree->comm);
    if (home)
        home_settled(gather, home);
    else
        tree_acknowledge(gather, tree);
}

/* ---- READY ---- */

/* This host cannot begin, for this thread's error text: the home hears it, and tells all. */
static void refuse_ready(gather_t *gather, const gather_message_t *ready, const peer_t *above,
                         blink_result_t code)
{
    const gather_message_t lost = {
        .kind = GATHER_LOST, .comm = ready->comm, .code = code, .text = blink_error_text()};
    if (above)
        peer_send(gather, above, &lost);
    else
        lose_comm(gather, ready->comm, NULL, code);
}

/* A communicator that is on this host alone needs no tree. */
static void begin_alone(gather_t *gather, const gather_message_t *ready)
{
    home_settled(gather, home_find_spreading(gather, ready->comm));
    (void)local_take_ready(gather, ready, 0);
}

/* Pass READY on, and begin. */
static void begin(gather_t *gather, const gather_message_t *ready, uint32_t own_host, const peer_t *above)
{
    tree_t *tree;
    if (!local_expects(gather, ready, own_host)) {
        if (!above)
            refuse_ready(gather, ready, NULL,
                         BLINK_FAIL(BLINK_ERR_INTERNAL, "ranks that have joined on %s do not wait there",
                                    gather->config.own.name));
        return;
    }
    if (ready->host_count == 1) {
        begin_alone(gather, ready);
        return;
    }
    blink_result_t result = tree_create(gather, ready, own_host, &tree);
    if (result != BLINK_OK) {
        refuse_ready(gather, ready, above, result);
        return;
    }
    tree->has_ended = !local_has_ranks(ready, own_host);
    tree_send_ready(gather, tree, ready);
    result = local_take_ready(gather, ready, own_host);
    if (result != BLINK_OK)
        lose_comm(gather, ready->comm, NULL, result);
    else if (tree->unacknowledged == 0)
        acknowledge(gather, tree);
}

/* Whether READY makes sense to this host: who is above says what the home has said. */
static bool is_sound(const gather_message_t *ready, uint32_t own_host, const peer_t *from)
{
    if (own_host == 0 || own_host >= ready->host_count || ready->hosts[0].host.instance != ready->comm.home ||
        ready->comm.number == 0 || ready->hosts[tree_above(own_host)].host.instance != from->host.instance)
        return false;
    for (uint32_t rank = 0; rank < ready->terms.rank_count; rank++) {
        if (ready->seats[rank].host >= ready->host_count)
            return false;
    }
    return true;
}

static void take_ready(gather_t *gather, const gather_message_t *ready, const peer_t *from)
{
    uint32_t own_host = tree_own_host(gather, ready);
    if (tree_find(gather, ready->comm))
        return; /* it has come twice */
    if (is_sound(ready, own_host, from))
        begin(gather, ready, own_host, from);
    else
        refuse_ready(gather, ready, from,
                     BLINK_FAIL(BLINK_ERR_INTERNAL,
                                "%s was told by %s of a communicator that it is no host of",
                                gather->config.own.name, peer_name(from)));
}

/* ---- messages ---- */

static void take_join(gather_t *gather, peer_t *from, const gather_message_t *join)
{
    gather_message_t ready;
    home_t *home = home_take_join(gather, from, join);
    if (!home || home_complete(gather, home, &ready) != BLINK_OK)
        return;
    begin(gather, &ready, 0, NULL);
    home_free_ready(&ready);
}

static void take_left(gather_t *gather, const peer_t *from, const gather_message_t *left)
{
    const guest_t *guest = home_find_guest(gather, from, left->attempt);
    if (guest && memcmp(&guest->home->id, &left->id, sizeof(left->id)) == 0)
        fail_home(gather, guest->home, from, blink_error_set(left->code, "%s", left->text));
    else
        home_take_left(gather, from, left);
}

static void take_failed(gather_t *gather, const peer_t *from, const gather_message_t *failed)
{
    tree_t *tree = tree_find(gather, failed->comm);
    if (!tree) {
        local_take_failed(gather, from, failed);
        return;
    }
    if (failed->comm.home != from->host.instance)
        return;
    tree_forget(gather, tree); /* the home tells everybody */
    gather->config.calls.lost(gather->config.context, failed->comm,
                              blink_error_set(failed->code, "%s", failed->text));
}

static void take_acknowledged(gather_t *gather, const peer_t *from, const gather_message_t *message)
{
    tree_t *tree = tree_find(gather, message->comm);
    if (tree && tree_take_acknowledged(tree, from))
        acknowledge(gather, tree);
}

static void take_lost(gather_t *gather, const peer_t *from, const gather_message_t *message)
{
    const tree_t *tree = tree_find(gather, message->comm);
    if (tree && tree_is_neighbour(tree, from))
        tell_lost(gather, message->comm, from, blink_error_set(message->code, "%s", message->text));
}

static void take_ended(gather_t *gather, const peer_t *from, const gather_message_t *message)
{
    tree_t *tree = tree_find(gather, message->comm);
    if (tree)
        tree_take_ended(gather, tree, from);
}

static void take(gather_t *gather, peer_t *from, const gather_message_t *message)
{
    switch (message->kind) {
    case GATHER_JOIN:
        take_join(gather, from, message);
        return;
    case GATHER_LEFT:
        take_left(gather, from, message);
        return;
    case GATHER_REFUSED:
        local_take_refused(gather, from, message);
        return;
    case GATHER_FAILED:
        take_failed(gather, from, message);
        return;
    case GATHER_READY:
        take_ready(gather, message, from);
        return;
    case GATHER_ACKNOWLEDGED:
        take_acknowledged(gather, from, message);
        return;
    case GATHER_LOST:
        take_lost(gather, from, message);
        return;
    case GATHER_ENDED:
        take_ended(gather, from, message);
        return;
    }
}

static void receive(gather_t *gather, const gather_host_t *from, const gather_message_t *message)
{
    peer_t *peer = peer_get(gather, from);
    if (!peer)
        return; /* its time-out tells the sender */
    peer->holders++;
    take(gather, peer, message);
    peer->holders--;
    peer_put(gather, peer);
}

static void deliver(gather_t *gather, const gather_message_t *message)
{
    receive(gather, &gather->config.own, message);
}

void gather_receive(gather_t *gather, const gather_host_t *from, const gather_message_t *message,
                    uint64_t now_ms)
{
    gather->now_ms = now_ms;
    if (from->instance != gather->config.own.instance)
        receive(gather, from, message);
}

/* ---- this host's ranks ---- */

blink_result_t gather_join(gather_t *gather, const unique_id_t *id, uint32_t uid, const terms_t *terms,
                           gather_rank_t *rank, uint64_t now_ms)
{
    gather->now_ms = now_ms;
    return local_join(gather, id, uid, terms, rank);
}

void gather_leave(gather_t *gather, gather_rank_t *rank, blink_result_t code)
{
    local_leave(gather, rank, code);
}

void gather_comm_lost(gather_t *gather, gather_comm_t comm, blink_result_t code)
{
    lose_comm(gather, comm, NULL, code);
}

void gather_comm_ended(gather_t *gather, gather_comm_t comm)
{
    tree_t *tree = tree_find(gather, comm);
    if (tree)
        tree_end(gather, tree);
}

void gather_name_host(gather_t *gather, uint64_t instance, const char *name)
{
    peer_t *peer = peer_find(gather, instance);
    if (peer && !*peer->host.name)
        snprintf(peer->host.name, sizeof(peer->host.name), "%s", name);
}

/* ---- lost peers ---- */

void gather_peer_lost(gather_t *gather, uint64_t instance)
{
    peer_lose(gather, instance);
}

/* One thing that a lost peer took part in fails. */
static void lose_one(gather_t *gather, peer_t *peer)
{
    peer->holders++;
    if (!list_is_empty(&peer->guests))
        fail_home(gather, LIST_FIRST(&peer->guests, guest_t, of_peer)->home, peer,
                  home_lost_error(LIST_FIRST(&peer->guests, guest_t, of_peer)));
    else if (!list_is_empty(&peer->locals))
        local_fail_lost(gather, LIST_FIRST(&peer->locals, local_t, of_peer));
    else if (!list_is_empty(&peer->edges))
        tell_lost(gather, LIST_FIRST(&peer->edges, edge_t, of_peer)->tree->comm, peer,
                  tree_lost_error(LIST_FIRST(&peer->edges, edge_t, of_peer)));
    peer->holders--;
    peer_put(gather, peer);
}

/* ---- time ---- */

/* READY has not reached everybody in time. */
static bool spread_work(gather_t *gather)
{
    const deadline_t *first = deadline_first(&gather->spreading_deadlines);
    if (!first || first->at_ms > gather->now_ms)
        return false;
    gather_comm_t comm = CONTAINER_OF(first, home_t, deadline)->comm;
    terms_list_t silent = tree_list_silent(tree_find(gather, comm));
    tell_lost(gather, comm, NULL,
              BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s, or hosts that it tells, have not begun within %g s",
                         terms_list_end(&silent), gather->config.acknowledge_timeout_ms / 1e3));
    return true;
}

bool gather_work(gather_t *gather, uint64_t now_ms)
{
    gather->now_ms = now_ms;
    peer_t *lost = LIST_FIRST(&gather->lost_peers, peer_t, of_lost);
    if (!lost)
        return local_work(gather) || home_work(gather) || spread_work(gather);
    lose_one(gather, lost);
    return true;
}

uint64_t gather_due_ms(const gather_t *gather)
{
    const list_t *const deadlines[] = {&gather->local_deadlines, &gather->home_deadlines,
                                       &gather->spreading_deadlines};
    uint64_t due_ms = UINT64_MAX;
    if (!list_is_empty(&gather->lost_peers) || !list_is_empty(&gather->joining))
        return 0;
    for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++) {
        const deadline_t *first = deadline_first(deadlines[i]);
        if (first && first->at_ms < due_ms)
            due_ms = first->at_ms;
    }
    return due_ms;
}

uint64_t gather_take_steps(gather_t *gather)
{
    uint64_t steps = gather->steps;
    gather->steps = 0;
    return steps;
}

gather_counts_t gather_count(const gather_t *gather)
{
    return (gather_counts_t){.homes = gather->homes.count + gather->spreading.count,
                             .locals = gather->locals.count,
                             .trees = gather->trees.count,
                             .peers = gather->peers.count};
}

/* ---- beginning and end ---- */

blink_result_t gather_create(const gather_config_t *config, gather_t **created)
{
    gather_t *gather = calloc(1, sizeof(*gather));
    if (!gather)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ranks that gather");
    gather->config = *config;
    gather->deliver = deliver;
    list_init(&gather->lost_peers);
    list_init(&gather->home_deadlines);
    list_init(&gather->spreading_deadlines);
    list_init(&gather->all_locals);
    list_init(&gather->all_trees);
    list_init(&gather->joining);
    list_init(&gather->local_deadlines);
    *created = gather;
    return BLINK_OK;
}

static void destroy_homes(gather_t *gather, const list_t *deadlines)
{
    for (home_t *home; (home = LIST_FIRST(deadlines, home_t, deadline.link));)
        home_settled(gather, home);
}

void gather_destroy(gather_t *gather)
{
    if (!gather)
        return;
    destroy_homes(gather, &gather->home_deadlines);
    destroy_homes(gather, &gather->spreading_deadlines);
    for (local_t *local; (local = LIST_FIRST(&gather->all_locals, local_t, of_all));)
        local_destroy(gather, local);
    for (tree_t *tree; (tree = LIST_FIRST(&gather->all_trees, tree_t, of_all));)
        tree_forget(gather, tree);
    table_t *const tables[] = {&gather->peers,  &gather->homes,    &gather->spreading, &gather->guests,
                               &gather->locals, &gather->attempts, &gather->trees};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        table_fini(tables[i]);
    free(gather);
}

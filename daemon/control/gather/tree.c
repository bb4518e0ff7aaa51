#include "control/gather/tree.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(gather_comm_t comm)
{
    return table_hash(comm.home ^ table_hash(comm.number));
}

tree_t *tree_find(const gather_t *gather, gather_comm_t comm)
{
    table_link_t *link = table_find(&gather->trees, hash_of(comm));
    while (link && !comm_equals(CONTAINER_OF(link, tree_t, of_numbers)->comm, comm))
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, tree_t, of_numbers) : NULL;
}

uint32_t tree_own_host(const gather_t *gather, const gather_message_t *ready)
{
    for (uint32_t host = 0; host < ready->host_count; host++) {
        if (ready->hosts[host].host.instance == gather->config.own.instance)
            return host;
    }
    return UINT32_MAX;
}

/* ---- beginning and end ---- */

static void unlink_edge(gather_t *gather, edge_t *edge)
{
    if (!edge->peer)
        return;
    list_remove(&edge->of_peer);
    peer_put(gather, edge->peer);
    edge->peer = NULL;
}

void tree_forget(gather_t *gather, tree_t *tree)
{
    table_remove(&gather->trees, &tree->of_numbers);
    list_remove(&tree->of_all);
    unlink_edge(gather, &tree->above);
    for (uint32_t i = 0; i < tree->child_count; i++)
        unlink_edge(gather, &tree->below[i]);
    free(tree);
}

/* The ranks of one of READY's hosts. */
static void name_ranks(const gather_message_t *ready, uint32_t number, char text[TERMS_LIST_BYTES])
{
    terms_list_t ranks = {0};
    for (uint32_t rank = 0; rank < ready->terms.rank_count; rank++) {
        if (ready->seats[rank].host == number)
            terms_list_add_number(&ranks, rank);
    }
    memcpy(text, terms_list_end(&ranks), TERMS_LIST_BYTES);
}

static blink_result_t link_edge(gather_t *gather, tree_t *tree, edge_t *edge, const gather_message_t *ready,
                                uint32_t number)
{
    const gather_host_t *host = &ready->hosts[number].host;
    edge->tree = tree;
    list_init(&edge->of_peer);
    name_ranks(ready, number, edge->ranks);
    if (host->instance == gather->config.own.instance)
        return BLINK_FAIL(BLINK_ERR_INTERNAL, "%s is twice among the hosts of a communicator", host->name);
    edge->peer = peer_get(gather, host);
    if (!edge->peer)
        return BLINK_ERR_NO_MEMORY;
    list_append(&edge->peer->edges, &edge->of_peer);
    return BLINK_OK;
}

static blink_result_t link_edges(gather_t *gather, tree_t *tree, const gather_message_t *ready,
                                 uint32_t own_host, uint32_t child_count)
{
    if (own_host > 0)
        BLINK_TRY(link_edge(gather, tree, &tree->above, ready, tree_above(own_host)));
    while (tree->child_count < child_count) {
        uint32_t child = tree->child_count++;
        BLINK_TRY(
            link_edge(gather, tree, &tree->below[child], ready, own_host * GATHER_CHILDREN + 1 + child));
    }
    return BLINK_OK;
}

blink_result_t tree_create(gather_t *gather, const gather_message_t *ready, uint32_t own_host,
                           tree_t **created)
{
    uint32_t first = own_host * GATHER_CHILDREN + 1, count = 0;
    if (first < ready->host_count)
        count = ready->host_count - first < GATHER_CHILDREN ? ready->host_count - first : GATHER_CHILDREN;
    tree_t *tree = calloc(1, sizeof(*tree) + count * sizeof(tree->below[0]));
    if (!tree || !table_add(&gather->trees, &tree->of_numbers, hash_of(ready->comm))) {
        free(tree);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory on %s for the hosts of a communicator",
                          gather->config.own.name);
    }
    tree->comm = ready->comm;
    list_append(&gather->all_trees, &tree->of_all);
    blink_result_t result = link_edges(gather, tree, ready, own_host, count);
    if (result != BLINK_OK) {
        tree_forget(gather, tree);
        return result;
    }
    tree->unacknowledged = tree->unended = count;
    *created = tree;
    return BLINK_OK;
}

/* ---- what goes along it ---- */

void tree_send_ready(gather_t *gather, const tree_t *tree, const gather_message_t *ready)
{
    for (uint32_t i = 0; i < tree->child_count; i++)
        peer_send(gather, tree->below[i].peer, ready);
}

static void send_up(gather_t *gather, const tree_t *tree, gather_kind_t kind)
{
    const gather_message_t message = {.kind = kind, .comm = tree->comm};
    if (tree->above.peer)
        peer_send(gather, tree->above.peer, &message);
}

void tree_acknowledge(gather_t *gather, const tree_t *tree)
{
    send_up(gather, tree, GATHER_ACKNOWLEDGED);
}

static edge_t *find_below(tree_t *tree, const peer_t *peer)
{
    for (uint32_t i = 0; i < tree->child_count; i++) {
        if (tree->below[i].peer == peer)
            return &tree->below[i];
    }
    return NULL;
}

bool tree_is_neighbour(const tree_t *tree, const peer_t *peer)
{
    return tree->above.peer == peer || find_below((tree_t *)(uintptr_t)tree, peer);
}

bool tree_take_acknowledged(tree_t *tree, const peer_t *from)
{
    edge_t *edge = find_below(tree, from);
    if (!edge || edge->acknowledged)
        return false;
    edge->acknowledged = true;
    return --tree->unacknowledged == 0;
}

static void end_if_over(gather_t *gather, tree_t *tree)
{
    if (!tree->has_ended || tree->unended > 0)
        return;
    send_up(gather, tree, GATHER_ENDED);
    tree_forget(gather, tree);
}

void tree_take_ended(gather_t *gather, tree_t *tree, const peer_t *from)
{
    edge_t *edge = find_below(tree, from);
    if (!edge || !edge->acknowledged)
        return;
    tree->unended--;
    unlink_edge(gather, edge);
    end_if_over(gather, tree);
}

void tree_end(gather_t *gather, tree_t *tree)
{
    tree->has_ended = true;
    end_if_over(gather, tree);
}

blink_result_t tree_lost_error(const edge_t *edge)
{
    return peer_fail_lost(edge->peer, edge->ranks);
}

static void send_lost(gather_t *gather, const edge_t *edge, const peer_t *except, blink_result_t code,
                      const char *text)
{
    const gather_message_t lost = {.kind = GATHER_LOST, .comm = edge->tree->comm, .code = code, .text = text};
    if (edge->peer && edge->peer != except)
        peer_send(gather, edge->peer, &lost);
}

void tree_lose(gather_t *gather, tree_t *tree, const peer_t *except, blink_result_t code)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    if (tree->above.peer)
        send_lost(gather, &tree->above, except, code, text);
    for (uint32_t i = 0; i < tree->child_count; i++)
        send_lost(gather, &tree->below[i], except, code, text);
    tree_forget(gather, tree);
    blink_error_set(code, "%s", text);
}

terms_list_t tree_list_silent(const tree_t *tree)
{
    terms_list_t silent = {0};
    for (uint32_t i = 0; i < tree->child_count; i++) {
        if (!tree->below[i].acknowledged)
            terms_list_add(&silent, peer_name(tree->below[i].peer));
    }
    return silent;
}

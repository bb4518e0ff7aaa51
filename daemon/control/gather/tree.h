/*
 * The tree of a communicator's hosts, seen from one of them: the host above and the hosts below. READY goes
 * down and is acknowledged up; LOST goes both ways; ENDED goes up. A communicator on one host has no tree.
 */
#ifndef BLINK_GATHER_TREE_H
#define BLINK_GATHER_TREE_H

#include "control/gather/peer.h"

/* A neighbour. */
typedef struct edge {
    struct tree *tree;
    peer_t *peer; /* NULL: there is none above, or it has ended */
    list_t of_peer;
    char ranks[TERMS_LIST_BYTES]; /* that are there, as a sentence names them; "": none */
    bool acknowledged;
} edge_t;

typedef struct tree {
    table_link_t of_numbers;
    list_t of_all; /* on gather->all_trees */
    gather_comm_t comm;
    uint32_t child_count, unacknowledged, unended; /* the last two: of the children */
    bool has_ended;                                /* here */
    edge_t above;
    edge_t below[];
} tree_t;

/* The number in READY's hosts of this host; UINT32_MAX: it is not among them. */
uint32_t tree_own_host(const gather_t *gather, const gather_message_t *ready);

/* Who is above the host. */
static inline uint32_t tree_above(uint32_t host)
{
    return (host - 1) / GATHER_CHILDREN;
}

tree_t *tree_find(const gather_t *gather, gather_comm_t comm);

/* The edge's peer is lost: PEER_LOST, which names its ranks. */
blink_result_t tree_lost_error(const edge_t *edge);

/* Whether the peer is above or below. */
bool tree_is_neighbour(const tree_t *tree, const peer_t *peer);

/* Make the tree of a READY. Errors: NO_MEMORY, INTERNAL (this host is to be its own neighbour). */
blink_result_t tree_create(gather_t *gather, const gather_message_t *ready, uint32_t own_host, tree_t **tree);

/* Pass READY on. */
void tree_send_ready(gather_t *gather, const tree_t *tree, const gather_message_t *ready);

/* Everybody below has acknowledged: so does this host. Only where there is somebody above. */
void tree_acknowledge(gather_t *gather, const tree_t *tree);

/* A child acknowledges: true if it was the last one. */
bool tree_take_acknowledged(tree_t *tree, const peer_t *from);

/* A child, and all below it, have ended their parts. Frees the tree if this host's part has ended too. */
void tree_take_ended(gather_t *gather, tree_t *tree, const peer_t *from);

/* This host's part has ended. Frees the tree if all below have ended theirs. */
void tree_end(gather_t *gather, tree_t *tree);

/* Tell all neighbours but `except` this code and this thread's error text, or tell nobody, and free the tree.
 */
void tree_lose(gather_t *gather, tree_t *tree, const peer_t *except, blink_result_t code);
void tree_forget(gather_t *gather, tree_t *tree);

/* The children that have not acknowledged. */
terms_list_t tree_list_silent(const tree_t *tree);

#endif

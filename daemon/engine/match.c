/*
 * Transfers that lack an end.
 */
#include "engine/match.h"

#include "engine/loop.h"

comm_op_t **transfer_find(engine_comm_t *comm, uint32_t source, uint32_t destination)
{
    comm_op_t **link = &comm->transfers[(source * comm->rank_count + destination) % TRANSFER_BUCKETS];
    while (*link && ((*link)->signature.root != source || (*link)->signature.peer != destination))
        link = &(*link)->next_match;
    return link;
}

void transfer_append(comm_op_t **first, comm_op_t *op)
{
    if (*first) {
        (*first)->last_of_pair->next_of_pair = op;
        (*first)->last_of_pair = op;
    } else {
        op->last_of_pair = op;
        *first = op;
    }
}

void transfer_pop(comm_op_t **first)
{
    comm_op_t *op = *first, *next = op->next_of_pair;
    if (next) {
        next->last_of_pair = op->last_of_pair;
        next->next_match = op->next_match;
    }
    *first = next ? next : op->next_match;
}

#include "engine/op/match.h"

#include "error.h"

#include <stdlib.h>

/* Of each pair of ranks the oldest transfer is in its bucket (of_bucket); the pair's transfers are a ring
 * without a head (of_pair), so the newest is before the oldest. */
#define TRANSFER_BUCKETS 256u

static list_t *bucket_of(const engine_comm_t *comm, const op_signature_t *signature)
{
    return &comm->transfers[(signature->root * comm->rank_count + signature->peer) % TRANSFER_BUCKETS];
}

static comm_op_t *find_oldest(const engine_comm_t *comm, const op_signature_t *signature)
{
    LIST_FOR_EACH (link, bucket_of(comm, signature)) {
        comm_op_t *op = CONTAINER_OF(link, comm_op_t, of_bucket);
        if (op->signature.root == signature->root && op->signature.peer == signature->peer)
            return op;
    }
    return NULL;
}

blink_result_t match_take(engine_comm_t *comm, const op_signature_t *signature, bool receives,
                          comm_op_t **found)
{
    *found = NULL;
    if (!comm->transfers) {
        comm->transfers = malloc(TRANSFER_BUCKETS * sizeof(*comm->transfers));
        if (!comm->transfers)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for transfers");
        for (uint32_t i = 0; i < TRANSFER_BUCKETS; i++)
            list_init(&comm->transfers[i]);
    }
    comm_op_t *oldest = find_oldest(comm, signature);
    if (!oldest || op_entry_of(oldest, 0, receives)->batch)
        return BLINK_OK;
    match_forget(oldest);
    *found = oldest;
    return BLINK_OK;
}

void match_keep(comm_op_t *op)
{
    comm_op_t *oldest = find_oldest(op->comm, &op->signature);
    if (oldest)
        list_insert(&oldest->of_pair, &op->of_pair);
    else
        list_append(bucket_of(op->comm, &op->signature), &op->of_bucket);
}

void match_forget(comm_op_t *op)
{
    if (!list_is_empty(&op->of_bucket) && !list_is_empty(&op->of_pair)) {
        comm_op_t *next = CONTAINER_OF(op->of_pair.next, comm_op_t, of_pair);
        list_insert(&op->of_bucket, &next->of_bucket);
    }
    list_remove(&op->of_bucket);
    list_remove(&op->of_pair);
}

/* The handles of ops: chunks that stay until the context is closed, so that a number in a completion can be
 * looked up without a lock, and the lists of free ones. */
#include "submit/handle.h"

#include <stdlib.h>

/* Under submit_lock. */
static blink_result_t add_chunk(ops_t *ops)
{
    if (ops->chunk_count == OPS_CHUNKS_MAX)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "%u ops have been submitted and not waited for",
                          OPS_CHUNKS_MAX * OPS_CHUNK_OPS);
    blink_op_t *chunk = calloc(OPS_CHUNK_OPS, sizeof(*chunk));
    if (!chunk)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ops", OPS_CHUNK_OPS);
    for (uint32_t i = OPS_CHUNK_OPS; i-- > 0;) {
        chunk[i].ops = ops;
        chunk[i].index = ops->chunk_count * OPS_CHUNK_OPS + i;
        chunk[i].next = ops->free_ops;
        ops->free_ops = &chunk[i];
    }
    /* Release: pairs with the load in handle_at(). */
    atomic_store_explicit(&ops->chunks[ops->chunk_count], chunk, memory_order_release);
    ops->chunk_count++;
    return BLINK_OK;
}

blink_op_t *handle_get(ops_t *ops)
{
    if (!ops->free_ops) {
        /* Acquire: pairs with the release in handle_put(), so `next` is seen. */
        ops->free_ops = atomic_exchange_explicit(&ops->freed_ops, NULL, memory_order_acquire);
    }
    if (!ops->free_ops)
        (void)add_chunk(ops);
    blink_op_t *op = ops->free_ops;
    if (op)
        ops->free_ops = op->next;
    return op;
}

void handle_put(blink_op_t *op)
{
    ops_t *ops = op->ops;
    blink_op_t *top = atomic_load_explicit(&ops->freed_ops, memory_order_relaxed);
    do {
        op->next = top;
        /* Release: pairs with the exchange in handle_get(). The list is only ever taken whole, so a top that
         * was taken and came back is still the right successor. */
    } while (!atomic_compare_exchange_weak_explicit(&ops->freed_ops, &top, op, memory_order_release,
                                                    memory_order_relaxed));
}

blink_op_t *handle_at(ops_t *ops, uint32_t index)
{
    if (index >= OPS_CHUNKS_MAX * OPS_CHUNK_OPS)
        return NULL;
    /* Acquire: pairs with the store in add_chunk(). */
    blink_op_t *chunk = atomic_load_explicit(&ops->chunks[index / OPS_CHUNK_OPS], memory_order_acquire);
    return chunk ? &chunk[index % OPS_CHUNK_OPS] : NULL;
}

blink_result_t handles_init(ops_t *ops)
{
    ops->chunks = calloc(OPS_CHUNKS_MAX, sizeof(*ops->chunks));
    if (!ops->chunks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the table of ops");
    return BLINK_OK;
}

void handles_fini(ops_t *ops)
{
    for (uint32_t i = 0; i < ops->chunk_count; i++)
        free(atomic_load_explicit(&ops->chunks[i],
                                  memory_order_relaxed)); /* the caller is the only thread left */
    free(ops->chunks);
}

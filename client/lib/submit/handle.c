/* Chunks of handles and the free ones among them. */
#include "submit/handle.h"

#include <stdlib.h>

/* Under submit_lock. */
static blink_result_t add_chunk(handles_t *handles)
{
    if (handles->chunk_count == HANDLES_CHUNKS_MAX)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "%u ops have been submitted and not waited for",
                          HANDLES_CHUNKS_MAX * HANDLES_CHUNK_OPS);
    blink_op_t *chunk = calloc(HANDLES_CHUNK_OPS, sizeof(*chunk));
    if (!chunk)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ops", HANDLES_CHUNK_OPS);
    for (uint32_t i = HANDLES_CHUNK_OPS; i-- > 0;) {
        chunk[i].ops = handles->ops;
        chunk[i].index = handles->chunk_count * HANDLES_CHUNK_OPS + i;
        chunk[i].next = handles->free;
        handles->free = &chunk[i];
    }
    /* Release: pairs with the load in handle_at(). */
    atomic_store_explicit(&handles->chunks[handles->chunk_count], chunk, memory_order_release);
    handles->chunk_count++;
    return BLINK_OK;
}

blink_op_t *handle_get(handles_t *handles)
{
    if (!handles->free) {
        /* Acquire: pairs with the release in handle_put(), so `next` is seen. */
        handles->free = atomic_exchange_explicit(&handles->freed, NULL, memory_order_acquire);
    }
    if (!handles->free)
        (void)add_chunk(handles);
    blink_op_t *op = handles->free;
    if (op)
        handles->free = op->next;
    return op;
}

void handle_put(handles_t *handles, blink_op_t *op)
{
    blink_op_t *top = atomic_load_explicit(&handles->freed, memory_order_relaxed);
    do {
        op->next = top;
        /* Release: pairs with the exchange in handle_get(). The list is only ever taken whole, so a top that
         * was taken and came back is still the right successor. */
    } while (!atomic_compare_exchange_weak_explicit(&handles->freed, &top, op, memory_order_release,
                                                    memory_order_relaxed));
}

blink_op_t *handle_at(handles_t *handles, uint32_t index)
{
    if (index >= HANDLES_CHUNKS_MAX * HANDLES_CHUNK_OPS)
        return NULL;
    /* Acquire: pairs with the store in add_chunk(). */
    blink_op_t *chunk =
        atomic_load_explicit(&handles->chunks[index / HANDLES_CHUNK_OPS], memory_order_acquire);
    return chunk ? &chunk[index % HANDLES_CHUNK_OPS] : NULL;
}

blink_result_t handles_init(handles_t *handles, struct ops *ops)
{
    *handles = (handles_t){.ops = ops, .chunks = calloc(HANDLES_CHUNKS_MAX, sizeof(*handles->chunks))};
    if (!handles->chunks)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the table of ops");
    return BLINK_OK;
}

void handles_fini(handles_t *handles)
{
    for (uint32_t i = 0; i < handles->chunk_count; i++) {
        /* Relaxed: the caller is the only thread left. */
        free(atomic_load_explicit(&handles->chunks[i], memory_order_relaxed));
    }
    free(handles->chunks);
}

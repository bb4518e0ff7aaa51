/* Copying pieces. */
#include "submit/staging.h"

#include "gpu/gpu.h"
#include "names.h"
#include "submit/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64u

void staging_init(staging_t *staging, engine_t *engine, connection_t *connection)
{
    staging->engine = engine;
    arenas_init(&staging->arenas, connection);
}

void staging_fini(staging_t *staging)
{
    arenas_fini(&staging->arenas);
}

/* ---- scratch ---- */

/* Bytes of the slots of one direction. */
static uint64_t side_bytes(const staging_side_t *side, uint64_t block_bytes, bool one_piece)
{
    if (!side->user)
        return 0;
    if (!one_piece)
        return (uint64_t)STAGING_SLOTS * STAGING_SLOT_BYTES;
    return (side->blocks * block_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Enter a transfer's place in the SQE. */
static void enter(const staging_transfer_t *transfer, uint64_t in_bytes, ring_sqe_t *sqe)
{
    sqe->window = transfer->window_index;
    if (transfer->in.user) {
        sqe->flags |= RING_SQE_IN_STAGED;
        sqe->in_region = transfer->arena->region;
        sqe->in_offset_bytes = transfer->offset_bytes;
    }
    if (transfer->out.user) {
        sqe->flags |= RING_SQE_OUT_STAGED;
        sqe->out_region = transfer->arena->region;
        sqe->out_offset_bytes = transfer->offset_bytes + in_bytes;
    }
}

void staging_prepare(staging_t *staging, struct gpu *gpu)
{
    (void)arenas_prepare(&staging->arenas, gpu);
}

blink_result_t staging_reserve(staging_t *staging, const staging_request_t *request, const staging_side_t *in,
                               const staging_side_t *out, ring_sqe_t *sqe, staging_transfer_t **transfer)
{
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    uint64_t piece_elements =
        request->whole ? sqe->count : staging_piece_elements(sqe->opcode, request->rank_count, element_bytes);
    bool one_piece = sqe->count <= piece_elements;
    uint64_t in_bytes = side_bytes(in, sqe->count * element_bytes, one_piece);
    uint64_t out_bytes = side_bytes(out, sqe->count * element_bytes, one_piece);
    const arena_need_t need = {in_bytes + out_bytes, request->on_gpus, request->on_stream, request->gpu};
    staging_transfer_t *taken;
    BLINK_TRY(arenas_take(&staging->arenas, &need, &taken));

    taken->count = sqe->count;
    taken->piece_elements = piece_elements;
    taken->pieces = (sqe->count - 1) / piece_elements + 1;
    taken->element_bytes = element_bytes;
    taken->gpu = request->gpu;
    taken->on_stream = request->on_stream;
    taken->in = *in;
    taken->in.slots = taken->arena->base + taken->offset_bytes;
    taken->out = *out;
    taken->out.slots = taken->in.slots + in_bytes;
    /* Relaxed: published with the submission. */
    atomic_store_explicit(&taken->window->filled, 0, memory_order_relaxed);
    atomic_store_explicit(&taken->window->drained, 0, memory_order_relaxed);
    atomic_store_explicit(&taken->window->done, 0, memory_order_relaxed);
    enter(taken, in_bytes, sqe);
    *transfer = taken;
    return BLINK_OK;
}

void staging_release(staging_t *staging, staging_transfer_t *chain)
{
    pthread_mutex_lock(&staging->arenas.lock);
    for (staging_transfer_t *transfer = chain, *next; transfer; transfer = next) {
        next = transfer->next_of_op;
        arena_give(transfer);
    }
    pthread_mutex_unlock(&staging->arenas.lock);
}

/* ---- pieces ---- */

/* The op goes on and fails at its end. */
static void note_copy(staging_transfer_t *transfer, blink_result_t result)
{
    if (result == BLINK_OK || transfer->copied != BLINK_OK)
        return;
    transfer->copied = result;
    transfer->copy_text = strdup(blink_error_text());
}

/* Copy piece `piece` between the application's blocks and its slot. */
static void copy_piece(staging_transfer_t *transfer, const staging_side_t *side, uint64_t piece,
                       bool into_slot)
{
    staging_piece_t copied = staging_piece(transfer, side, piece);
    for (uint32_t block = 0; block < copied.blocks; block++) {
        char *user = copied.user + block * copied.stride_bytes, *slot = copied.slot + block * copied.bytes;
        void *to = into_slot ? slot : user;
        const void *from = into_slot ? user : slot;
        if (side->on_device)
            note_copy(transfer, gpu_copy(transfer->gpu, to, from, copied.bytes));
        else
            memcpy(to, from, copied.bytes);
    }
    if (side->on_device)
        note_copy(transfer, gpu_copy_end(transfer->gpu));
}

/* The slot of piece p is free once piece p - STAGING_SLOTS is done. */
static bool may_fill(const staging_transfer_t *transfer, uint64_t done)
{
    return transfer->in.user && !transfer->on_stream && transfer->filled < transfer->pieces &&
           transfer->filled < done + STAGING_SLOTS;
}

static void fill_next(staging_transfer_t *transfer)
{
    copy_piece(transfer, &transfer->in, transfer->filled, true);
    transfer->filled++;
    /* seq_cst: publishes the slot and comes before the look at engine_sleeping (ring.h). */
    atomic_store_explicit(&transfer->window->filled, transfer->filled, memory_order_seq_cst);
}

void staging_fill(staging_transfer_t *chain)
{
    for (; chain; chain = chain->next_of_op) {
        while (may_fill(chain, 0))
            fill_next(chain);
    }
}

/* Whether anything of it can be to do before its op arrives, and whether the watcher has to do it. */
static bool has_work(const staging_transfer_t *transfer)
{
    return transfer->pieces > 1 || transfer->on_stream;
}

static bool needs_watcher(const staging_transfer_t *transfer)
{
    return transfer->pieces > STAGING_SLOTS || transfer->on_stream;
}

bool staging_attach(staging_t *staging, staging_transfer_t *chain, blink_op_t *op)
{
    bool streams = false;
    op->staged = 0;
    for (staging_transfer_t *transfer = chain; transfer; transfer = transfer->next_of_op)
        op->staged++;
    for (staging_transfer_t *transfer = chain, *next; transfer; transfer = next) {
        next = transfer->next_of_op; /* once it is the op's, other threads may end it */
        if (needs_watcher(transfer)) {
            /* seq_cst: comes before the look at `pumped`; pairs with ops_pump(). */
            atomic_fetch_add_explicit(&staging->streaming, 1, memory_order_seq_cst);
            streams = true;
        }
        if (has_work(transfer))
            atomic_fetch_add_explicit(&staging->attention, 1,
                                      memory_order_relaxed); /* a hint: its reader repeats */
        /* Release: pairs with the load in progress_arena(), so that `staged` is seen. */
        atomic_store_explicit(&transfer->op, op, memory_order_release);
    }
    return streams;
}

void staging_expect(staging_t *staging)
{
    /* Relaxed: whoever has to see it does so by the op's `arrived`, or the lock. */
    atomic_fetch_add_explicit(&staging->attention, 1, memory_order_relaxed);
}

void staging_abandon(staging_t *staging, staging_transfer_t *transfer)
{
    pthread_mutex_lock(&staging->arenas.lock);
    transfer->abandoned = true;
    pthread_mutex_unlock(&staging->arenas.lock);
}

/* ---- one round, under the lock ---- */

/* The op has arrived and its outputs, if it went well, are where they belong. */
static void end(staging_t *staging, staging_transfer_t *transfer, blink_op_t *op, staging_round_t *round)
{
    if (needs_watcher(transfer))
        atomic_fetch_sub_explicit(&staging->streaming, 1, memory_order_relaxed); /* late: a needless look */
    if (transfer->copied != BLINK_OK && op->result == BLINK_OK) {
        op->result = transfer->copied;
        snprintf(op->text, sizeof(op->text), "%s", transfer->copy_text ? transfer->copy_text : "");
    }
    free(transfer->copy_text);
    round->settled += has_work(transfer);
    if (transfer->abandoned)
        atomic_store_explicit(&transfer->op, NULL, memory_order_relaxed); /* its place is lost */
    else
        arena_give(transfer);
    if (--op->staged > 0)
        return;
    round->settled++; /* counted by staging_expect() */
    op->next = round->ended;
    round->ended = op;
}

/* A stream makes the copies: all that is left is to see to its end. */
static void follow_stream(staging_t *staging, staging_transfer_t *transfer, blink_op_t *op,
                          staging_round_t *round)
{
    /* Acquire: as in advance(). */
    if (!atomic_load_explicit(&op->arrived, memory_order_acquire))
        return;
    /* Relaxed: the stream reads it without regard to anything else; it is stored again until the stream has
     * seen it. */
    if (op->result != BLINK_OK)
        atomic_store_explicit(&transfer->window->done, STAGING_LET_GO, memory_order_relaxed);
    /* Acquire: pairs with the stream's store, so its copies come before what uses the slots next. */
    bool passed = atomic_load_explicit(&transfer->window->drained, memory_order_acquire) == transfer->pieces;
    transfer->abandoned = transfer->abandoned || (!passed && gpu_is_lost(transfer->gpu));
    if (!passed && !transfer->abandoned)
        return;
    end(staging, transfer, op, round);
    round->followed = true;
}

static void advance(staging_t *staging, staging_transfer_t *transfer, blink_op_t *op, staging_round_t *round)
{
    /* Acquire: pairs with the store in arrive() (ops.c), so the result is seen. */
    bool arrived = atomic_load_explicit(&op->arrived, memory_order_acquire);
    uint64_t done = transfer->pieces;
    if (arrived && op->result != BLINK_OK) {
        end(staging, transfer, op, round);
        return;
    }
    if (!arrived) {
        /* seq_cst: the sleeper's second look (ops.h). */
        uint64_t shown =
            transfer->pieces > 1 ? atomic_load_explicit(&transfer->window->done, memory_order_seq_cst) : 0;
        done = shown < done ? shown : done;
    }
    while (!arrived && may_fill(transfer, done)) {
        fill_next(transfer);
        engine_wake(staging->engine);
    }
    while (transfer->out.user && transfer->drained < done) {
        copy_piece(transfer, &transfer->out, transfer->drained, false);
        transfer->drained++;
        if (arrived)
            continue; /* nobody waits for the slot */
        /* seq_cst: as in fill_next(). */
        atomic_store_explicit(&transfer->window->drained, transfer->drained, memory_order_seq_cst);
        engine_wake(staging->engine);
    }
    if (arrived)
        end(staging, transfer, op, round);
}

static void progress_arena(staging_t *staging, arena_t *arena, staging_round_t *round)
{
    LIST_FOR_EACH (link, &arena->in_use) {
        staging_transfer_t *transfer = CONTAINER_OF(link, staging_transfer_t, of_arena);
        /* Acquire: pairs with the store in staging_attach(). */
        blink_op_t *op = atomic_load_explicit(&transfer->op, memory_order_acquire);
        if (op && transfer->on_stream)
            follow_stream(staging, transfer, op, round);
        else if (op)
            advance(staging, transfer, op, round);
    }
}

bool staging_begin_round(staging_t *staging, bool certain, staging_round_t *round)
{
    *round = (staging_round_t){0};
    /* Acquire: pairs with the release in staging_end_round(). */
    if (atomic_load_explicit(&staging->attention, memory_order_acquire) == 0)
        return false;
    if (certain)
        pthread_mutex_lock(&staging->arenas.lock);
    else if (pthread_mutex_trylock(&staging->arenas.lock) != 0)
        return false;
    LIST_FOR_EACH (link, &staging->arenas.list)
        progress_arena(staging, CONTAINER_OF(link, arena_t, of_arenas), round);
    return true;
}

void staging_end_round(staging_t *staging, const staging_round_t *round)
{
    /* Release: after the ends of the ops, so that who finds no work sees them; pairs with the load in
     * staging_begin_round(). */
    atomic_fetch_sub_explicit(&staging->attention, round->settled, memory_order_release);
    /* The end of a stream's copies is no store of the daemon's that a waiting thread had announced itself
     * for. */
    if (round->followed)
        ring_notify(&staging->engine->ring);
    pthread_mutex_unlock(&staging->arenas.lock);
}

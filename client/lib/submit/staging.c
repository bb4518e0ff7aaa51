/* Arenas, windows and the copying of pieces. */
#include "submit/staging.h"

#include "context/comm.h"
#include "context/context.h"
#include "gpu/gpu.h"
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARENA_DATA_BYTES (16u << 20)
#define LINE_BYTES       64u

typedef struct staging_arena {
    struct staging_arena *next;
    char *base; /* RING_STAGING_WINDOWS windows, then data */
    uint64_t bytes;
    uint32_t region;
    bool on_gpus;              /* GPUs reach it */
    gpu_t *pinned_by;          /* NULL: by none */
    uint64_t address;          /* of `base` for streams, if pinned */
    uint32_t free_windows;     /* one bit each */
    staging_transfer_t *first; /* in use, by offset */
    staging_transfer_t transfers[RING_STAGING_WINDOWS];
} arena_t;

static_assert(RING_STAGING_WINDOWS == 32, "free_windows has a bit for each");

void staging_init(staging_t *staging)
{
    pthread_mutex_init(&staging->lock, NULL);
    pthread_mutex_init(&staging->grow_lock, NULL);
}

void staging_fini(staging_t *staging)
{
    for (arena_t *arena = staging->arenas, *next; arena; arena = next) {
        next = arena->next;
        if (arena->pinned_by)
            gpu_unpin(arena->pinned_by, arena->base);
        munmap(arena->base, arena->bytes);
        free(arena);
    }
    pthread_mutex_destroy(&staging->grow_lock);
    pthread_mutex_destroy(&staging->lock);
}

/* ---- room ---- */

/* A window and `bytes` bytes, first fit; NULL if the arena has not both. Under the lock. */
static staging_transfer_t *arena_take(arena_t *arena, uint64_t bytes)
{
    if (arena->free_windows == 0)
        return NULL;
    uint64_t offset = RING_STAGING_HEADER_BYTES;
    staging_transfer_t **link = &arena->first;
    for (; *link && (*link)->offset_bytes - offset < bytes; link = &(*link)->next)
        offset = (*link)->offset_bytes + (*link)->bytes;
    if (arena->bytes - offset < bytes)
        return NULL;
    uint32_t window = (uint32_t)__builtin_ctz(arena->free_windows);
    staging_transfer_t *transfer = &arena->transfers[window];
    arena->free_windows &= arena->free_windows - 1;
    *transfer = (staging_transfer_t){.arena = arena,
                                     .next = *link,
                                     .window = (ring_window_t *)arena->base + window,
                                     .window_address = arena->address + window * sizeof(ring_window_t),
                                     .offset_bytes = offset,
                                     .bytes = bytes};
    *link = transfer;
    return transfer;
}

/* Under the lock. */
static void arena_give(staging_transfer_t *transfer)
{
    arena_t *arena = transfer->arena;
    staging_transfer_t **link = &arena->first;
    while (*link != transfer)
        link = &(*link)->next;
    *link = transfer->next;
    arena->free_windows |= 1u << (transfer - arena->transfers);
}

/* What an arena has to be good for. */
typedef struct need {
    uint64_t bytes;
    bool on_gpus, pinned;
    gpu_t *gpu; /* that a new one is pinned by; may be NULL */
} need_t;

static staging_transfer_t *take(staging_t *staging, const need_t *need)
{
    staging_transfer_t *transfer = NULL;
    pthread_mutex_lock(&staging->lock);
    for (arena_t *arena = staging->arenas; arena && !transfer; arena = arena->next) {
        if (arena->on_gpus == need->on_gpus && (arena->pinned_by || !need->pinned))
            transfer = arena_take(arena, need->bytes);
    }
    pthread_mutex_unlock(&staging->lock);
    return transfer;
}

static blink_result_t map_region(int fd, uint64_t bytes, void **base)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || (uint64_t)status.st_size < bytes)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon gave no staging memory of %zu bytes",
                          (size_t)bytes);
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*base == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map %zu bytes of staging memory", (size_t)bytes);
    return BLINK_OK;
}

blink_result_t staging_map(blink_context_t *context, uint64_t bytes, bool on_gpus, bool windows, void **base,
                           uint32_t *region)
{
    Blinkwire__StagingCreate body = BLINKWIRE__STAGING_CREATE__INIT;
    body.bytes = bytes;
    body.gpu = on_gpus;
    body.windows = windows;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_STAGING_CREATE;
    request.staging_create = &body;
    control_answer_t answer;
    BLINK_TRY(control_call(context, &request, NULL, 0, NULL, &answer));
    blink_result_t result = BLINK_OK;
    *region = 0;
    if (answer.reply->body_case == BLINKWIRE__REPLY__BODY_STAGING_CREATE)
        *region = answer.reply->staging_create->region;
    if (*region == 0)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon made staging memory but gave no number");
    else
        result = map_region(answer.fd, bytes, base);
    control_answer_release(&answer);
    return result;
}

/* For a stream it must be possible; else it only makes copies faster. */
static blink_result_t pin_arena(arena_t *arena, const need_t *need)
{
    if (!need->gpu)
        return BLINK_OK;
    blink_result_t result = gpu_pin(need->gpu, arena->base, arena->bytes, &arena->address);
    if (result == BLINK_OK)
        arena->pinned_by = need->gpu;
    return need->pinned ? result : BLINK_OK;
}

static blink_result_t grow(blink_context_t *context, const need_t *need)
{
    staging_t *staging = &context->ops.staging;
    arena_t *arena = calloc(1, sizeof(*arena));
    if (!arena)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table of staged ops");
    arena->bytes =
        RING_STAGING_HEADER_BYTES + (need->bytes > ARENA_DATA_BYTES ? need->bytes : ARENA_DATA_BYTES);
    arena->free_windows = UINT32_MAX;
    arena->on_gpus = need->on_gpus;
    void *base;
    blink_result_t result = staging_map(context, arena->bytes, arena->on_gpus, false, &base, &arena->region);
    if (result == BLINK_OK) {
        arena->base = base;
        result = pin_arena(arena, need);
        if (result != BLINK_OK)
            munmap(arena->base, arena->bytes); /* the region stays the daemon's until the connection ends */
    }
    if (result != BLINK_OK) {
        free(arena);
        return result;
    }
    pthread_mutex_lock(&staging->lock);
    arena->next = staging->arenas;
    staging->arenas = arena;
    pthread_mutex_unlock(&staging->lock);
    return BLINK_OK;
}

static blink_result_t take_or_grow(blink_context_t *context, const need_t *need,
                                   staging_transfer_t **transfer)
{
    staging_t *staging = &context->ops.staging;
    blink_result_t result = BLINK_OK;
    *transfer = take(staging, need);
    if (*transfer)
        return BLINK_OK;
    pthread_mutex_lock(&staging->grow_lock);
    /* Another thread may have grown it, or may take what this one asked for. */
    while (result == BLINK_OK && !(*transfer = take(staging, need)))
        result = grow(context, need);
    pthread_mutex_unlock(&staging->grow_lock);
    return result;
}

/* Bytes of the slots of one direction. */
static uint64_t side_bytes(const staging_side_t *side, uint64_t block_bytes, bool one_piece)
{
    if (!side->user)
        return 0;
    if (!one_piece)
        return (uint64_t)RING_STAGING_SLOTS * RING_STAGING_SLOT_BYTES;
    return (side->blocks * block_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

blink_result_t staging_reserve(const blink_comm_t *comm, struct gpu *gpu, bool on_stream,
                               const staging_side_t *in, const staging_side_t *out, ring_sqe_t *sqe,
                               staging_transfer_t **transfer)
{
    uint32_t element_bytes = blink_datatype_bytes(sqe->datatype);
    uint64_t piece_elements = ring_piece_elements(sqe->opcode, comm->rank_count, element_bytes);
    bool one_piece = sqe->count <= piece_elements;
    uint64_t in_bytes = side_bytes(in, sqe->count * element_bytes, one_piece);
    uint64_t out_bytes = side_bytes(out, sqe->count * element_bytes, one_piece);
    staging_transfer_t *taken;
    const need_t need = {in_bytes + out_bytes, comm->on_gpu, on_stream, gpu};
    BLINK_TRY(take_or_grow(comm->context, &need, &taken));

    taken->count = sqe->count;
    taken->piece_elements = piece_elements;
    taken->pieces = (sqe->count - 1) / piece_elements + 1;
    taken->element_bytes = element_bytes;
    taken->gpu = gpu;
    taken->on_stream = on_stream;
    taken->in = *in;
    taken->in.slots = taken->arena->base + taken->offset_bytes;
    taken->out = *out;
    taken->out.slots = taken->in.slots + in_bytes;
    /* Relaxed: published with the submission. */
    atomic_store_explicit(&taken->window->filled, 0, memory_order_relaxed);
    atomic_store_explicit(&taken->window->drained, 0, memory_order_relaxed);
    atomic_store_explicit(&taken->window->done, 0, memory_order_relaxed);
    sqe->window = (uint32_t)(taken - taken->arena->transfers);
    if (in->user) {
        sqe->flags |= RING_SQE_IN_STAGED;
        sqe->in_region = taken->arena->region;
        sqe->in_offset_bytes = taken->offset_bytes;
    }
    if (out->user) {
        sqe->flags |= RING_SQE_OUT_STAGED;
        sqe->out_region = taken->arena->region;
        sqe->out_offset_bytes = taken->offset_bytes + in_bytes;
    }
    *transfer = taken;
    return BLINK_OK;
}

void staging_release(staging_t *staging, staging_transfer_t *chain)
{
    pthread_mutex_lock(&staging->lock);
    for (staging_transfer_t *transfer = chain, *next; transfer; transfer = next) {
        next = transfer->next_of_op;
        arena_give(transfer);
    }
    pthread_mutex_unlock(&staging->lock);
}

/* ---- pieces ---- */

staging_piece_t staging_piece(const staging_transfer_t *transfer, const staging_side_t *side, uint64_t piece)
{
    uint64_t first = piece * transfer->piece_elements, left = transfer->count - first;
    uint64_t elements = left < transfer->piece_elements ? left : transfer->piece_elements;
    return (staging_piece_t){.user = side->user + first * transfer->element_bytes,
                             .slot = side->slots + piece % RING_STAGING_SLOTS * RING_STAGING_SLOT_BYTES,
                             .bytes = elements * transfer->element_bytes,
                             .stride_bytes = transfer->count * transfer->element_bytes,
                             .blocks = side->blocks};
}

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
    staging_piece_t part = staging_piece(transfer, side, piece);
    for (uint32_t block = 0; block < part.blocks; block++) {
        char *user = part.user + block * part.stride_bytes, *slot = part.slot + block * part.bytes;
        void *to = into_slot ? slot : user;
        const void *from = into_slot ? user : slot;
        if (side->on_device)
            note_copy(transfer, gpu_copy(transfer->gpu, to, from, part.bytes));
        else
            memcpy(to, from, part.bytes);
    }
    if (side->on_device)
        note_copy(transfer, gpu_copy_end(transfer->gpu));
}

/* The slot of piece p is free once piece p - RING_STAGING_SLOTS is done. */
static bool may_fill(const staging_transfer_t *transfer, uint64_t done)
{
    return transfer->in.user && !transfer->on_stream && transfer->filled < transfer->pieces &&
           transfer->filled < done + RING_STAGING_SLOTS;
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
    return transfer->pieces > RING_STAGING_SLOTS || transfer->on_stream;
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

/* Under the lock. The op has arrived and its outputs, if it went well, are where they belong. */
static void end(staging_t *staging, staging_transfer_t *transfer, blink_op_t *op)
{
    uint32_t attention = has_work(transfer);
    if (needs_watcher(transfer))
        atomic_fetch_sub_explicit(&staging->streaming, 1, memory_order_relaxed); /* late: a needless look */
    if (transfer->copied != BLINK_OK && op->result == BLINK_OK) {
        op->result = transfer->copied;
        snprintf(op->text, sizeof(op->text), "%s", transfer->copy_text ? transfer->copy_text : "");
    }
    free(transfer->copy_text);
    if (transfer->abandoned)
        atomic_store_explicit(&transfer->op, NULL, memory_order_relaxed); /* its place is lost */
    else
        arena_give(transfer);
    if (--op->staged == 0) {
        attention++; /* counted when it arrived */
        ops_over(op);
    }
    /* Release: after the op's end, so that who finds no work sees it; pairs with the load in
     * staging_progress(). */
    atomic_fetch_sub_explicit(&staging->attention, attention, memory_order_release);
}

void staging_abandon(staging_t *staging, staging_transfer_t *transfer)
{
    pthread_mutex_lock(&staging->lock);
    transfer->abandoned = true;
    pthread_mutex_unlock(&staging->lock);
}

/* A stream makes the copies: all that is left is to see to its end. Under the lock. */
static void follow_stream(ops_t *ops, staging_transfer_t *transfer, blink_op_t *op)
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
    end(&ops->staging, transfer, op);
    ring_notify(
        &ops->ring); /* it was no store of the daemon's that a waiting thread had announced itself for */
}

/* Under the lock. */
static void advance(ops_t *ops, staging_transfer_t *transfer, blink_op_t *op)
{
    /* Acquire: pairs with the store in ops.c, so the result is seen. */
    bool arrived = atomic_load_explicit(&op->arrived, memory_order_acquire);
    uint64_t done = transfer->pieces;
    if (arrived && op->result != BLINK_OK) {
        end(&ops->staging, transfer, op);
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
        ops_ring_doorbell(ops);
    }
    while (transfer->out.user && transfer->drained < done) {
        copy_piece(transfer, &transfer->out, transfer->drained, false);
        transfer->drained++;
        if (arrived)
            continue; /* nobody waits for the slot */
        /* seq_cst: as in fill_next(). */
        atomic_store_explicit(&transfer->window->drained, transfer->drained, memory_order_seq_cst);
        ops_ring_doorbell(ops);
    }
    if (arrived)
        end(&ops->staging, transfer, op);
}

static void progress_arena(ops_t *ops, arena_t *arena)
{
    for (staging_transfer_t *transfer = arena->first, *next; transfer; transfer = next) {
        next = transfer->next;
        /* Acquire: pairs with the store in staging_attach(). */
        blink_op_t *op = atomic_load_explicit(&transfer->op, memory_order_acquire);
        if (op && transfer->on_stream)
            follow_stream(ops, transfer, op);
        else if (op)
            advance(ops, transfer, op);
    }
}

void staging_progress(ops_t *ops, bool certain)
{
    staging_t *staging = &ops->staging;
    /* Acquire: pairs with the release in end(). */
    if (atomic_load_explicit(&staging->attention, memory_order_acquire) == 0)
        return;
    if (certain)
        pthread_mutex_lock(&staging->lock);
    else if (pthread_mutex_trylock(&staging->lock) != 0)
        return;
    for (arena_t *arena = staging->arenas; arena; arena = arena->next)
        progress_arena(ops, arena);
    pthread_mutex_unlock(&staging->lock);
}

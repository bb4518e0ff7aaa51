/* Making windows, and giving them to ranks and streams. */
#include "stream/window.h"

#include "stream/keeper.h"
#include "submit/staging.h"
#include "submit/staging_region.h"

#include <stdlib.h>
#include <sys/mman.h>

#define CONTEXTS_MAX 64u /* of CUDA, that streams_settle() waits for */

/* ---- the region ---- */

static void init_windows(stream_table_t *table, uint64_t address)
{
    pthread_mutex_init(&table->lock, NULL);
    for (uint32_t i = 0; i < STREAM_WINDOWS; i++) {
        stream_window_t *window = &table->windows[i];
        window->table = table;
        window->index = i;
        window->words = table->words + i;
        window->address = address + i * sizeof(window_t);
        list_init(&window->of_rank);
        pthread_mutex_init(&window->lock, NULL);
    }
}

static blink_result_t make_table(streams_t *streams, gpu_t *gpu, stream_table_t *table)
{
    void *base;
    uint32_t region; /* nothing names it: there is one */
    BLINK_TRY(staging_region_map(streams->connection, STREAM_WINDOWS_BYTES, false, true, &base, &region));
    uint64_t address = 0;
    blink_result_t result = gpu_pin(gpu, base, STREAM_WINDOWS_BYTES, &address);
    if (result == BLINK_OK && !(table->keeper = keeper_create(streams->ops->pump_fd))) {
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the windows of streams");
        gpu_unpin(gpu, base);
    }
    if (result != BLINK_OK) {
        munmap(base, STREAM_WINDOWS_BYTES);
        return result;
    }
    table->streams = streams;
    table->pinned_by = gpu;
    table->words = base;
    init_windows(table, address);
    return BLINK_OK;
}

stream_table_t *stream_table(const streams_t *streams)
{
    /* Acquire: pairs with the store in stream_table_get(). */
    return atomic_load_explicit(&streams->table, memory_order_acquire);
}

blink_result_t stream_table_get(streams_t *streams, gpu_t *gpu, stream_table_t **table)
{
    *table = stream_table(streams);
    if (*table)
        return BLINK_OK;
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&streams->gpus->lock);
    *table = stream_table(streams);
    if (!*table) {
        *table = calloc(1, sizeof(**table));
        result = *table ? make_table(streams, gpu, *table)
                        : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the windows of streams");
        if (result != BLINK_OK) {
            free(*table);
        } else {
            /* Release: pairs with the load in stream_table(). */
            atomic_store_explicit(&streams->table, *table, memory_order_release);
            /* The daemon may have been lost meanwhile: then the watcher is to know that there are streams
             * now. */
            ops_wake_watcher(streams->ops);
        }
    }
    pthread_mutex_unlock(&streams->gpus->lock);
    return result;
}

void streams_fini(streams_t *streams)
{
    stream_table_t *table = stream_table(streams);
    if (!table)
        return;
    keeper_close(table->keeper);
    gpu_unpin(table->pinned_by, table->words);
    munmap(table->words, STREAM_WINDOWS_BYTES);
    for (uint32_t i = 0; i < STREAM_WINDOWS; i++)
        pthread_mutex_destroy(&table->windows[i].lock);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* ---- windows ---- */

/* Relaxed: others only compare it, or look again. Under the table's lock. */
static window_use_t use_of(const stream_window_t *window)
{
    return (window_use_t)atomic_load_explicit(&window->use, memory_order_relaxed);
}

static void set_use(stream_window_t *window, window_use_t use)
{
    atomic_store_explicit(&window->use, use, memory_order_relaxed);
}

/* Under the table's lock. */
static stream_window_t *take_fresh(stream_table_t *table, window_use_t use)
{
    uint32_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
    if (used == STREAM_WINDOWS)
        return NULL;
    set_use(&table->windows[used], use);
    /* Release: pairs with the load in streams_let_go(). */
    atomic_store_explicit(&table->used, used + 1, memory_order_release);
    return &table->windows[used];
}

/* Whether nothing of it is to come. Under the table's lock. */
static bool is_idle(const stream_window_t *window)
{
    /* Acquire: what the daemon and the stream did for these ops comes before whatever the window is used for
     * next. */
    return window->pins == 0 && use_of(window) == WINDOW_COUNTS &&
           atomic_load_explicit(&window->words->stream.ended, memory_order_acquire) >= window->number &&
           atomic_load_explicit(&window->words->stream.reached, memory_order_acquire) >= window->number;
}

/* Under the table's lock. */
static stream_window_t *take_idle(stream_table_t *table)
{
    for (uint32_t i = 0; i < STREAM_WINDOWS; i++) {
        stream_window_t *window = &table->windows[table->cursor++ % STREAM_WINDOWS];
        if (is_idle(window)) {
            list_remove(&window->of_rank);
            return window;
        }
    }
    return NULL;
}

/* Under the table's lock. */
static stream_window_t *find_window(stream_rank_t *rank, uint64_t stream_id)
{
    LIST_FOR_EACH (link, &rank->windows) {
        stream_window_t *window = CONTAINER_OF(link, stream_window_t, of_rank);
        if (window->stream_id == stream_id)
            return window;
    }
    return NULL;
}

static blink_result_t no_window(void)
{
    return BLINK_FAIL(BLINK_ERR_QUOTA, "all %u windows of streams are in use", STREAM_WINDOWS);
}

blink_result_t window_check_stream(const stream_rank_t *rank, const gpu_t *gpu, CUstream stream,
                                   CUcontext *context)
{
    const cuda_driver_t *driver = gpu->driver;
    CUdevice device;
    CUDA_DRIVER_TRY(driver, cuStreamGetCtx, stream, context);
    CUDA_DRIVER_TRY(driver, cuCtxPushCurrent, *context);
    CUresult result = driver->cuCtxGetDevice(&device);
    (void)driver->cuCtxPopCurrent(&(CUcontext){NULL});
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, "cuCtxGetDevice", result);
    if (device == gpu->device)
        return BLINK_OK;
    char theirs[GPU_UUID_TEXT_BYTES], own[GPU_UUID_TEXT_BYTES];
    gpu_device_text(driver, device, theirs);
    gpu_uuid_text(gpu->uuid, own);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "stream %p is of %s, but rank %u is on %s", (void *)stream,
                      theirs, rank->gpu->rank, own);
}

/* Give a window to the rank for a stream; NULL if there is none left. Under the table's lock. */
static stream_window_t *give_window(stream_table_t *table, stream_rank_t *rank, uint64_t stream_id,
                                    CUcontext context)
{
    stream_window_t *window = take_fresh(table, WINDOW_COUNTS);
    if (!window)
        window = take_idle(table);
    if (!window)
        return NULL;
    window->stream_id = stream_id;
    window->context = context;
    list_prepend(&rank->windows, &window->of_rank);
    return window;
}

blink_result_t window_pin(stream_table_t *table, stream_rank_t *rank, const gpu_t *gpu, CUstream stream,
                          uint64_t stream_id, stream_window_t **window)
{
    CUcontext context;
    pthread_mutex_lock(&table->lock);
    *window = find_window(rank, stream_id);
    if (*window)
        (*window)->pins++;
    pthread_mutex_unlock(&table->lock);
    if (*window)
        return BLINK_OK;
    BLINK_TRY(window_check_stream(rank, gpu, stream, &context));
    pthread_mutex_lock(&table->lock);
    *window = find_window(rank, stream_id); /* another thread may have come first */
    if (!*window)
        *window = give_window(table, rank, stream_id, context);
    if (*window)
        (*window)->pins++;
    pthread_mutex_unlock(&table->lock);
    return *window ? BLINK_OK : no_window();
}

void window_unpin(stream_window_t *window)
{
    pthread_mutex_lock(&window->table->lock);
    window->pins--;
    pthread_mutex_unlock(&window->table->lock);
}

void window_spoil(stream_window_t *window)
{
    pthread_mutex_lock(&window->table->lock);
    set_use(window, WINDOW_SPOILT);
    list_remove(&window->of_rank);
    pthread_mutex_unlock(&window->table->lock);
}

blink_result_t window_take_stored(stream_table_t *table, uint32_t member, CUcontext context,
                                  stream_window_t **window)
{
    pthread_mutex_lock(&table->lock);
    uint32_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
    stream_window_t *found = take_fresh(table, WINDOW_STORES);
    for (uint32_t i = 0; i < used && !found; i++) {
        if (use_of(&table->windows[i]) == WINDOW_STORED)
            found = &table->windows[i];
    }
    if (found) {
        /* Relaxed: published with the submission. */
        atomic_store_explicit(&found->words->graph.requested, 0, memory_order_relaxed);
        atomic_store_explicit(&found->words->graph.ended, 0, memory_order_relaxed);
        atomic_store_explicit(&found->words->graph.failure, 0, memory_order_relaxed);
        found->member = member;
        found->context = context;
        set_use(found, WINDOW_STORES);
    }
    pthread_mutex_unlock(&table->lock);
    *window = found;
    return found ? BLINK_OK : no_window();
}

void window_give_stored(stream_window_t *window)
{
    pthread_mutex_lock(&window->table->lock);
    set_use(window, WINDOW_STORED);
    pthread_mutex_unlock(&window->table->lock);
}

/* ---- ranks ---- */

void stream_rank_init(stream_rank_t *rank, streams_t *streams, rank_gpu_t *gpu)
{
    *rank = (stream_rank_t){.streams = streams, .gpu = gpu};
    list_init(&rank->windows);
}

void stream_rank_prepare(stream_rank_t *rank, gpu_t *gpu)
{
    stream_table_t *table;
    (void)stream_table_get(rank->streams, gpu, &table);
}

void stream_rank_fini(stream_rank_t *rank)
{
    stream_table_t *table = stream_table(rank->streams);
    if (!table)
        return;
    pthread_mutex_lock(&table->lock);
    while (list_take_first(&rank->windows))
        continue;
    pthread_mutex_unlock(&table->lock);
}

blink_result_t stream_rank_replay_error(const stream_rank_t *rank)
{
    stream_table_t *table = stream_table(rank->streams);
    uint64_t failed = BLINK_OK;
    if (!table)
        return BLINK_OK;
    pthread_mutex_lock(&table->lock);
    uint32_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
    for (uint32_t i = 0; i < used && failed == BLINK_OK; i++) {
        const stream_window_t *window = &table->windows[i];
        /* Acquire: the daemon stored it before the stream went on. */
        if (use_of(window) == WINDOW_STORES && window->member == rank->member)
            failed = atomic_load_explicit(&window->words->graph.failure, memory_order_acquire);
    }
    pthread_mutex_unlock(&table->lock);
    return failed <= BLINK_ERR_INTERNAL ? (blink_result_t)failed : BLINK_ERR_INTERNAL;
}

/* ---- the daemon is lost ---- */

bool streams_let_go(streams_t *streams)
{
    stream_table_t *table = stream_table(streams);
    if (!table)
        return false;
    /* Acquire: pairs with the store in take_fresh(). */
    uint32_t used = atomic_load_explicit(&table->used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        window_t *words = table->windows[i].words;
        window_use_t use = use_of(&table->windows[i]);
        /* seq_cst, all of these, as the stores of the daemon in whose place they stand. */
        if (use == WINDOW_COUNTS || use == WINDOW_SPOILT)
            atomic_store_explicit(&words->stream.ended, STAGING_LET_GO, memory_order_seq_cst);
        /* Once in any case: the daemon may have taken `requested` back and ended before it stored `ended`. */
        if (use == WINDOW_STORES &&
            (!table->windows[i].let_go ||
             atomic_load_explicit(&words->graph.requested, memory_order_seq_cst) == 1)) {
            table->windows[i].let_go = true;
            atomic_store_explicit(&words->graph.requested, 0, memory_order_seq_cst);
            atomic_store_explicit(&words->graph.ended, 1, memory_order_seq_cst);
        }
    }
    return true;
}

static void synchronise(const cuda_driver_t *driver, CUcontext context)
{
    if (driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return; /* destroyed, and its streams with it */
    (void)driver->cuCtxSynchronize();
    (void)driver->cuCtxPopCurrent(&(CUcontext){NULL});
}

void streams_settle(streams_t *streams)
{
    stream_table_t *table = stream_table(streams);
    gpu_visit_t visit;
    CUcontext seen[CONTEXTS_MAX];
    uint32_t count = 0;
    if (!table || gpu_enter(table->pinned_by, &visit) != BLINK_OK)
        return;
    uint32_t used =
        atomic_load_explicit(&table->used, memory_order_relaxed); /* no thread changes it any more */
    for (uint32_t i = 0; i < used; i++) {
        uint32_t known = 0;
        while (known < count && seen[known] != table->windows[i].context)
            known++;
        if (known < count || count == CONTEXTS_MAX)
            continue;
        seen[count++] = table->windows[i].context;
        synchronise(table->pinned_by->driver, table->windows[i].context);
    }
    gpu_leave(&visit);
}

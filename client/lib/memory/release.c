/* The end of imports: what the application says that it is about to free, and what was found to be freed. */
#include "memory/import.h"

#include "base/clock.h"
#include "submit/wait.h"

#include <stdlib.h>

/* The watcher looks for freed memory so often, and gives back so many imports at once. */
#define TEND_PERIOD_MS 1000
#define TEND_MOST      64u

/* ---- leaving the cache ---- */

static bool holds(const imports_t *imports, const gpu_import_t *import, CUdeviceptr address)
{
    (void)imports;
    return address - import->start < import->bytes;
}

/* Nothing of it is there any more. */
static bool is_freed(const imports_t *imports, const gpu_import_t *import, CUdeviceptr address)
{
    const cuda_driver_t *driver = gpus_driver(imports->gpus);
    (void)address;
    for (size_t i = 0; i < import->extent_count; i++) {
        if (!gpu_memory_is_gone(driver, import->extents[i].start, import->extents[i].id))
            return false;
    }
    return true;
}

/* Take imports out of the cache. Under register_lock. */
static void take(imports_t *imports, bool (*leaves)(const imports_t *, const gpu_import_t *, CUdeviceptr),
                 CUdeviceptr address, size_t most, list_t *taken)
{
    list_init(taken);
    pthread_rwlock_wrlock(&imports->lock);
    for (size_t i = 0; i < imports->cache.count && most > 0;) {
        gpu_import_t *import = imports->cache.items[i];
        if (!leaves(imports, import, address)) {
            i++;
            continue;
        }
        imports->cache.items[i] = imports->cache.items[--imports->cache.count];
        list_append(taken, &import->link);
        most--;
    }
    pthread_rwlock_unlock(&imports->lock);
}

void import_ask_back(imports_t *imports, gpu_import_t *import)
{
    Blinkwire__MemDeregister body = BLINKWIRE__MEM_DEREGISTER__INIT;
    body.region = import->region;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER;
    request.mem_deregister = &body;
    connection_ask(imports->connection, &request, &import->given_back);
}

/* Have the daemon give up what was taken; what it has never had is freed. */
static void give_back(imports_t *imports, list_t *taken, list_t *leaving)
{
    for (list_t *link; (link = list_take_first(taken));) {
        gpu_import_t *import = CONTAINER_OF(link, gpu_import_t, link);
        if (import->region == 0) {
            free(import);
            continue;
        }
        import_ask_back(imports, import);
        list_append(leaving, &import->link);
    }
}

static void await(imports_t *imports, list_t *leaving, blink_result_t *result)
{
    LIST_FOR_EACH (link, leaving) {
        gpu_import_t *import = CONTAINER_OF(link, gpu_import_t, link);
        blink_result_t answer = connection_await(imports->connection, &import->given_back);
        if (answer != BLINK_OK && answer != BLINK_ERR_NOT_REGISTERED)
            *result = answer; /* else the daemon has forgotten the region, with a GPU worker that ended */
    }
}

static void free_all(list_t *list)
{
    for (list_t *link; (link = list_take_first(list));) {
        gpu_import_t *import = CONTAINER_OF(link, gpu_import_t, link);
        list_remove(&import->of_releasing);
        free(import);
    }
}

/* ---- who has it done ---- */

bool imports_is_promised(const imports_t *imports)
{
    return atomic_load_explicit(&imports->is_promised, memory_order_relaxed);
}

/* Under register_lock. */
static void give_back_freed(imports_t *imports, size_t most)
{
    list_t freed;
    if (imports_is_promised(imports) || !gpus_driver(imports->gpus))
        return; /* nothing is freed without a word, and what is freed must not be asked about */
    take(imports, is_freed, 0, most, &freed);
    give_back(imports, &freed, &imports->leaving);
}

void imports_promise_release(imports_t *imports)
{
    pthread_mutex_lock(&imports->register_lock);
    give_back_freed(imports, SIZE_MAX); /* later nobody looks for what was freed before this */
    /* Relaxed: it stands for nothing but itself. */
    atomic_store_explicit(&imports->is_promised, true, memory_order_relaxed);
    pthread_mutex_unlock(&imports->register_lock);
}

/* Memory is freed only when no op can be using it any more: the daemon does not wait for one, nor does who
 * waits for the daemon here. */
static void sweep(imports_t *imports, blink_result_t *result)
{
    give_back_freed(imports, SIZE_MAX);
    await(imports, &imports->leaving, result);
    free_all(&imports->leaving);
}

void imports_sweep(imports_t *imports)
{
    blink_result_t ignored;
    sweep(imports, &ignored);
}

blink_result_t imports_release_freed(imports_t *imports)
{
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&imports->register_lock);
    sweep(imports, &result);
    pthread_mutex_unlock(&imports->register_lock);
    return result;
}

/* Another thread releases what holds the address, too. Under register_lock. */
static bool is_releasing(const imports_t *imports, CUdeviceptr address)
{
    LIST_FOR_EACH (link, &imports->releasing) {
        if (holds(imports, CONTAINER_OF(link, gpu_import_t, of_releasing), address))
            return true;
    }
    return false;
}

/* Take what holds the address, or wait until another thread has released it. */
static void begin_release(imports_t *imports, CUdeviceptr address, list_t *taken)
{
    pthread_mutex_lock(&imports->register_lock);
    take(imports, holds, address, SIZE_MAX, taken);
    LIST_FOR_EACH (link, taken) {
        gpu_import_t *import = CONTAINER_OF(link, gpu_import_t, link);
        if (import->region != 0) /* else the daemon has not got it, and it is freed at once */
            list_append(&imports->releasing, &import->of_releasing);
    }
    while (list_is_empty(taken) && is_releasing(imports, address))
        pthread_cond_wait(&imports->released, &imports->register_lock);
    pthread_mutex_unlock(&imports->register_lock);
}

static void end_release(imports_t *imports, list_t *left)
{
    pthread_mutex_lock(&imports->register_lock);
    free_all(left);
    pthread_cond_broadcast(&imports->released);
    pthread_mutex_unlock(&imports->register_lock);
}

blink_result_t imports_release(imports_t *imports, const void *pointer)
{
    list_t taken, leaving;
    blink_result_t result = BLINK_OK;
    list_init(&leaving);
    begin_release(imports, (CUdeviceptr)(uintptr_t)pointer, &taken);
    if (list_is_empty(&taken))
        return BLINK_OK;
    /* Without register_lock: an op that uses the memory may wait for one that has yet to register its own. */
    ops_drain(imports->ops, NULL); /* parked ops name their regions to the daemon later */
    give_back(imports, &taken, &leaving);
    await(imports, &leaving, &result);
    end_release(imports, &leaving);
    return result;
}

/* ---- the watcher's ---- */

int imports_period_ms(const imports_t *imports)
{
    return gpus_driver(imports->gpus) ? TEND_PERIOD_MS : -1;
}

static void forget_answered(imports_t *imports)
{
    LIST_FOR_EACH (link, &imports->leaving) {
        gpu_import_t *import = CONTAINER_OF(link, gpu_import_t, link);
        if (!connection_is_answered(imports->connection, &import->given_back))
            continue;
        list_remove(link);
        (void)connection_await(imports->connection, &import->given_back);
        free(import);
    }
}

void imports_tend(imports_t *imports)
{
    const uint64_t now_ns = clock_ns();
    if (!gpus_driver(imports->gpus) || now_ns - imports->tended_ns < TEND_PERIOD_MS * UINT64_C(1000000))
        return;
    imports->tended_ns = now_ns;
    if (pthread_mutex_trylock(&imports->register_lock) != 0)
        return; /* whoever has it may be waiting for what the watcher receives */
    forget_answered(imports);
    give_back_freed(imports, TEND_MOST);
    pthread_mutex_unlock(&imports->register_lock);
}

void imports_free_leaving(imports_t *imports)
{
    for (list_t *link; (link = list_take_first(&imports->leaving));) {
        gpu_import_t *import = CONTAINER_OF(link, gpu_import_t, link);
        connection_answer_release(&import->given_back.answer);
        free(import);
    }
}

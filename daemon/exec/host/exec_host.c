/*
 * The worker pool. Without a pacer every queued task is due, and a push wakes a sleeping worker. With one,
 * tasks are due at virtual times: late wake-ups cost nothing there, so as few workers as keep up do the work.
 * One timekeeper sleeps until the next task is due, and a worker is woken to help only when tasks stay behind
 * their time.
 */
#include "exec/host/wire_run.h"

#include "base/clock.h"
#include "base/cores.h"
#include "error.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

/* A task this far behind its time shows that the workers that are awake do not keep up: a few steps of the
 * largest chunk take as long, and so does a wake-up. */
#define POOL_LATE_NS 100000u

/* Assumed of a machine that does not say what its caches hold. */
#define POOL_CACHE_BYTES (16u << 20)

/* Give one sleeper a ticket. */
static void pool_wake_idle(exec_host_t *exec)
{
    if (exec->idle == 0)
        return;
    exec->idle--;
    exec->called++;
    pthread_cond_signal(&exec->idle_wake);
}

/* Wake a worker unless one will look at the queue in time anyway. */
static void pool_wake(exec_host_t *exec)
{
    if (queue_next_ns(&exec->queue) == UINT64_MAX)
        return;
    if (!exec->config.pace) {
        if (exec->called < exec->queue.due)
            pool_wake_idle(exec);
    } else if (exec->timekeeper) {
        if (queue_next_ns(&exec->queue) < exec->deadline_ns)
            pthread_cond_signal(&exec->timer_wake);
    } else if (exec->runners == 0 && exec->called == 0) {
        pool_wake_idle(exec);
    }
}

void pool_wake_helpers(exec_host_t *exec, uint32_t helpers)
{
    while (exec->called < helpers && exec->idle > 0)
        pool_wake_idle(exec);
}

void pool_unlock_and_wake(exec_host_t *exec)
{
    pool_wake(exec);
    pthread_mutex_unlock(&exec->mutex);
}

static void pool_sleep_until(exec_host_t *exec, uint64_t deadline_ns)
{
    exec->timekeeper = true;
    exec->deadline_ns = deadline_ns;
    if (deadline_ns == UINT64_MAX) {
        pthread_cond_wait(&exec->timer_wake, &exec->mutex);
    } else {
        struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                 .tv_nsec = (long)(deadline_ns % 1000000000u)};
        pthread_cond_timedwait(&exec->timer_wake, &exec->mutex, &until);
    }
    exec->timekeeper = false;
}

static void pool_sleep(exec_host_t *exec, uint32_t worker)
{
    if (exec->config.pace && !exec->timekeeper && exec->runners == 0) {
        pool_sleep_until(exec, queue_next_ns(&exec->queue));
        return;
    }
    pool_wake(exec); /* of what this worker queued, some may be due before the timekeeper's deadline */
    exec->idle++;
    while (exec->called == 0 && !exec->stopping) {
        pthread_cond_wait(&exec->idle_wake, &exec->mutex);
        exec->came_by[worker] = exec->round;
    }
    if (exec->called > 0)
        exec->called--;
}

void pool_run_locked(exec_host_t *exec, exec_task_t *task)
{
    exec_share_t *share = task->share;
    share->users++;
    pthread_mutex_unlock(&exec->mutex);
    uint64_t bytes = task->run(task);
    pthread_mutex_lock(&exec->mutex);
    queue_charge(&exec->queue, share, bytes);
    if (--share->users == 0 && share->destroyed)
        share_free(share);
}

/* Run the due task whose turn it is. */
static void pool_run_next(exec_host_t *exec, uint64_t now_ns)
{
    exec_task_t *task = queue_pop(&exec->queue);
    exec->runners++;
    if (!exec->config.pace || exec->runners == 0)
        pool_wake(exec);
    else if (exec->queue.due > 0 && task->ready_ns + POOL_LATE_NS < now_ns)
        pool_wake_idle(exec);
    if (task->taken)
        task->taken(task);
    atomic_fetch_add_explicit(&exec->busy, 1, memory_order_relaxed);
    pool_run_locked(exec, task);
    atomic_fetch_sub_explicit(&exec->busy, 1, memory_order_relaxed);
    exec->runners--;
}

static void *pool_worker(void *argument)
{
    exec_host_t *exec = argument;
    pthread_mutex_lock(&exec->mutex);
    uint32_t worker = exec->started++;
    while (!exec->stopping || queue_next_ns(&exec->queue) < UINT64_MAX) {
        exec->came_by[worker] = exec->round;
        uint64_t now_ns = exec->config.pace ? clock_ns() : 0;
        queue_ripen(&exec->queue, now_ns);
        if (exec->queue.due > 0)
            pool_run_next(exec, now_ns);
        else
            pool_sleep(exec, worker);
    }
    pthread_mutex_unlock(&exec->mutex);
    return NULL;
}

/* Worker i on the i-th processing unit that this process may use. Where the machine refuses, workers run
 * unbound. */
static void pool_bind_workers(exec_host_t *exec, hwloc_topology_t machine, hwloc_bitmap_t allowed,
                              hwloc_bitmap_t one)
{
    int unit = -1;
    for (uint32_t i = 0; i < exec->worker_count; i++) {
        unit = hwloc_bitmap_next(allowed, unit);
        if (unit < 0)
            unit = hwloc_bitmap_first(allowed);
        if (unit < 0)
            return;
        hwloc_bitmap_only(one, (unsigned)unit);
        hwloc_set_thread_cpubind(machine, exec->workers[i], one, 0);
    }
}

static void pool_bind(exec_host_t *exec, hwloc_topology_t machine)
{
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    hwloc_bitmap_t one = hwloc_bitmap_alloc();
    if (allowed && one && hwloc_get_cpubind(machine, allowed, HWLOC_CPUBIND_PROCESS) == 0)
        pool_bind_workers(exec, machine, allowed, one);
    hwloc_bitmap_free(one);
    hwloc_bitmap_free(allowed);
}

/* What all caches of the last level hold; 0 if unknown. */
static uint64_t pool_cache_bytes(hwloc_topology_t machine)
{
    uint64_t bytes = 0;
    for (unsigned level = 5; level > 1 && bytes == 0; level--) {
        int depth = hwloc_get_cache_type_depth(machine, level, HWLOC_OBJ_CACHE_UNIFIED);
        hwloc_obj_t cache = NULL;
        while (depth >= 0 && (cache = hwloc_get_next_obj_by_depth(machine, depth, cache)))
            bytes += cache->attr->cache.size;
    }
    return bytes;
}

/* Settle on the machine as hwloc sees it. */
static void pool_settle(exec_host_t *exec)
{
    hwloc_topology_t machine;
    exec->cache_bytes = POOL_CACHE_BYTES;
    if (hwloc_topology_init(&machine) != 0)
        return;
    if (hwloc_topology_load(machine) == 0) {
        uint64_t cache_bytes = pool_cache_bytes(machine);
        if (cache_bytes > 0)
            exec->cache_bytes = cache_bytes;
        if (exec->config.bind)
            pool_bind(exec, machine);
    }
    hwloc_topology_destroy(machine);
}

static void pool_init_sync(exec_host_t *exec)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&exec->mutex, NULL);
    pthread_cond_init(&exec->idle_wake, NULL);
    pthread_cond_init(&exec->timer_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static bool host_poll(exec_t *exec, exec_end_t *end)
{
    (void)exec, (void)end; /* runs end on the pool's threads */
    return false;
}

static const char *host_transport(const exec_instance_t *instance)
{
    (void)instance;
    return "local";
}

static const exec_wire_calls_t host_wire_calls = {.memory = host_wire_memory,
                                                  .place = host_wire_place,
                                                  .sent = host_wire_sent,
                                                  .arrived = host_wire_arrived,
                                                  .run = host_wire_run,
                                                  .run_some = host_wire_run_some,
                                                  .queue = host_wire_queue,
                                                  .settled = host_wire_settled};

static const exec_calls_t host_calls = {.create = host_instance_create,
                                        .destroy = host_instance_destroy,
                                        .bind = host_instance_bind,
                                        .start = host_instance_start,
                                        .abort = host_instance_abort,
                                        .poll = host_poll,
                                        .transport = host_transport,
                                        .share_create = host_share_create,
                                        .share_destroy = host_share_destroy,
                                        .wire = &host_wire_calls};

blink_result_t exec_host_create(const exec_host_config_t *config, exec_host_t **exec)
{
    uint32_t wanted = config->workers > 0 ? config->workers : cores_allowed();
    exec_host_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the worker pool");
    created->base = (exec_t){.calls = &host_calls, .link_bytes = config->link_bytes};
    created->config = *config;
    pool_init_sync(created);
    queue_init(&created->queue);
    created->workers = calloc(wanted, sizeof(*created->workers));
    created->came_by = calloc(wanted, sizeof(*created->came_by));
    if (!created->workers || !created->came_by ||
        exec_share_create(&created->base, NULL, 1, &created->base.own_share) != BLINK_OK) {
        exec_host_destroy(created);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u workers", wanted);
    }
    while (created->worker_count < wanted) {
        errno = pthread_create(&created->workers[created->worker_count], NULL, pool_worker, created);
        if (errno != 0) {
            blink_result_t result = BLINK_FAIL_ERRNO("start worker %u", created->worker_count);
            exec_host_destroy(created);
            return result;
        }
        pthread_setname_np(created->workers[created->worker_count], "blinkd-worker");
        created->worker_count++;
    }
    pool_settle(created);
    *exec = created;
    return BLINK_OK;
}

void exec_host_destroy(exec_host_t *exec)
{
    if (!exec)
        return;
    pthread_mutex_lock(&exec->mutex);
    exec->stopping = true;
    pthread_cond_broadcast(&exec->idle_wake);
    pthread_cond_broadcast(&exec->timer_wake);
    pthread_mutex_unlock(&exec->mutex);
    for (uint32_t i = 0; i < exec->worker_count; i++)
        pthread_join(exec->workers[i], NULL);
    exec_share_destroy(exec->base.own_share);
    pthread_cond_destroy(&exec->timer_wake);
    pthread_cond_destroy(&exec->idle_wake);
    pthread_mutex_destroy(&exec->mutex);
    queue_fini(&exec->queue);
    free(exec->came_by);
    free(exec->workers);
    free(exec);
}

exec_t *exec_of_host(exec_host_t *exec)
{
    return &exec->base;
}

bool exec_host_turns(exec_host_t *exec)
{
    uint32_t worker = 0;
    pthread_mutex_lock(&exec->mutex);
    while (worker < exec->worker_count && exec->came_by[worker] == exec->round)
        worker++;
    bool all = worker == exec->worker_count;
    if (all) {
        exec->round++;
        pthread_cond_broadcast(&exec->idle_wake);
        pthread_cond_broadcast(&exec->timer_wake);
    }
    pthread_mutex_unlock(&exec->mutex);
    return all;
}

uint32_t exec_host_busy(const exec_host_t *exec)
{
    return atomic_load_explicit(&exec->busy, memory_order_relaxed);
}

uint32_t exec_host_workers(const exec_host_t *exec)
{
    return exec->worker_count;
}

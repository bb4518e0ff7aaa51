/*
 * The engine thread's loop: what it goes round, when it spins and when it sleeps, and how it is told to stop.
 */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/client/client.h"
#include "engine/client/serve.h"
#include "engine/comm/comm.h"
#include "engine/comm/timeouts.h"
#include "engine/loop.h"
#include "engine/op/run.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long an idle engine looks for work before it sleeps: as long as waking it would take (about 45 µs each
 * way). */
#define IDLE_SPIN_US 100u

/* Idle looks between two readings of the clock. */
#define LOOKS_PER_CLOCK 64u

/* How long a thread may be at a plan beyond plan_seconds, which limits the packing alone, before it counts as
 * stuck. */
#define PLAN_GRACE_S 60.0

/* Timeouts are looked at this often while the engine is busy. */
#define TIMEOUT_CHECK_US 10000u

/* Naps between looks at words that GPUs write: the first are short, and none is longer than a replay may
 * wait. */
#define WATCH_LEAST_US 50u
#define WATCH_MOST_US  1000u
#define WATCH_FRACTION 16u

/* Steps of turns between two looks at the doorbells of clients that rest: some 20 µs. */
#define STEPS_UNHEARD 64u

/* Called by posters to an empty mailbox, on their thread. */
static void engine_wake(void *context)
{
    engine_t *engine = context;
    uint64_t one = 1;
    /* seq_cst: the poster's look; pairs with the announcement in engine_sleep(), as the mailbox argues. */
    if (atomic_load_explicit(&engine->sleeping, memory_order_seq_cst) &&
        write(engine->wake_fd, &one, sizeof(one)) < 0)
        LOG_DEBUG("engine wake-up: %s", strerror(errno)); /* EAGAIN: it is awake already */
}

/* The second look before sleeping. */
static bool has_work(engine_t *engine)
{
    if (!mailbox_is_empty(&engine->mailbox) || engine->replaying > 0 || !list_is_empty(&engine->leaving) ||
        !list_is_empty(&engine->lost_comms) || remotes_have_work(&engine->remotes))
        return true;
    if (engine->config.cuda && exec_cuda_has_news(engine->config.cuda))
        return true;
    return !list_is_empty(&engine->due_tenants.waiting) || lend_has_news(&engine->cache.lender);
}

/* Whether there are words to look at that GPUs write and nobody rings for. */
static bool has_watched(const engine_t *engine)
{
    return engine->awaited_gpu_ops > 0 || engine->stored_ops > 0;
}

/* Sleep, but no longer than until `deadline_us`; while GPUs may write words that nobody rings for, a part of
 * the time that has been quiet already. */
static void engine_sleep_until(engine_t *engine, uint64_t deadline_us, uint64_t quiet_us)
{
    uint64_t now_us = clock_us();
    uint64_t left_us = deadline_us > now_us ? deadline_us - now_us : 0;
    uint64_t nap_us = quiet_us / WATCH_FRACTION;
    nap_us = nap_us < WATCH_LEAST_US ? WATCH_LEAST_US : nap_us > WATCH_MOST_US ? WATCH_MOST_US : nap_us;
    if (has_watched(engine) && nap_us < left_us)
        left_us = nap_us;
    struct timespec timeout = {.tv_sec = (time_t)(left_us / 1000000u),
                               .tv_nsec = (long)(left_us % 1000000u) * 1000};
    clients_listen(engine, deadline_us != UINT64_MAX || has_watched(engine) ? &timeout : NULL);
}

static void engine_wake_up(engine_t *engine)
{
    engine->drowsy = false;
    atomic_store_explicit(&engine->sleeping, false, memory_order_seq_cst); /* as in engine_try_to_sleep() */
}

/* Say so first, and sleep once all has been looked at again that somebody may have done in between. */
static void engine_try_to_sleep(engine_t *engine, uint64_t deadline_us, uint64_t quiet_us)
{
    if (!engine->drowsy) {
        /* seq_cst: pairs with engine_wake(). */
        atomic_store_explicit(&engine->sleeping, true, memory_order_seq_cst);
        engine->drowsy = true;
    }
    if (engine->unsettled > 0 || engine->looks_owed > 0)
        return;
    remotes_rest(engine);
    if (!has_work(engine))
        engine_sleep_until(engine, deadline_us, quiet_us);
    engine_wake_up(engine);
}

/* Whether waiting clients, workers and the proxy, which ops of several hosts go through, leave a core to spin
 * on; clients hear it when they are visited. Members of communicators count even while they are not waiting:
 * they will all wait at once. */
static void update_crowding(engine_t *engine)
{
    uint32_t waiting = engine->clients_waiting;
    if (waiting < engine->clients_joined)
        waiting = engine->clients_joined;
    uint32_t proxies = list_is_empty(&engine->remotes.all) ? 0 : 1;
    uint32_t runnable = 1 + proxies + waiting + exec_host_busy(engine->config.exec);
    engine->crowded = runnable > engine->config.cores;
}

/* Once in a while listen for doorbells of clients that rest, and remember the longest turn. */
static void note_turn(engine_t *engine)
{
    static const struct timespec at_once = {0};
    engine->unheard += engine->turn_steps + 1;
    if (engine->resting > 0 && engine->unheard >= STEPS_UNHEARD)
        clients_listen(engine, &at_once);
    /* Relaxed: written by this thread alone, and a figure by itself. */
    if (engine->turn_steps > atomic_load_explicit(&engine->longest_turn, memory_order_relaxed))
        atomic_store_explicit(&engine->longest_turn, engine->turn_steps, memory_order_relaxed);
}

/* One round. True if there was anything to do. */
static bool engine_work(engine_t *engine)
{
    engine->turn_steps = 0;
    bool worked = mailbox_run(&engine->mailbox);
    worked |= remotes_poll(engine);
    worked |= remotes_work(engine);
    worked |= clients_serve(engine);
    worked |= engine->config.cuda && run_poll_ended(engine);
    worked |= engine->config.cuda && gpu_worker_end_some(engine);
    worked |= run_serve_queued(engine);
    worked |= comms_serve(engine);
    engine->cache.worked |= worked;
    if (worked)
        update_crowding(engine);
    if (worked && engine->drowsy)
        engine_wake_up(engine);
    note_turn(engine);
    return worked;
}

static uint64_t earlier(uint64_t one_us, uint64_t other_us)
{
    return one_us < other_us ? one_us : other_us;
}

/* Whatever happens by the clock. Returns when the next of it is due (µs), or UINT64_MAX. */
static uint64_t engine_check_times(engine_t *engine, uint64_t now_us)
{
    uint64_t next_us = comms_check_timeouts(engine, now_us);
    next_us = earlier(next_us, remotes_check_timeouts(engine, now_us));
    next_us = earlier(next_us, remotes_check_left(engine, now_us));
    next_us = earlier(next_us, remotes_check_failing(engine, now_us));
    next_us = earlier(next_us, plan_cache_tidy(engine));
    next_us = earlier(next_us, engine_check_gpu_worker(engine, now_us));
    return next_us;
}

static void *engine_main(void *argument)
{
    engine_t *engine = argument;
    uint64_t idle_since_us = 0, checked_us = 0;
    uint32_t looks = 0;
    /* A plan that the planner is still at comes back here. */
    while (!engine->stop || engine->cache.in_making > 0) {
        bool worked = engine_work(engine);
        if (worked)
            idle_since_us = 0;
        /* Crowded: whoever has something to submit needs this core first. */
        if (!worked && engine->crowded && engine->long_runs == 0)
            sched_yield();
        if (++looks % LOOKS_PER_CLOCK != 0 && engine->long_runs == 0 && !engine->drowsy)
            continue;
        uint64_t now_us = engine->now_us = clock_us();
        if (now_us - checked_us >= TIMEOUT_CHECK_US) {
            engine_check_times(engine, now_us);
            checked_us = now_us;
        }
        if (worked)
            continue;
        if (idle_since_us == 0)
            idle_since_us = now_us;
        if (engine->long_runs == 0 && !engine->drowsy && now_us - idle_since_us < IDLE_SPIN_US)
            continue;
        engine_try_to_sleep(engine, engine_check_times(engine, now_us), now_us - idle_since_us);
        if (!has_watched(engine))
            idle_since_us = 0;
    }
    remotes_rest(engine);
    return NULL;
}

/* ---- a client goes ---- */

static void client_remove_run(mailbox_item_t *item)
{
    engine_client_t *client = CONTAINER_OF(item, engine_client_t, remove_item);
    client_leave_begin(client);
}

void engine_client_remove(engine_client_t *client, engine_done_t done)
{
    client->done = done;
    client->remove_item.run = client_remove_run;
    mailbox_post(&client->engine->mailbox, &client->remove_item);
}

/* ---- the thread ---- */

static void engine_stop_run(mailbox_item_t *item)
{
    engine_t *engine = CONTAINER_OF(item, engine_t, stop_item);
    engine->stop = true;
}

static void heartbeat_on_control(mailbox_item_t *item)
{
    engine_t *engine = CONTAINER_OF(item, engine_t, heartbeat_item);
    engine->heartbeat_done.call(engine->heartbeat_done.context);
}

static void heartbeat_on_engine(mailbox_item_t *item)
{
    engine_t *engine = CONTAINER_OF(item, engine_t, heartbeat_item);
    item->run = heartbeat_on_control;
    mailbox_post(engine->config.control, item);
}

void engine_heartbeat(engine_t *engine, engine_done_t done)
{
    engine->heartbeat_done = done;
    engine->heartbeat_item.run = heartbeat_on_engine;
    mailbox_post(&engine->mailbox, &engine->heartbeat_item);
}

bool engine_planner_turns(engine_t *engine)
{
    return planner_turns(engine->cache.planner, engine->config.settings->plan_seconds + PLAN_GRACE_S);
}

static blink_result_t engine_open_fds(engine_t *engine)
{
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    if (engine->wake_fd < 0 || engine->epoll_fd < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &event) != 0)
        return BLINK_FAIL_ERRNO("engine descriptors");
    return BLINK_OK;
}

static void engine_close_fds(engine_t *engine)
{
    if (engine->wake_fd >= 0)
        close(engine->wake_fd);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
}

static void init_lists(engine_t *engine)
{
    list_init(&engine->active_tenants);
    list_init(&engine->leaving);
    list_init(&engine->busy_comms);
    list_init(&engine->gpu_comms);
    list_init(&engine->lost_comms);
    fair_round_init(&engine->due_tenants, TURN_QUANTUM_BYTES);
    list_init(&engine->spare_batches);
    const remote_calls_t calls = {comm_end, run_over, run_fail, run_fail_as, run_due};
    remotes_init(&engine->remotes, &calls);
}

blink_result_t engine_create(const engine_config_t *config, engine_t **engine)
{
    engine_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the engine");
    created->config = *config;
    created->now_us = clock_us();
    created->wake_fd = created->epoll_fd = created->gpu_event_fd = -1;
    mailbox_init(&created->mailbox, engine_wake, created);
    created->stop_item.run = engine_stop_run;
    init_lists(created);
    blink_result_t result = fabric_create_local(config->local, &created->local);
    if (result == BLINK_OK)
        result = plan_cache_init(&created->cache);
    if (result == BLINK_OK)
        result = engine_open_fds(created);
    if (result != BLINK_OK)
        goto fail;
    int error = pthread_create(&created->thread, NULL, engine_main, created);
    if (error != 0) {
        result = BLINK_FAIL(BLINK_ERR_SYSTEM, "start the engine thread: %s", strerror(error));
        goto fail;
    }
    pthread_setname_np(created->thread, "blinkd-engine");
    *engine = created;
    return BLINK_OK;
fail:
    plan_cache_free(&created->cache);
    fabric_put(created->local);
    engine_close_fds(created);
    free(created);
    return result;
}

void engine_stop(engine_t *engine)
{
    if (!engine)
        return;
    mailbox_post(&engine->mailbox, &engine->stop_item);
    pthread_join(engine->thread, NULL);
    plan_cache_free(
        &engine->cache); /* its instances belong to the executor, which goes before the engine does */
}

void engine_destroy(engine_t *engine)
{
    if (!engine)
        return;
    LIST_FOR_EACH (link, &engine->spare_batches) {
        free(CONTAINER_OF(link, op_batch_t, of_rank));
    }
    remotes_fini(&engine->remotes);
    fabric_put(engine->local);
    engine_close_fds(engine);
    free(engine);
}

uint32_t engine_longest_turn(const engine_t *engine)
{
    return atomic_load_explicit(&engine->longest_turn, memory_order_relaxed); /* a figure by itself */
}

engine_comm_stats_t engine_total_stats(const engine_t *engine)
{
    /* Relaxed: counters, each right by itself. */
    return (engine_comm_stats_t){atomic_load_explicit(&engine->op_count, memory_order_relaxed),
                                 atomic_load_explicit(&engine->failed_op_count, memory_order_relaxed),
                                 atomic_load_explicit(&engine->payload_bytes, memory_order_relaxed),
                                 0,
                                 0,
                                 0};
}

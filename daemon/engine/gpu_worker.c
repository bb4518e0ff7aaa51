/*
 * The GPU worker as the engine sees it come and go.
 */
#include "base/log.h"
#include "engine/comm/comm.h"
#include "engine/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* Communicators that end in one turn because the worker has ended. */
#define ENDED_PER_TURN 64u

/* A message from the control thread. */
typedef struct gpu_change {
    mailbox_item_t item;
    engine_t *engine;
    gpu_channel_t channel;
    char text[BLINK_ERROR_TEXT_BYTES];
} gpu_change_t;

static void attach_run(mailbox_item_t *item)
{
    gpu_change_t *change = CONTAINER_OF(item, gpu_change_t, item);
    engine_t *engine = change->engine;
    engine->gpu_workers++;
    if (exec_cuda_attach(engine->config.cuda, &change->channel) != BLINK_OK) {
        LOG_ERROR("the GPU worker's ring: %s", blink_error_text());
    } else {
        engine->gpu_event_fd = exec_cuda_event_fd(engine->config.cuda);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
        if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->gpu_event_fd, &event) != 0)
            LOG_ERROR("watch the GPU worker: %s", strerror(errno));
    }
    free(change);
}

static void detach_run(mailbox_item_t *item)
{
    gpu_change_t *change = CONTAINER_OF(item, gpu_change_t, item);
    engine_t *engine = change->engine;
    if (engine->gpu_event_fd >= 0)
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, engine->gpu_event_fd, NULL);
    engine->gpu_event_fd = -1;
    exec_cuda_detach(engine->config.cuda, change->text);
    engine->lost_gpu_workers++;
    snprintf(engine->gpu_lost_text, sizeof(engine->gpu_lost_text), "%s", change->text);
    list_splice(&engine->lost_comms, &engine->gpu_comms);
    free(change);
}

static void stuck_on_control(mailbox_item_t *item)
{
    engine_t *engine = CONTAINER_OF(item, engine_t, gpu_stuck_item);
    engine->config.gpu_worker_stuck(engine->config.context, engine->gpu_stuck);
}

uint64_t engine_check_gpu_worker(engine_t *engine, uint64_t now_us)
{
    if (!engine->config.cuda || engine->gpu_stuck == engine->gpu_workers)
        return UINT64_MAX;
    uint64_t since_us = exec_cuda_aborting_since_us(engine->config.cuda);
    if (since_us == UINT64_MAX)
        return UINT64_MAX;
    uint64_t deadline_us = since_us + (uint64_t)(engine->config.settings->run_timeout_s * 1e6);
    if (now_us < deadline_us)
        return deadline_us;
    engine->gpu_stuck = engine->gpu_workers;
    engine->gpu_stuck_item.run = stuck_on_control;
    mailbox_post(engine->config.control, &engine->gpu_stuck_item);
    return UINT64_MAX;
}

void gpu_worker_end_comm(engine_comm_t *comm)
{
    const fabric_t *fabric = comm->fabric;
    const char *lost = comm->engine->gpu_lost_text;
    char text[BLINK_ERROR_TEXT_BYTES];
    if (fabric_spans_hosts(fabric)) /* others have GPU workers, too */
        snprintf(text, sizeof(text), "%.64s: %.*s", fabric->hosts[fabric->own_host],
                 BLINK_ERROR_TEXT_BYTES - 68, lost);
    else
        snprintf(text, sizeof(text), "%s", lost);
    comm_end(comm, ENDED_BY_ENGINE, BLINK_ERR_SYSTEM, text);
}

bool gpu_worker_end_some(engine_t *engine)
{
    list_t *link;
    uint32_t ended = 0;
    for (; ended < ENDED_PER_TURN && (link = list_take_first(&engine->lost_comms)); ended++)
        comm_has_ended(CONTAINER_OF(link, engine_comm_t, of_gpus));
    engine_count(engine, ended);
    return ended > 0;
}

static void post_change(engine_t *engine, const gpu_change_t *change)
{
    gpu_change_t *posted = malloc(sizeof(*posted));
    if (!posted) {
        LOG_ERROR("no memory to tell the engine of the GPU worker");
        abort(); /* it would go on with a worker that is gone */
    }
    *posted = *change;
    posted->engine = engine;
    mailbox_post(&engine->mailbox, &posted->item);
}

void engine_gpu_attach(engine_t *engine, const gpu_channel_t *channel)
{
    post_change(engine, &(gpu_change_t){.item = {.run = attach_run}, .channel = *channel});
}

void engine_gpu_detach(engine_t *engine, const char *text)
{
    gpu_change_t change = {.item = {.run = detach_run}};
    snprintf(change.text, sizeof(change.text), "%s", text);
    post_change(engine, &change);
}

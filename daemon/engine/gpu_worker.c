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
    LIST_FOR_EACH (link, &engine->gpu_comms) {
        comm_end(CONTAINER_OF(link, engine_comm_t, of_gpus), ENDED_BY_ENGINE, BLINK_ERR_SYSTEM, change->text);
    }
    free(change);
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

/* The transport's beginning and end. */
#include "net/data/verbs/verbs.h"

#include "base/pages.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

const char *verbs_name(const verbs_rail_t *rail)
{
    return rail && rail->device ? verbs_device_name(rail->device) : "(none yet)";
}

void verbs_lose(verbs_t *verbs, blink_result_t code)
{
    if (!verbs->transport.closed)
        verbs->config.events->lost(verbs->config.context, code);
}

static void init_qp(verbs_t *verbs, uint32_t number)
{
    verbs_qp_t *qp = &verbs->qps[number];
    bool is_control = number == 0;
    *qp = (verbs_qp_t){.verbs = verbs,
                       .number = number,
                       .depth = is_control ? VERBS_CONTROL_DEPTH : VERBS_MOVES_DEPTH,
                       .message_bytes = is_control ? VERBS_CONTROL_BYTES : VERBS_MOVES_BYTES};
    qp->allowed = qp->depth;
    intake_init(&qp->intake, &verbs->transport, &verbs->config, is_control);
}

static blink_result_t verbs_create(const transport_config_t *config, transport_t **created)
{
    verbs_t *verbs = calloc(1, sizeof(*verbs));
    if (!verbs)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for data connections");
    verbs->transport.calls = &verbs_transport;
    verbs->config = *config;
    verbs->library = config->verbs->library;
    verbs->of_channel.serve = verbs_on_channel;
    verbs->of_timer.serve = verbs_on_timer;
    verbs->timer_fd = -1;
    list_init(&verbs->shown);
    for (uint32_t i = 0; i < verbs->config.stream_count; i++) {
        init_qp(verbs, i);
        verbs->rails[i] = (verbs_rail_t){.verbs = verbs, .of_completions = {verbs_on_completions}};
        list_init(&verbs->rails[i].of_device);
    }
    *created = &verbs->transport;
    return BLINK_OK;
}

static void verbs_drop(transport_t *transport, const landing_t *landing)
{
    verbs_t *verbs = verbs_of(transport);
    for (uint32_t i = 0; i < verbs->config.stream_count; i++)
        intake_forget(&verbs->qps[i].intake, landing);
}

void verbs_stop_listening(verbs_t *verbs)
{
    for (uint32_t i = 0; i < verbs->config.stream_count; i++) {
        if (verbs->listeners[i])
            (void)verbs->library->destroy_id(verbs->listeners[i]);
        verbs->listeners[i] = NULL;
    }
}

static void verbs_close(transport_t *transport)
{
    verbs_t *verbs = verbs_of(transport);
    const verbs_library_t *library = verbs->library;
    if (transport->closed)
        return;
    transport->closed = true;
    verbs_close_rails(verbs);
    verbs_stop_listening(verbs);
    if (verbs->timer_fd >= 0) { /* as completions */
        (void)epoll_ctl(verbs->config.epoll_fd, EPOLL_CTL_DEL, verbs->timer_fd, NULL);
        close(verbs->timer_fd);
    }
    if (verbs->channel)
        (void)epoll_ctl(verbs->config.epoll_fd, EPOLL_CTL_DEL, verbs->channel->fd, NULL);
    if (verbs->channel)
        library->destroy_event_channel(verbs->channel);
    verbs->timer_fd = -1;
    verbs->channel = NULL;
}

static void verbs_destroy(transport_t *transport)
{
    verbs_t *verbs = verbs_of(transport);
    for (uint32_t i = 0; i < verbs->config.stream_count; i++) {
        verbs_qp_t *qp = &verbs->qps[i];
        intake_free(&qp->intake);
        pages_give(qp->memory, 2 * (size_t)qp->depth * qp->message_bytes);
    }
    free(verbs);
}

const transport_calls_t verbs_transport = {.by = DATA_BY_RDMA,
                                           .create = verbs_create,
                                           .dial = verbs_dial,
                                           .listen = verbs_listen,
                                           .send = verbs_send,
                                           .show = verbs_show,
                                           .pin = verbs_pin,
                                           .hide = verbs_hide,
                                           .shows = verbs_shows,
                                           .reach = verbs_reach,
                                           .unreach = verbs_unreach,
                                           .settle = verbs_settle,
                                           .reaches = verbs_reaches,
                                           .drop = verbs_drop,
                                           .close = verbs_close,
                                           .destroy = verbs_destroy};

/* The transport's beginning and end. */
#include "net/data/verbs/verbs.h"

#include "base/pages.h"

#include <stdlib.h>

const char *verbs_name(const verbs_t *verbs)
{
    return verbs->device ? verbs_device_name(verbs->device) : "(none yet)";
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
    verbs->of_completions.serve = verbs_on_completions;
    list_init(&verbs->of_device);
    list_init(&verbs->shown);
    for (uint32_t i = 0; i < DATA_STREAMS; i++)
        init_qp(verbs, i);
    *created = &verbs->transport;
    return BLINK_OK;
}

static void verbs_drop(transport_t *transport, const landing_t *landing)
{
    for (uint32_t i = 0; i < DATA_STREAMS; i++)
        intake_forget(&verbs_of(transport)->qps[i].intake, landing);
}

static void verbs_close(transport_t *transport)
{
    verbs_t *verbs = verbs_of(transport);
    const verbs_library_t *library = verbs->library;
    if (transport->closed)
        return;
    transport->closed = true;
    verbs_close_device(verbs);
    for (uint32_t i = 0; i < DATA_STREAMS; i++) {
        if (verbs->qps[i].id)
            (void)library->destroy_id(verbs->qps[i].id);
        verbs->qps[i].id = NULL;
    }
    if (verbs->listener)
        (void)library->destroy_id(verbs->listener);
    if (verbs->channel)
        library->destroy_event_channel(verbs->channel);
    verbs->listener = NULL;
    verbs->channel = NULL;
}

static void verbs_destroy(transport_t *transport)
{
    verbs_t *verbs = verbs_of(transport);
    for (uint32_t i = 0; i < DATA_STREAMS; i++) {
        verbs_qp_t *qp = &verbs->qps[i];
        intake_free(&qp->intake);
        pages_give(qp->memory, 2 * (size_t)qp->depth * qp->message_bytes);
    }
    free(verbs);
}

const transport_calls_t verbs_transport = {.create = verbs_create,
                                           .dial = verbs_dial,
                                           .listen = verbs_listen,
                                           .send = verbs_send,
                                           .show = verbs_show,
                                           .hide = verbs_hide,
                                           .drop = verbs_drop,
                                           .close = verbs_close,
                                           .destroy = verbs_destroy};

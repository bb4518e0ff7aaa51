/*
 * A host that has the cluster's key, gives signs of life, and says nothing else: mute KEY-FILE NAME ADDRESS.
 * It ends with the session, and prints why that ended.
 */
#include "net/net.h"

#include <stdio.h>
#include <stdlib.h>

static net_t *net;

static void on_opened(void *context, net_session_t *session)
{
    (void)context;
    (void)session;
}

static blink_result_t on_message(void *context, net_session_t *session, const Blinkpeer__Message *message)
{
    (void)context;
    (void)session;
    (void)message;
    return BLINK_OK;
}

static void on_closed(void *context, net_session_t *session, blink_result_t code)
{
    (void)context;
    (void)session;
    (void)code;
    puts(blink_error_text());
    exit(0);
}

static void on_asked(void *context)
{
    (void)context;
    net_answer(net);
}

static void on_connected(void *context, net_session_t *session)
{
    (void)context;
    (void)session;
}

static void on_failed(void *context, blink_result_t code)
{
    (void)context;
    (void)code;
}

static blink_result_t start(uv_loop_t *loop, char **arguments)
{
    static const net_handler_t handler = {
        .opened = on_opened, .message = on_message, .closed = on_closed, .asked = on_asked};
    cluster_keys_t keys;
    net_address_t address;
    net_dial_t *dial;
    BLINK_TRY(cluster_keys_read(arguments[1], &keys));
    BLINK_TRY(address_parse(arguments[3], NET_PORT_DEFAULT, &address));
    const net_config_t config = {.loop = loop,
                                 .cluster = "blink",
                                 .host = arguments[2],
                                 .keys = &keys,
                                 .timeout_s = NET_TIMEOUT_DEFAULT_S,
                                 .handler = &handler};
    BLINK_TRY(net_create(&config, &net));
    const net_dial_config_t to = {
        .address_count = 1, .addresses = &address, .connected = on_connected, .failed = on_failed};
    return net_dial(net, &to, &dial);
}

int main(int count, char **arguments)
{
    uv_loop_t loop;
    if (count != 4 || uv_loop_init(&loop) != 0)
        return 2;
    if (start(&loop, arguments) == BLINK_OK)
        uv_run(&loop, UV_RUN_DEFAULT);
    fprintf(stderr, "%s\n", blink_error_text());
    return 1;
}

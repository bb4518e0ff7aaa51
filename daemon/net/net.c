#include "net/net.h"

#include "net/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* 8 handshakes, which take a third of a millisecond each, or 2 MiB of messages. */
#define STEPS_PER_TURN 128u

static void on_turn(uv_prepare_t *prepare)
{
    net_t *net = prepare->data;
    net->steps = STEPS_PER_TURN;
}

/* The instance is random, so that no two runs of daemons have the same. */
static blink_result_t fill_hello(const net_config_t *config, hello_t *hello)
{
    *hello = (hello_t){.version_min = PEER_VERSION_MIN,
                       .version_max = PEER_VERSION_MAX,
                       .daemon_version = BLINK_VERSION,
                       .nic_count = config->nic_count};
    while (hello->instance == 0) {
        if (getrandom(&hello->instance, sizeof(hello->instance), 0) != sizeof(hello->instance))
            return BLINK_FAIL_ERRNO("getrandom");
    }
    snprintf(hello->host, sizeof(hello->host), "%s", config->host);
    if (config->nic_count > 0)
        memcpy(hello->nics, config->nics, config->nic_count * sizeof(*config->nics));
    return BLINK_OK;
}

static blink_result_t check_config(const net_config_t *config)
{
    BLINK_TRY(name_check("host name", config->host));
    BLINK_TRY(name_check("cluster name", config->cluster));
    if (isfinite(config->timeout_s) && config->timeout_s >= NET_TIMEOUT_LEAST_S && config->timeout_s <= 3600)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[network] timeout_s of %g: %g to 3600 are allowed",
                      config->timeout_s, NET_TIMEOUT_LEAST_S);
}

static uint64_t handshake_ms(uint64_t timeout_ms)
{
    if (timeout_ms < NET_HANDSHAKE_LEAST_MS)
        return NET_HANDSHAKE_LEAST_MS;
    return timeout_ms < NET_HANDSHAKE_MOST_MS ? timeout_ms : NET_HANDSHAKE_MOST_MS;
}

static void init_handles(net_t *net)
{
    list_init(&net->dials);
    list_init(&net->sessions);
    list_init(&net->owing);
    listen_init(net);
    uv_prepare_init(net->loop, &net->turn);
    net->turn.data = net;
    net->holds++;
    uv_prepare_start(&net->turn, on_turn);
}

blink_result_t net_create(const net_config_t *config, net_t **created)
{
    BLINK_TRY(check_config(config));
    net_t *net = calloc(1, sizeof(*net));
    if (!net)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for sessions with other daemons");
    *net = (net_t){.loop = config->loop,
                   .handler = config->handler,
                   .context = config->context,
                   .timeout_ms = (uint64_t)(config->timeout_s * 1000)};
    net->handshake_ms = handshake_ms(net->timeout_ms);
    blink_result_t result = fill_hello(config, &net->hello);
    if (result == BLINK_OK)
        result = tls_context_create(config->cluster, config->keys, &net->tls);
    if (result != BLINK_OK) {
        free(net);
        return result;
    }
    init_handles(net);
    *created = net;
    return BLINK_OK;
}

static void on_turn_closed(uv_handle_t *handle)
{
    net_put(handle->data);
}

/* No session begins any more. */
static void close_doors(net_t *net)
{
    if (net->is_leaving)
        return;
    net->is_leaving = true;
    dials_end(net);
    listen_end(net);
}

void net_leave(net_t *net, void (*left)(void *context))
{
    close_doors(net);
    LIST_FOR_EACH (link, &net->sessions)
        session_leave(CONTAINER_OF(link, net_session_t, link));
    net->left = left;
    net_left_one(net);
}

void net_destroy(net_t *net)
{
    if (!net)
        return;
    close_doors(net);
    LIST_FOR_EACH (link, &net->sessions)
        session_drop(CONTAINER_OF(link, net_session_t, link));
    uv_close((uv_handle_t *)&net->turn, on_turn_closed);
}

bool net_set_keys(net_t *net, const cluster_keys_t *keys)
{
    return tls_context_set_keys(net->tls, keys);
}

const char *net_key_name(const net_t *net, uint32_t number)
{
    return tls_context_key_name(net->tls, number);
}

void net_tell_home(net_t *net, const unique_id_t *home)
{
    net->hello.port = home->port;
    memcpy(net->hello.addresses, home->addresses, sizeof(net->hello.addresses));
}

const hello_t *net_hello(const net_t *net)
{
    return &net->hello;
}

uint32_t net_session_count(const net_t *net)
{
    return net->open_count;
}

uint32_t net_handshake_count(const net_t *net)
{
    return net->handshake_count;
}

#include "control/gather/peer.h"

#include <stdlib.h>
#include <string.h>

peer_t *peer_find(const gather_t *gather, uint64_t instance)
{
    table_link_t *link = table_find(&gather->peers, table_hash(instance));
    while (link && CONTAINER_OF(link, peer_t, of_instances)->host.instance != instance)
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, peer_t, of_instances) : NULL;
}

/* What a message says of its sender; only a JOIN tells the topology. */
static void learn(peer_t *peer, const gather_host_t *host)
{
    static const uint8_t untold[GATHER_DIGEST_BYTES];
    gather_host_t learnt = *host;
    if (!host->name[0])
        return;
    if (memcmp(host->topology, untold, sizeof(untold)) == 0)
        memcpy(learnt.topology, peer->host.topology, sizeof(learnt.topology));
    peer->host = learnt;
}

peer_t *peer_get(gather_t *gather, const gather_host_t *host)
{
    peer_t *peer = peer_find(gather, host->instance);
    if (peer) {
        learn(peer, host);
        return peer;
    }
    peer = calloc(1, sizeof(*peer));
    if (!peer || !table_add(&gather->peers, &peer->of_instances, table_hash(host->instance))) {
        free(peer);
        blink_error_set(BLINK_ERR_NO_MEMORY, "no memory for a host that has ranks of a communicator");
        return NULL;
    }
    peer->host = *host;
    peer->is_own = host->instance == gather->config.own.instance;
    list_init(&peer->of_lost);
    list_init(&peer->guests);
    list_init(&peer->locals);
    list_init(&peer->edges);
    return peer;
}

void peer_put(gather_t *gather, peer_t *peer)
{
    if (peer->holders > 0 || !list_is_empty(&peer->guests) || !list_is_empty(&peer->locals) ||
        !list_is_empty(&peer->edges))
        return;
    if (!peer->is_lost)
        table_remove(&gather->peers, &peer->of_instances);
    list_remove(&peer->of_lost);
    free(peer);
}

void peer_lose(gather_t *gather, uint64_t instance)
{
    peer_t *peer = peer_find(gather, instance);
    if (!peer || peer->is_own)
        return;
    memcpy(peer->why, blink_error_text(), sizeof(peer->why));
    table_remove(&gather->peers, &peer->of_instances);
    peer->is_lost = true;
    list_append(&gather->lost_peers, &peer->of_lost);
}

void peer_send(gather_t *gather, const peer_t *peer, const gather_message_t *message)
{
    const gather_config_t *config = &gather->config;
    char text[BLINK_ERROR_TEXT_BYTES]; /* which callers still need */
    memcpy(text, blink_error_text(), sizeof(text));
    blink_result_t result = BLINK_OK;
    if (peer->is_own)
        gather->deliver(gather, message);
    else if (!peer->is_lost)
        result = config->calls.send(config->context, &peer->host, message);
    if (result == BLINK_OK)
        return;
    peer_lose(gather, peer->host.instance);
    blink_error_set(result, "%s", text);
}

const char *peer_name(const peer_t *peer)
{
    return peer->host.name[0] ? peer->host.name : "the host that the id names";
}

blink_result_t peer_fail_lost(const peer_t *peer, const char *ranks)
{
    return BLINK_FAIL(BLINK_ERR_PEER_LOST, "%s%s%s%s is lost: %s", peer_name(peer),
                      *ranks ? ", with rank " : "", ranks, *ranks ? "," : "", peer->why);
}

/* Where what comes to a run lands, and who may write there. */
#include "net/data/run.h"

#include "exec/instance.h"

uint64_t run_peer_landing_bytes(const run_peer_t *peer)
{
    const data_run_t *run = peer->run;
    return peer->in && !peer->suits_in
               ? run->instance->geometry.landing_bytes[peer->in - run->program->landings]
               : 0;
}

/* ---- showing ---- */

/* Where the landing is for GPUs, find it a place in memory of theirs, if the peer's device can write there;
 * else it stays where it is. */
static void find_twin(run_peer_t *peer)
{
    data_endpoint_t *endpoint = peer->flows.endpoint;
    device_memory_t *device = exec_wire_device(peer->run->instance, &peer->twin_ordered);
    if (!device || !endpoint->connected || !endpoint_tells_keys(endpoint))
        return;
    peer->twin = pool_twin(peer->lent.memory, device, endpoint->transport);
    if (!peer->twin)
        return;
    peer->run->device_landings[peer->in - peer->run->program->landings] = twin_address(peer->twin);
    atomic_fetch_or_explicit(&endpoint->by, (int)DATA_BY_GPUS, memory_order_relaxed);
}

/* Let the peer's device write there over the connections that there are now, if that can be. */
static void show_landing(run_peer_t *peer)
{
    landing_t *landing = &peer->lent;
    if (!landing->memory)
        return;
    find_twin(peer);
    if (peer->twin)
        peer->keys = peer->twin->keys;
    landing->is_shown = peer->twin || pool_show(landing->memory, &peer->keys);
    if (!landing->is_shown)
        return;
    peer->address = peer->twin ? twin_address(peer->twin) : (uintptr_t)landing->memory;
    peer->shown_round = peer->flows.endpoint->round;
}

/* ---- finding ---- */

static blink_result_t lend_landing(run_peer_t *peer)
{
    const data_run_t *run = peer->run;
    if (!peer->in)
        return BLINK_OK;
    BLINK_TRY(landing_lend(&peer->flows.endpoint->landings, &peer->lent, peer->receivers,
                           peer->in->lane_count, run_peer_landing_bytes(peer)));
    peer->landing = &peer->lent;
    peer->landing->outputs = run->outputs;
    peer->landing->output_count = run->output_count;
    show_landing(peer);
    return BLINK_OK;
}

blink_result_t run_peer_find_landing(run_peer_t *peer)
{
    data_run_t *run = peer->run;
    landing_t *standing =
        run->standing ? standing_find(run->standing, peer->host, run->number, run->first_ended) : NULL;
    if (peer->suits_in) {
        peer->landing = standing;
        peer->receivers = standing->flows;
    } else {
        BLINK_TRY(lend_landing(peer));
    }
    if (!peer->landing)
        return BLINK_OK;
    peer->landing->user = &peer->flows;
    run->landings[peer->in - run->program->landings] = peer->landing->memory;
    return BLINK_OK;
}

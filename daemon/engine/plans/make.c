#include "engine/plans/make.h"

#include "base/log.h"
#include "engine/loop.h"
#include "engine/plans/cache.h"
#include "error.h"
#include "names.h"
#include "plan/bytes/bytes.h"
#include "plan/choose.h"
#include "plan/model.h"

#include <stdio.h>

static blink_result_t choose(const topo_t *topo, const plan_request_t *request, plan_t **plan)
{
    plan_choice_t choice;
    if (request->algorithm != BLINK_ALGORITHM_AUTO || request->rank_count == 1 || request->bytes == 0)
        return plan_create(topo, request, plan);
    BLINK_TRY(plan_choose(topo, request, &choice));
    *plan = plan_choice_take(&choice);
    plan_choice_fini(&choice);
    return BLINK_OK;
}

static blink_result_t predict(const topo_t *topo, const plan_t *plan, cached_program_t *cached)
{
    plan_predictor_t *predictor = NULL;
    BLINK_TRY(plan_predictor_create(topo, plan, &predictor));
    plan_predictor_charge_moves(predictor, fabric_spans_hosts(cached->key.fabric) ? MODEL_WIRE_MOVE_US : 0);
    for (uint32_t class = 0; class < PLAN_CLASSES; class ++)
        cached->predicted_us[class] =
            plan_predictor_us(predictor, plan_class_bytes(class), plan->protocol, 0);
    plan_predictor_destroy(predictor);
    return BLINK_OK;
}

/* Then all devices of the key are, on all hosts. */
static bool is_on_gpus(const cached_program_t *cached)
{
    const plan_key_t *key = &cached->key;
    return engine_is_on_gpus(cached->engine, key->fabric, key->nodes, key->rank_count);
}

/* Compile the plan, of several hosts this host's part of it. */
static blink_result_t compile(const plan_key_t *key, const plan_t *plan, cached_program_t *cached)
{
    const fabric_t *fabric = key->fabric;
    uint32_t host_of_rank[PLAN_RANKS_MAX];
    const lane_hosts_t hosts = {.of_rank = host_of_rank,
                                .lands_in_slots = key->lands_in_slots,
                                .scales_inputs = key->scales_inputs,
                                .keeps_to_slots = is_on_gpus(cached)};
    if (!fabric_spans_hosts(fabric))
        return lane_compile(fabric->topo, plan, NULL, &cached->made);
    for (uint32_t rank = 0; rank < key->rank_count; rank++)
        host_of_rank[rank] = fabric->host_of_node[key->nodes[rank]];
    BLINK_TRY(lane_compile_part(fabric->topo, plan, &hosts, fabric->own_host, &cached->made));
    cached->digest = cached->made->digest;
    return BLINK_OK;
}

/* Of several hosts the plan is made again when it has been forgotten here and not elsewhere: then it must be
 * the same, whatever the time that there is for it. */
static double plan_seconds(const cached_program_t *cached)
{
    return fabric_spans_hosts(cached->key.fabric) ? 0 : cached->engine->config.settings->plan_seconds;
}

/* No host has more peers than there are ranks. */
static uint32_t peers_most(const cached_program_t *cached)
{
    uint64_t most = cached->engine->config.settings->network_peers_most;
    return fabric_spans_hosts(cached->key.fabric) && most < PLAN_RANKS_MAX ? (uint32_t)most : 0;
}

/* Nobody knows the GPUs of other hosts, which are taken to be like this host's. */
static void limit_to_gpus(const cached_program_t *cached, plan_request_t *request)
{
    const plan_key_t *key = &cached->key;
    uint32_t own[PLAN_RANKS_MAX], count = 0;
    for (uint32_t rank = 0; rank < key->rank_count; rank++) {
        own[count] = engine_own_node(cached->engine, key->fabric, key->nodes[rank]);
        count += own[count] != TOPO_NONE;
    }
    exec_cuda_limit_plan(cached->engine->config.cuda, own, count, request);
}

static plan_request_t request_of(const cached_program_t *cached)
{
    const plan_key_t *key = &cached->key;
    plan_request_t request = {.collective = key->collective,
                              .algorithm = key->algorithm,
                              .rank_node = key->nodes,
                              .rank_count = key->rank_count,
                              .root = key->root,
                              .peer = key->peer,
                              .peers_most = peers_most(cached),
                              .move_us = fabric_spans_hosts(key->fabric) ? MODEL_WIRE_MOVE_US : 0,
                              .bytes = key->size_class ? plan_class_bytes(key->size_class) : 0,
                              .plan_seconds = plan_seconds(cached)};
    if (is_on_gpus(cached))
        limit_to_gpus(cached, &request);
    if (fabric_spans_hosts(key->fabric))
        return request;
    /* Host devices run it for who names it: no switch gains anything there. */
    request.multicast = is_on_gpus(cached) ? key->may_switch : key->algorithm == BLINK_ALGORITHM_MULTICAST;
    request.narrow = key->narrow;
    return request;
}

static blink_result_t make_plan(const cached_program_t *cached, plan_t **made)
{
    const plan_key_t *key = &cached->key;
    const settings_t *settings = cached->engine->config.settings;
    const plan_request_t request = request_of(cached);
    BLINK_TRY(choose(key->fabric->topo, &request, made));
    plan_t *plan = *made;
    if (settings->force_protocol && !key->fabric->one_class && plan->algorithm != BLINK_ALGORITHM_MULTICAST)
        plan->protocol = settings->protocol;
    if (fabric_spans_hosts(key->fabric) && is_on_gpus(cached))
        plan->protocol = BLINK_PROTOCOL_SIMPLE; /* lanes that wait for another host must be able to leave */
    else if (plan->protocol == BLINK_PROTOCOL_LL128 && plan_meets_in_host(key->fabric->topo, plan))
        plan->protocol = BLINK_PROTOCOL_LL; /* lines of 128 bytes do not cross a host's memory in one piece */
    LOG_DEBUG("%s over %u ranks planned in %.1f ms: %s, %s, %u channels, %.1f GB/s of at most %.1f",
              blink_name_collective(key->collective), key->rank_count, plan->plan_ms,
              blink_name_algorithm(plan->algorithm), blink_name_protocol(plan->protocol), plan->channel_count,
              plan->rate_GBps, plan->bound_GBps);
    return BLINK_OK;
}

/* A plan that another host has made. */
static blink_result_t read_plan(const cached_program_t *cached, plan_t **plan)
{
    const plan_key_t *key = &cached->key;
    const char *host = key->fabric->hosts[plan_key_host(key)];
    const plan_request_t request = request_of(cached);
    blink_result_t result = plan_from_bytes(key->fabric->topo, &request, cached->shipped->bytes,
                                            cached->shipped->byte_count, plan);
    if (result != BLINK_OK)
        return BLINK_FAIL(result, "the plan that %s has sent: %s", host, blink_error_text());
    LOG_DEBUG("%s over %u ranks planned by %s, %u bytes: %s, %s, %u channels",
              blink_name_collective(key->collective), key->rank_count, host, cached->shipped->byte_count,
              blink_name_algorithm((*plan)->algorithm), blink_name_protocol((*plan)->protocol),
              (*plan)->channel_count);
    return BLINK_OK;
}

/* For the other hosts, if there are any. */
static blink_result_t write_plan(const plan_t *plan, cached_program_t *cached)
{
    uint8_t *bytes = NULL;
    size_t byte_count = 0;
    if (!fabric_spans_hosts(cached->key.fabric))
        return BLINK_OK;
    BLINK_TRY(plan_to_bytes(cached->key.fabric->topo, plan, &bytes, &byte_count));
    cached->shipped = plan_shipped_create(bytes, byte_count);
    return cached->shipped ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to ship a plan");
}

static blink_result_t plan_and_compile(cached_program_t *cached)
{
    const plan_key_t *key = &cached->key;
    plan_t *plan = NULL;
    BLINK_TRY(cached->shipped ? read_plan(cached, &plan) : make_plan(cached, &plan));
    blink_result_t result = cached->shipped ? BLINK_OK : write_plan(plan, cached);
    if (result == BLINK_OK && cached->shipped)
        cached->plan_digest = plan_bytes_digest(cached->shipped->bytes, cached->shipped->byte_count);
    if (result == BLINK_OK)
        result = predict(key->fabric->topo, plan, cached);
    if (result == BLINK_OK)
        result = compile(key, plan, cached);
    cached->algorithm = plan->algorithm;
    cached->protocol = plan->protocol;
    plan_destroy(plan);
    return result;
}

void plan_make(cached_program_t *cached)
{
    cached->result = plan_and_compile(cached);
    if (cached->result != BLINK_OK)
        snprintf(cached->text, sizeof(cached->text), "%s", blink_error_text());
    plan_thread_release();
    mailbox_post(&cached->engine->mailbox, &cached->item);
}

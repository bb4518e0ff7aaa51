/* Predictions of AUTO's contenders and of the baselines; sets of devices. */
#include "bench/rivals.h"

#include "error.h"
#include "plan/internal.h"

#include <math.h>

static const blink_algorithm_t baselines[] = {BLINK_ALGORITHM_RING, BLINK_ALGORITHM_DOUBLE_BINARY_TREE,
                                              BLINK_ALGORITHM_BLINK};
static const blink_protocol_t protocols[] = {BLINK_PROTOCOL_SIMPLE, BLINK_PROTOCOL_LL128, BLINK_PROTOCOL_LL};

static void offer(const plan_contender_t *contender, uint64_t bytes, rival_t *fastest)
{
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        if (!plan_contender_may_use(contender, protocols[i]))
            continue;
        double us = plan_predictor_us(contender->predictor, bytes, protocols[i], 0);
        if (us < fastest->us)
            *fastest = (rival_t){us, contender->algorithm, protocols[i]};
    }
}

rival_t rival_of_choice(const plan_choice_t *choice, uint64_t bytes)
{
    rival_t fastest = {.us = INFINITY};
    for (uint32_t i = 0; i < choice->contender_count; i++)
        offer(&choice->contenders[i], bytes, &fastest);
    return fastest;
}

static blink_result_t offer_baseline(const topo_t *topo, const plan_request_t *request, rival_t *fastest)
{
    plan_t *plan = NULL;
    plan_contender_t contender;
    blink_result_t result = plan_create_unproven(topo, request, &plan);
    if (result == BLINK_ERR_UNSUPPORTED || result == BLINK_ERR_UNREACHABLE)
        return BLINK_OK;
    if (result == BLINK_OK)
        result = plan_contender_init(topo, plan, &contender);
    if (result != BLINK_OK)
        return result;
    offer(&contender, request->bytes, fastest);
    plan_contender_fini(&contender);
    return BLINK_OK;
}

blink_result_t rival_of_baselines(const topo_t *topo, const plan_request_t *request, rival_t *rival)
{
    plan_request_t forced = *request;
    *rival = (rival_t){.us = INFINITY};
    for (size_t i = 0; i < sizeof(baselines) / sizeof(baselines[0]); i++) {
        forced.algorithm = baselines[i];
        BLINK_TRY(offer_baseline(topo, &forced, rival));
    }
    return BLINK_OK;
}

/* ---- sets of devices ---- */

bool rival_set_connected(const topo_t *topo, uint32_t devices)
{
    uint32_t reached = devices & -devices, before = 0;
    while (reached != before) {
        before = reached;
        for (uint32_t i = 0; i < topo->gpu_count; i++)
            for (uint32_t j = 0; j < topo->gpu_count; j++) {
                uint32_t link = topo_find_link(topo, topo->gpus[i], topo->gpus[j]);
                if (reached >> i & devices >> j & 1 && link != TOPO_NONE &&
                    topo->links[link].kind == TOPO_NVLINK)
                    reached |= 1u << j;
            }
    }
    return reached == devices;
}

uint32_t rival_set_ranks(const topo_t *topo, uint32_t devices, uint32_t *ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        if (devices >> i & 1)
            ranks[count++] = topo->gpus[i];
    return count;
}

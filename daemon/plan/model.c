/* The constants of the cost model, one table per quantity. */
#include "plan/model.h"

#include <assert.h>

#define PROTOCOLS 3

/* NCCL's kinds of hop, slower ones later. */
typedef enum model_kind { MODEL_NVLINK, MODEL_PCIE, MODEL_NETWORK, MODEL_KINDS } model_kind_t;

static_assert(BLINK_PROTOCOL_LL128 + 1 == PROTOCOLS, "every protocol has its column");

static const model_kind_t kinds[] = {
    [TOPO_NVLINK] = MODEL_NVLINK, [TOPO_NVSWITCH] = MODEL_NVLINK,  [TOPO_PCIE] = MODEL_PCIE,
    [TOPO_QPI] = MODEL_PCIE,      [TOPO_NIC_LINK] = MODEL_NETWORK, [TOPO_NET] = MODEL_NETWORK,
    [TOPO_SHM] = MODEL_PCIE,
};

/* NCCL's base and hop latencies (2.28.9, Simple, LL, LL128). It gives rings and trees each their own; a hop
 * here is one transfer of either, so the lower one, what is above it being the other's bookkeeping. */
static const double launch_us[PROTOCOLS] = {8.4, 6.6, 14.0};
static const double hop_us[MODEL_KINDS][PROTOCOLS] = {
    [MODEL_NVLINK] = {3.4, 0.6, 1.25}, [MODEL_PCIE] = {4.0, 1.0, 1.9}, [MODEL_NETWORK] = {14.0, 2.7, 4.0}};
static const double payload_share[PROTOCOLS] = {1.0, 4.0 / 8.0, 120.0 / 128.0};

double model_launch_us(blink_protocol_t protocol)
{
    return launch_us[protocol];
}

double model_hop_us(const topo_t *topo, const uint32_t *links, uint32_t link_count, blink_protocol_t protocol)
{
    model_kind_t slowest = MODEL_NVLINK;
    for (uint32_t i = 0; i < link_count; i++) {
        model_kind_t kind = kinds[topo->links[links[i]].kind];
        slowest = kind > slowest ? kind : slowest;
    }
    return hop_us[slowest][protocol];
}

double model_block_GBps(uint32_t capability)
{
    static const struct {
        uint32_t capability; /* from this one on */
        double GBps;
    } generations[] = {{100, 70.0}, {90, 38.7}, {80, 24.0}, {1, 26.5}, {0, 24.0}};
    uint32_t i = 0;
    while (capability < generations[i].capability)
        i++;
    return generations[i].GBps;
}

double model_payload_share(blink_protocol_t protocol)
{
    return payload_share[protocol];
}

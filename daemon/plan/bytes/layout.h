/*
 * What the writer and the reader of plans agree on (bytes.h).
 */
#ifndef BLINK_PLAN_BYTES_LAYOUT_H
#define BLINK_PLAN_BYTES_LAYOUT_H

#include "plan/plan.h"

#include <assert.h>
#include <stddef.h>

#define PLAN_BYTES_MAGIC 0x4e504c42u /* "BLPN" */

/* A rank in 16 bits; this one is none. */
#define PLAN_BYTES_NO_RANK UINT16_MAX

static_assert(PLAN_RANKS_MAX < PLAN_BYTES_NO_RANK, "ranks fit 16 bits");

/*
 * Behind it come, as often as it counts them:
 *   path:      u32 link_count, u32 links[link_count]
 *   symmetry:  u32 order, u16 rank_image[rank_count], u32 link_image[link_count of the topology]
 *   channel:   f64 share, u32 part_count, and the parts:
 *     of trees: u16 root, and for the reduce tree, the broadcast tree or both, as the collective has them:
 *               u16 parent[rank_count], u32 path[rank_count], those of the root without meaning,
 *               but that its path by multicast leads to the switch and back
 *     a route:  u16 hop_count, u16 ranks[hop_count + 1], u32 paths[hop_count]
 */
typedef struct plan_bytes_head {
    uint32_t magic, version;
    uint32_t collective, algorithm, protocol;
    uint32_t rank_count;
    uint32_t root, peer;             /* PLAN_NONE where the collective has none */
    uint32_t node_count, link_count; /* of the topology */
    uint32_t path_count, symmetry_count, channel_count;
    uint32_t reserved; /* 0 */
    double rate_GBps, bound_GBps, block_GBps;
} plan_bytes_head_t;

static_assert(sizeof(plan_bytes_head_t) == 80, "head of a plan");
static_assert(offsetof(plan_bytes_head_t, node_count) == 32, "head of a plan");
static_assert(offsetof(plan_bytes_head_t, rate_GBps) == 56, "head of a plan");

#define PLAN_SYMMETRIES_MOST 16u

/* How large a plan is. */
typedef struct plan_size {
    uint64_t parts, edges;
} plan_size_t;

static inline bool plan_size_fits(const plan_size_t *size, uint64_t parts_most, uint64_t edges_most)
{
    return size->parts <= parts_most && size->edges <= edges_most;
}

#endif

/*
 * Virtual finish times: one clock per directed link and one per limited switch backplane, and beside it one
 * for each tenant and communicator that has something booked there. Pure arithmetic on
 * times that the caller gives, so it is tested without a clock; only pace_default_scale() measures.
 */
#include "exec/host/pace.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/list.h"
#include "error.h"
#include "exec/host/reduce/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is booked on a link by all together, by one tenant or by one communicator. */
typedef struct pace_clock {
    uint64_t idle_ns; /* busy until then */
    list_t shares;    /* pace_clock_t.of_whole: of the tenants, or of the tenant's communicators, that have
                         something booked */
    list_t of_whole;
    uint32_t weight;
} pace_clock_t;

typedef struct pace_link {
    double ns_per_byte;
    pace_clock_t clock;
} pace_link_t;

struct pace_flows {
    pace_flows_t *tenant; /* NULL: this is one */
    uint32_t count;
    pace_clock_t clocks[]; /* of links, then of nodes */
};

struct pace {
    const topo_t *topo;
    double scale;
    pace_link_t *links; /* link_count */
    pace_link_t *nodes; /* node_count; used where the backplane has a limit */
};

static void clock_init(pace_clock_t *clock, uint32_t weight)
{
    clock->weight = weight;
    list_init(&clock->shares);
    list_init(&clock->of_whole);
}

blink_result_t pace_create(const topo_t *topo, double scale, pace_t **pace)
{
    if (!isfinite(scale) || scale <= 0.0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "pace scale %g is not a positive number", scale);
    pace_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a pacer");
    created->topo = topo;
    created->scale = scale;
    created->links = calloc(topo->link_count + 1u, sizeof(*created->links));
    created->nodes = calloc(topo->node_count + 1u, sizeof(*created->nodes));
    if (!created->links || !created->nodes) {
        pace_destroy(created);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the clocks of %u links", topo->link_count);
    }
    /* 1 GB/s is one byte per nanosecond. */
    for (uint32_t i = 0; i < topo->link_count; i++) {
        created->links[i].ns_per_byte = 1.0 / (topo->links[i].GBps * scale);
        clock_init(&created->links[i].clock, 1);
    }
    for (uint32_t i = 0; i < topo->node_count; i++) {
        clock_init(&created->nodes[i].clock, 1);
        if (topo->nodes[i].total_GBps > 0.0)
            created->nodes[i].ns_per_byte = 1.0 / (topo->nodes[i].total_GBps * scale);
    }
    *pace = created;
    return BLINK_OK;
}

void pace_destroy(pace_t *pace)
{
    if (!pace)
        return;
    free(pace->nodes);
    free(pace->links);
    free(pace);
}

double pace_scale(const pace_t *pace)
{
    return pace->scale;
}

/* ---- for whom ---- */

blink_result_t pace_flows_create(const pace_t *pace, pace_flows_t *tenant, uint32_t weight,
                                 pace_flows_t **flows)
{
    uint32_t count = pace->topo->link_count + pace->topo->node_count;
    pace_flows_t *created = calloc(1, sizeof(*created) + count * sizeof(created->clocks[0]));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to share %u links", pace->topo->link_count);
    created->tenant = tenant;
    created->count = count;
    for (uint32_t i = 0; i < count; i++)
        clock_init(&created->clocks[i], weight);
    *flows = created;
    return BLINK_OK;
}

void pace_flows_destroy(pace_flows_t *flows)
{
    if (!flows)
        return;
    for (uint32_t i = 0; i < flows->count; i++)
        list_remove(&flows->clocks[i].of_whole);
    free(flows);
}

/* ---- booking ---- */

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Book work that the whole would do in work_ns if it did nothing else, and has counted already: at the rate
 * of the share beside those that have something booked. Whoever has booked furthest ahead is through no
 * earlier than the whole could be with everything, which makes up for what was booked at larger shares
 * before; and who is alone, no later. Returns how long the work takes at the share's rate. */
static double book_share(pace_clock_t *whole, pace_clock_t *share, double work_ns, uint64_t ready_ns)
{
    uint64_t others_idle_ns = 0;
    uint32_t weights = share->weight;
    LIST_FOR_EACH (link, &whole->shares) {
        pace_clock_t *other = CONTAINER_OF(link, pace_clock_t, of_whole);
        if (other->idle_ns <= ready_ns) {
            list_remove(link);
        } else if (other != share) {
            others_idle_ns = later(others_idle_ns, other->idle_ns);
            weights += other->weight;
        }
    }
    double taken_ns = work_ns * weights / share->weight;
    uint64_t through_ns = later(share->idle_ns, ready_ns) + (uint64_t)ceil(taken_ns);
    if (others_idle_ns == 0)
        through_ns = whole->idle_ns;
    else if (through_ns >= others_idle_ns)
        through_ns = later(through_ns, whole->idle_ns);
    share->idle_ns = through_ns;
    if (list_is_empty(&share->of_whole))
        list_append(&whole->shares, &share->of_whole);
    return taken_ns;
}

/* Book on one link; when the last byte is through. */
static uint64_t pace_occupy(pace_link_t *link, pace_clock_t *tenant, pace_clock_t *communicator,
                            uint64_t bytes, uint64_t ready_ns)
{
    double work_ns = (double)bytes * link->ns_per_byte;
    link->clock.idle_ns = later(link->clock.idle_ns, ready_ns) + (uint64_t)ceil(work_ns);
    double tenants_ns = book_share(&link->clock, tenant, work_ns, ready_ns);
    book_share(tenant, communicator, tenants_ns, ready_ns);
    return communicator->idle_ns;
}

/* The link's number in the pacer's topology; TOPO_NONE: another host's. */
static uint32_t own_link(const pace_path_t *path, uint32_t i)
{
    return path->own_link ? path->own_link[path->links[i]] : path->links[i];
}

uint64_t pace_alone_ns(const pace_t *pace, const pace_path_t *path, uint64_t bytes)
{
    double slowest = 0.0;
    for (uint32_t i = 0; i < path->link_count; i++) {
        uint32_t number = own_link(path, i);
        if (number != TOPO_NONE && pace->links[number].ns_per_byte > slowest)
            slowest = pace->links[number].ns_per_byte;
    }
    return (uint64_t)ceil((double)bytes * slowest);
}

pace_slot_t pace_book(pace_t *pace, pace_flows_t *communicator, const pace_path_t *path, uint64_t bytes,
                      uint64_t ready_ns)
{
    pace_clock_t *own = communicator->clocks, *tenants = communicator->tenant->clocks;
    pace_slot_t slot = {.sent_ns = ready_ns};
    double latency_us = 0.0;
    for (uint32_t i = 0; i < path->link_count; i++) {
        uint32_t number = own_link(path, i);
        if (number == TOPO_NONE)
            continue;
        const topo_link_t *link = &pace->topo->links[number];
        uint64_t through_ns =
            pace_occupy(&pace->links[number], &tenants[number], &own[number], bytes, ready_ns);
        if (through_ns > slot.sent_ns)
            slot.sent_ns = through_ns;
        /* What leaves the path's last link has reached its gpu: no backplane there. */
        if (i + 1 < path->link_count && pace->topo->nodes[link->to].total_GBps > 0.0) {
            uint32_t node = pace->topo->link_count + link->to;
            through_ns = pace_occupy(&pace->nodes[link->to], &tenants[node], &own[node], bytes, ready_ns);
            if (through_ns > slot.sent_ns)
                slot.sent_ns = through_ns;
        }
        latency_us += link->latency_us;
    }
    slot.arrived_ns = slot.sent_ns + (uint64_t)ceil(latency_us * 1e3 / pace->scale);
    return slot;
}

/* Three such buffers exceed a third-level cache, as those of a real collective do. */
#define PACE_PROBE_BYTES   ((size_t)16 << 20)
#define PACE_PROBE_SECONDS 0.010

/* Share of the processors that moving bytes would take if every step ran at the probe's speed. Steps over the
 * buffers of many ranks take up to twice as long, and clients and engine need some too: together under 70 %
 * busy. */
#define PACE_BUSY_SHARE 0.2

/* Where nothing can be measured (no memory for the probe): a slow machine. */
#define PACE_PROBE_FALLBACK_GBPS 2.0

/* GB/s of destination that one core reduces from two sources. */
static double pace_probe_GBps(void)
{
    float *memory = malloc(3 * PACE_PROBE_BYTES);
    if (!memory)
        return PACE_PROBE_FALLBACK_GBPS;
    /* Untouched pages, or zero ones, would cost a fault each below. */
    memset(memory, 1, 3 * PACE_PROBE_BYTES);
    size_t stride = PACE_PROBE_BYTES / sizeof(*memory);
    void *dst = memory;
    const void *srcs[] = {memory + stride, memory + 2 * stride};
    const reduce_step_t step = {.dsts = &dst,
                                .srcs = srcs,
                                .dst_count = 1,
                                .src_count = 2,
                                .datatype = BLINK_FLOAT32,
                                .redop = BLINK_SUM,
                                .divisor = 1,
                                .bytes = PACE_PROBE_BYTES};
    uint64_t moved_bytes = 0;
    uint64_t start_ns = clock_ns();
    double elapsed = 0.0;
    while (elapsed < PACE_PROBE_SECONDS) {
        reduce_apply(&step);
        moved_bytes += PACE_PROBE_BYTES;
        elapsed = (double)(clock_ns() - start_ns) * 1e-9;
    }
    free(memory);
    return (double)moved_bytes / elapsed * 1e-9;
}

static uint32_t pace_cores(uint32_t workers)
{
    uint32_t cores = cores_allowed();
    return workers > 0 && workers < cores ? workers : cores;
}

/* Every byte that arrives anywhere has left a gpu over one of its links and is copied or reduced once. */
static double pace_full_GBps(const topo_t *topo)
{
    double total_GBps = 0.0;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        if (topo->nodes[topo->links[i].from].kind == TOPO_DEVICE)
            total_GBps += topo->links[i].GBps;
    }
    return total_GBps;
}

double pace_default_scale(const topo_t *topo, uint32_t workers)
{
    double full_GBps = pace_full_GBps(topo);
    if (full_GBps <= 0.0)
        return 1.0;
    double scale = PACE_BUSY_SHARE * pace_cores(workers) * pace_probe_GBps() / full_GBps;
    /* One significant digit, rounded down: runs on one machine compare although no two measurements agree. */
    double unit = pow(10.0, floor(log10(scale)));
    return floor(scale / unit) * unit;
}

/*
 * Virtual finish times: one clock per directed link and one per limited switch backplane. Pure arithmetic on
 * times that the caller gives, so it is tested without a clock; only pace_default_scale() measures.
 */
#include "exec/host/pace.h"

#include "base/clock.h"
#include "error.h"
#include "exec/host/reduce/reduce.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef struct pace_clock {
    double ns_per_byte;
    uint64_t idle_ns; /* busy until then */
} pace_clock_t;

struct pace {
    const topo_t *topo;
    double scale;
    pace_clock_t *links; /* link_count */
    pace_clock_t *nodes; /* node_count; used where the backplane has a limit */
};

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
    for (uint32_t i = 0; i < topo->link_count; i++)
        created->links[i].ns_per_byte = 1.0 / (topo->links[i].GBps * scale);
    for (uint32_t i = 0; i < topo->node_count; i++) {
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

/* Queue behind what a clock has booked already; when the last byte is through. */
static uint64_t pace_occupy(pace_clock_t *clock, uint64_t bytes, uint64_t ready_ns)
{
    uint64_t start_ns = clock->idle_ns > ready_ns ? clock->idle_ns : ready_ns;
    clock->idle_ns = start_ns + (uint64_t)ceil((double)bytes * clock->ns_per_byte);
    return clock->idle_ns;
}

pace_slot_t pace_book(pace_t *pace, const uint32_t *links, uint32_t link_count, uint64_t bytes,
                      uint64_t ready_ns)
{
    pace_slot_t slot = {.sent_ns = ready_ns};
    double latency_us = 0.0;
    for (uint32_t i = 0; i < link_count; i++) {
        const topo_link_t *link = &pace->topo->links[links[i]];
        uint64_t through_ns = pace_occupy(&pace->links[links[i]], bytes, ready_ns);
        if (through_ns > slot.sent_ns)
            slot.sent_ns = through_ns;
        /* What leaves the path's last link has reached its gpu: no backplane there. */
        if (i + 1 < link_count && pace->topo->nodes[link->to].total_GBps > 0.0) {
            through_ns = pace_occupy(&pace->nodes[link->to], bytes, ready_ns);
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
    cpu_set_t allowed;
    uint32_t cores = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed) : 1;
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

/*
 * The executor without bytes: runs a lane program on virtual clocks and says when it would end and what every
 * link did. Event-driven and deterministic; the same lanes, waits and signals as the other executors, and
 * links booked as exec/host/pace.h books them.
 *
 * The model. A step starts when its lane has come to it and its waits are satisfied. Its sources pass the
 * reader of its device, bytes × sources at reduce_GBps, on GPUs then the lane's block, bytes × sources or ×
 * destinations, whichever are more, at the program's block_GBps × model_payload_share(), and each destination
 * on another rank then passes the links (and limited backplanes) of its path at GBps × model_payload_share().
 * Readers and links serve one chunk after the other in the order in which chunks come to them. Cut-through: a
 * stage may start with a chunk as soon as the stage before has started, and does not finish before that one
 * has finished. The chunk has arrived one model_hop_us() and the path's latencies after its last link has
 * finished: `full` shows then. `free` shows when reader and first links have finished, which is when the
 * source may be overwritten. A lane does not wait for what it sends, but has at most `slots` chunks under
 * way: real write queues end somewhere, too.
 *
 * By multicast the step of a switch passes the reader and the uplink of every device once, and the root's
 * downlink; then the root's block, its uplink, and every downlink once. Of all links MODEL_MULTICAST_REACHED
 * is used, and hops take MODEL_MULTICAST_HOP_US.
 */
#ifndef BLINK_SIM_H
#define BLINK_SIM_H

#include "plan/lane/lane.h"

/* Device memory of an A100: what a device reads while it copies and reduces. */
#define SIM_REDUCE_GBPS 2000.0

/* Most steps × chunks of one run: about half a minute. */
#define SIM_STEPS_MAX 50000000u

typedef struct sim_link {
    double busy_us;
    uint64_t bytes; /* of payload, as the links' counters of the daemon count them */
} sim_link_t;

typedef struct sim_result {
    double time_us;      /* model_launch_us() and then until the last chunk has arrived */
    uint64_t step_count; /* steps × chunks run */
    sim_link_t *links;   /* per topology link */
} sim_result_t;

/*
 * Steps × chunks of a program bound to a payload: what sim_run() and goal_write() refuse above SIM_STEPS_MAX.
 */
uint64_t sim_step_count(const lane_geometry_t *geometry);

/* UNSUPPORTED, with both numbers, if there are more than SIM_STEPS_MAX. */
blink_result_t sim_check_step_count(uint64_t step_count);

/*
 * Run under the protocol that the program was compiled for, on the same `topo`. Devices read at reduce_GBps,
 * > 0; INFINITY: reading takes no time. *result is the caller's: sim_result_fini(). Thread-safe. Errors:
 * INVALID_ARGUMENT (reduce_GBps), UNSUPPORTED (more than SIM_STEPS_MAX steps × chunks), NO_MEMORY, INTERNAL
 * (lanes wait for one another; names one).
 */
blink_result_t sim_run(const topo_t *topo, const lane_geometry_t *geometry, double reduce_GBps,
                       sim_result_t *result);
void sim_result_fini(sim_result_t *result);

#endif

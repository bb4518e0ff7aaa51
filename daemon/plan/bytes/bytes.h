/*
 * Plans as bytes, by which one host ships a plan to the others. All compile the same bytes, so that what they
 * run is the same although solvers, C libraries and versions differ.
 *
 * Numbers are little-endian, as on every machine that blinkd runs on, and stand one behind the other without
 * gaps: a head (layout.h), the links of each path, the images of each symmetry, the parts of each channel.
 * Ranks take 16 bits, all else that counts 32. The ranks' nodes are not in it: who reads a plan knows for
 * which ranks it is. Neither is the proof of the bound.
 */
#ifndef BLINK_PLAN_BYTES_H
#define BLINK_PLAN_BYTES_H

#include "plan/plan.h"

#define PLAN_BYTES_VERSION 2u

/* The largest plan that is shipped, as bytes, and written out: parts of all images, and edges of these. */
#define PLAN_BYTES_MOST (64u << 20)
#define PLAN_PARTS_MOST (1u << 20)
#define PLAN_EDGES_MOST (1u << 23)

/* *bytes is malloc'd and the caller's. Errors: NO_MEMORY, UNSUPPORTED (it is larger than that). */
blink_result_t plan_to_bytes(const topo_t *topo, const plan_t *plan, uint8_t **bytes, size_t *byte_count);

/*
 * The plan for this request on this topology that a host has written, who is not believed: whatever the bytes
 * are, the plan is one that lane_compile() takes and executors can run, if perhaps not a good one. It comes
 * without symmetries, all images written out, and without prices. Its program is that of the plan that was
 * written. *plan is the caller's: plan_destroy(). Errors: PROTOCOL (what is wrong), NO_MEMORY.
 */
blink_result_t plan_from_bytes(const topo_t *topo, const plan_request_t *request, const uint8_t *bytes,
                               size_t byte_count, plan_t **plan);

/* A name for the plan that these bytes are, whatever its protocol: on all hosts, and for a plan that blinkctl
 * makes, it is the same if the plan is, and another one if not but for one case in 2^64. plan_digest() writes
 * the plan for that; errors: as plan_to_bytes(). */
uint64_t plan_bytes_digest(const uint8_t *bytes, size_t byte_count);
blink_result_t plan_digest(const topo_t *topo, const plan_t *plan, uint64_t *digest);

/* As it is shown. Returns `text`. */
#define PLAN_DIGEST_BYTES 17
const char *plan_digest_text(uint64_t digest, char text[PLAN_DIGEST_BYTES]);

/*
 * Whether a plan without symmetries, all of whose numbers are indices of something, is sound: paths lead from
 * rank to rank by links that adjoin, trees span all ranks, routes go where the collective wants them to, and
 * shares are parts of 1. Errors: PROTOCOL, NO_MEMORY.
 */
blink_result_t plan_check(const topo_t *topo, const plan_t *plan);

#endif

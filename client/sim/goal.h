/*
 * A bound lane program as a GOAL schedule, the text that LogGOPSim and ATLAHS replay (Hoefler, Siebert,
 * Lumsdaine: Group Operation Assembly Language, ICPP 2009; the grammar is that of LogGOPSim's txt2bin).
 *
 *     num_ranks 2
 *     rank 0 {
 *     r0c0: recv 4096b from 1 tag 0
 *     w3c0: calc 9 cpu 0
 *     s1c0: send 4096b to 1 tag 16 cpu 3 nic 2
 *     w3c0 requires r0c0
 *     s1c0 requires w3c0
 *     }
 *
 * A send and a recv per chunk and transfer to another rank, matched by a tag of their own; a calc per chunk
 * and step: bytes × sources at reduce_GBps where it combines several, else 0. A message has one `cpu` and one
 * `nic` for both of its ends, and is in the way of others with either number at the one as at the other.
 * Links are therefore numbered in the whole schedule: the `nic` is that by which a chunk leaves its device,
 * the `cpu` that by which it comes to the other one, so that chunks over different links are concurrent, and
 * so are those of the two directions (both modulo the format's 256). All calcs of a rank are on cpu 0, which
 * is its reader. Dependencies: each step on the one before it in its lane, on the recv that its `full` waits
 * name and on steps of its own rank that signal it. Left out: empty chunks, and `free` waits for other ranks,
 * which would be messages of their own; GOAL's receivers buffer without limit.
 */
#ifndef BLINK_GOAL_H
#define BLINK_GOAL_H

#include "plan/lane/lane.h"

#include <stdio.h>

/* The numbers of links, the same in all programs of a schedule. The caller's; `topo` is borrowed. Errors:
 * NO_MEMORY. */
typedef struct goal_links goal_links_t;
blink_result_t goal_links_create(const topo_t *topo, goal_links_t **links);
void goal_links_destroy(goal_links_t *links);

/* What a program adds to a schedule. The caller's; `geometry` is borrowed, `links` until this returns.
 * Errors: INVALID_ARGUMENT (reduce_GBps not > 0), UNSUPPORTED (more than SIM_STEPS_MAX steps × chunks, more
 * transfers than there are tags, switches that reduce), NO_MEMORY. */
typedef struct goal goal_t;
blink_result_t goal_create(goal_links_t *links, const lane_geometry_t *geometry, double reduce_GBps,
                           goal_t **goal);
void goal_destroy(goal_t *goal);

/* Its tags are this many, from 0 on. */
uint64_t goal_tag_count(const goal_t *goal);

/* Where a program stands in a schedule: text that its labels begin with, the schedule's rank for each of its
 * own (NULL: the same), what its tags begin with, and the labels of calcs that all of it follows, and that
 * follow all of it (NULL: none). */
typedef struct goal_place {
    const char *prefix;
    const uint32_t *ranks;
    uint32_t tag_first;
    const char *begin, *end;
} goal_place_t;

/* The cpu that no link has but in topologies of many: for what an application does meanwhile. */
#define GOAL_OTHER_CPU 255u

/* What one rank does, within its braces. What fails in `out` stays there: ferror(). */
void goal_write_rank(goal_t *goal, const goal_place_t *place, uint32_t rank, FILE *out);

/* A whole schedule of one program, written as it goes: memory is by the size of the program, not of the
 * payload. Errors: as of goal_create(). */
blink_result_t goal_write(const topo_t *topo, const lane_geometry_t *geometry, double reduce_GBps, FILE *out);

#endif

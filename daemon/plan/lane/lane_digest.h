/*
 * What hosts compare before they run their parts of one program. No host has all lanes, so it is a digest of
 * what they are compiled from, and of how a payload is cut: programs that differ in either have different
 * digests, but for one case in 2^64.
 */
#ifndef BLINK_LANE_DIGEST_H
#define BLINK_LANE_DIGEST_H

#include "plan/lane/lane_edges.h"

/* Which rules the compiler has. A change to what it makes of a plan takes the next number, so that daemons
 * before and after it refuse to run parts that do not fit together. */
#define LANE_RULES 1u

/* Of a program whose channels, parts and numbers for chunks and slots are there. */
uint64_t lane_digest(const lane_source_t *source, const lane_program_t *program);

#endif

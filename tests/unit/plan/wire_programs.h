/* What programs for several hosts are compiled from, and compiling them: the whole, and what one host has. */
#ifndef WIRE_PROGRAMS_H
#define WIRE_PROGRAMS_H

#include "error.h"
#include "plan/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COLLECTIVES = BLINK_SENDRECV + 1 };

static const blink_algorithm_t algorithms[] = {BLINK_ALGORITHM_TREES,
                                               BLINK_ALGORITHM_RING,
                                               BLINK_ALGORITHM_DOUBLE_BINARY_TREE,
                                               BLINK_ALGORITHM_BLINK,
                                               BLINK_ALGORITHM_ONE_HOP,
                                               BLINK_ALGORITHM_BINOMIAL,
                                               BLINK_ALGORITHM_RECURSIVE_DOUBLING,
                                               BLINK_ALGORITHM_SHALLOW_TREES};

enum { ALGORITHMS = sizeof(algorithms) / sizeof(*algorithms) };

static inline lane_program_t *whole_of(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts)
{
    lane_program_t *program = NULL;
    if (lane_compile(topo, plan, hosts, &program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return program;
}

static inline lane_program_t *part_of(const topo_t *topo, const plan_t *plan, const lane_hosts_t *hosts,
                                      uint32_t host)
{
    lane_program_t *program = NULL;
    if (lane_compile_part(topo, plan, hosts, host, &program) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return program;
}

#endif

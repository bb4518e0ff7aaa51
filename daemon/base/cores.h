/*
 * The cores that this process may use: the machine's, or the fewer that whoever started it left to it.
 */
#ifndef BLINK_CORES_H
#define BLINK_CORES_H

#include <sched.h>
#include <stdint.h>

/* At least 1. */
static inline uint32_t cores_allowed(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed) : 1;
}

#endif

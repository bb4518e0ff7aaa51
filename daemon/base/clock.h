/*
 * The one clock: time since an arbitrary start that never runs back (CLOCK_MONOTONIC). Thread-safe.
 */
#ifndef BLINK_CLOCK_H
#define BLINK_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_us(void)
{
    return clock_ns() / 1000;
}

/* The moment `ns` nanoseconds from now, for calls that wait until a time of CLOCK_MONOTONIC. */
static inline struct timespec clock_in_ns(uint64_t ns)
{
    uint64_t then = clock_ns() + ns;
    return (struct timespec){.tv_sec = (time_t)(then / 1000000000u), .tv_nsec = (long)(then % 1000000000u)};
}

#endif

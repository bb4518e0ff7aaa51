/* How long something may take before it counts as hung: what integration/limit.py is for the tests in Python.
 * No test asserts times. */
#ifndef TESTS_LIMIT_H
#define TESTS_LIMIT_H

#include <stdlib.h>

static inline unsigned limit_ms(void)
{
    const char *scale = getenv("BLINK_TEST_TIMEOUT_SCALE");
    return (unsigned)(60000 * (scale ? atof(scale) : 1));
}

/* For alarm(). */
static inline unsigned limit_s(void)
{
    return limit_ms() / 1000;
}

/* A time-out that a test wants to see pass: as short as it may be where processes of a busy machine come
 * late. */
static inline unsigned limit_short_ms(void)
{
    return limit_ms() / 20;
}

#endif

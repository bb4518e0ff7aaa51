/*
 * A thread of the test's program that runs out of memory at a moment of the test's choice. For programs that
 * are linked with blink_short_memory().
 */
#ifndef SHORT_MEMORY_H
#define SHORT_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The thread gets no memory when it asks for the nth time from now on, once; the first time is 1. */
void short_memory_begin(pthread_t thread, uint32_t nth);

/* It gets all that it asks for again. Returns whether it has been refused some. */
bool short_memory_end(void);

#endif

/*
 * The simulator's agenda: things to happen, earliest first and, at equal times, in the order in which they
 * were entered. That order makes runs repeatable and lets lanes that are ready at once take turns.
 *
 * It is a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, 1990),
 * which wants that nothing is entered for a time that has passed. An event is in the bucket of the highest
 * bit in which its time differs from now; bucket 0 is what happens now, a queue. Buckets keep the order in
 * which events were entered, also when they are dealt out to lower ones, and are read and written in a row:
 * that is why this is faster than a heap by comparisons.
 */
#ifndef BLINK_SIM_EVENTS_H
#define BLINK_SIM_EVENTS_H

#include "base/vec.h"
#include "blink/types.h"

#define EVENTS_BUCKETS 64 /* bucket 0, and one for each bit of a time but its sign */

typedef enum event_kind {
    EVENT_LANE,   /* index: lane, whose next step may be ready */
    EVENT_HOP,    /* index: transfer, which comes to its next stage */
    EVENT_SIGNAL, /* index: semaphore, which counts one chunk more */
} event_kind_t;

typedef struct event {
    double at_us;
    uint32_t kind; /* event_kind_t */
    uint32_t index;
} event_t;

/* All zero is empty. */
typedef struct events {
    double now_us;   /* of the last event that was taken out */
    uint64_t filled; /* bit i: bucket i has events */
    size_t taken;    /* events of bucket 0 that were taken out */
    VEC(event_t) buckets[EVENTS_BUCKETS];
} events_t;

void events_fini(events_t *events);

/* at_us: not before the last event that was taken out, nor before 0. Errors: NO_MEMORY. */
blink_result_t events_push(events_t *events, double at_us, event_kind_t kind, uint32_t index);

/* Take the next event out; *found: false if there is none. Errors: NO_MEMORY. */
blink_result_t events_pop(events_t *events, event_t *event, bool *found);

#endif

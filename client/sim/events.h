/*
 * The simulator's agenda: a binary heap of things to happen, earliest first and, at equal times, in the order
 * in which they were entered. That order makes runs repeatable and lets lanes that are ready at once take
 * turns.
 */
#ifndef BLINK_SIM_EVENTS_H
#define BLINK_SIM_EVENTS_H

#include "base/vec.h"
#include "blink/types.h"

typedef enum event_kind {
    EVENT_LANE,   /* index: lane, whose next step may be ready */
    EVENT_HOP,    /* index: transfer, which comes to its next stage */
    EVENT_SIGNAL, /* index: semaphore, which counts one chunk more */
} event_kind_t;

typedef struct event {
    double at_us;
    uint64_t order;
    uint32_t kind; /* event_kind_t */
    uint32_t index;
} event_t;

/* All zero is empty. */
typedef struct events {
    VEC(event_t) heap;
    uint64_t entered;
} events_t;

void events_fini(events_t *events);

/* Errors: NO_MEMORY. */
blink_result_t events_push(events_t *events, double at_us, event_kind_t kind, uint32_t index);

/* False if there is none. */
bool events_pop(events_t *events, event_t *event);

#endif

/* The daemon's engine as one context reaches it: the ring, and an event for each direction. */
#ifndef CLIENT_ENGINE_H
#define CLIENT_ENGINE_H

#include "ring.h"

#include <unistd.h>

typedef struct engine {
    ring_t ring;
    int doorbell_fd;   /* wakes the engine */
    int completion_fd; /* blink_poll_fd(): the engine raises it */
} engine_t;

/** Wake the engine if it sleeps: after a store that it may be waiting for. */
static inline void engine_wake(engine_t *engine)
{
    uint64_t one = 1;
    /* The write fails only if the eventfd's count is at its maximum: not in this world's time. */
    if (ring_needs_doorbell(&engine->ring))
        (void)!write(engine->doorbell_fd, &one, sizeof(one));
}

#endif

/*
 * Whether all threads turn that serve clients and peers: the question goes to the engine, and the answer
 * comes back to the control thread. Several may ask at once.
 */
#ifndef BLINK_CONTROL_BEAT_H
#define BLINK_CONTROL_BEAT_H

#include "engine/engine.h"

typedef struct beat {
    engine_t *engine;
    list_t askers;
    bool pending; /* the engine has not answered yet */
} beat_t;

typedef struct beat_asker {
    list_t link;
    void (*answered)(struct beat_asker *asker);
} beat_asker_t;

void beat_init(beat_t *beat, engine_t *engine);

/* Call `answered` once the engine has shown that it turns. Who asks again before that is called once. */
void beat_ask(beat_t *beat, beat_asker_t *asker);

static inline void beat_asker_init(beat_asker_t *asker, void (*answered)(beat_asker_t *asker))
{
    list_init(&asker->link);
    asker->answered = answered;
}

/* The asker is not called any more. */
static inline void beat_cancel(beat_asker_t *asker)
{
    list_remove(&asker->link);
}

#endif

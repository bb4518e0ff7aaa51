#include "control/beat.h"

static void on_answer(void *context)
{
    beat_t *beat = context;
    list_t askers, *link;
    list_init(&askers);
    list_splice(&askers, &beat->askers);
    beat->pending = false; /* who asks again while it is answered asks the engine again */
    while ((link = list_take_first(&askers))) {
        beat_asker_t *asker = CONTAINER_OF(link, beat_asker_t, link);
        asker->answered(asker);
    }
}

void beat_init(beat_t *beat, engine_t *engine)
{
    *beat = (beat_t){.engine = engine};
    list_init(&beat->askers);
}

void beat_ask(beat_t *beat, beat_asker_t *asker)
{
    if (list_is_empty(&asker->link))
        list_append(&beat->askers, &asker->link);
    if (beat->pending)
        return;
    beat->pending = true;
    engine_heartbeat(beat->engine, (engine_done_t){on_answer, beat});
}

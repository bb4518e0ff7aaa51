/* The binary heap of events. */
#include "events.h"

#include "error.h"

#include <stdlib.h>

void events_fini(events_t *events)
{
    free(events->heap);
    *events = (events_t){0};
}

static bool event_before(const event_t *one, const event_t *other)
{
    if (one->at_us != other->at_us)
        return one->at_us < other->at_us;
    return one->order < other->order;
}

static blink_result_t events_reserve(events_t *events)
{
    if (events->count < events->capacity)
        return BLINK_OK;
    size_t capacity = events->capacity ? 2 * events->capacity : 256;
    event_t *heap = realloc(events->heap, capacity * sizeof(*heap));
    if (!heap)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu events", capacity);
    events->heap = heap;
    events->capacity = capacity;
    return BLINK_OK;
}

blink_result_t events_push(events_t *events, double at_us, event_kind_t kind, uint32_t index)
{
    BLINK_TRY(events_reserve(events));
    event_t event = {at_us, events->entered++, (uint32_t)kind, index};
    size_t at = events->count++;
    for (; at > 0; at = (at - 1) / 2) {
        const event_t *parent = &events->heap[(at - 1) / 2];
        if (!event_before(&event, parent))
            break;
        events->heap[at] = *parent;
    }
    events->heap[at] = event;
    return BLINK_OK;
}

bool events_pop(events_t *events, event_t *event)
{
    if (events->count == 0)
        return false;
    *event = events->heap[0];
    event_t last = events->heap[--events->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < events->count; at = child) {
        if (child + 1 < events->count && event_before(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!event_before(&events->heap[child], &last))
            break;
        events->heap[at] = events->heap[child];
    }
    events->heap[at] = last;
    return true;
}

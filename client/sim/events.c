/* The binary heap of events. */
#include "events.h"

#include "error.h"

void events_fini(events_t *events)
{
    vec_free(&events->heap);
    events->entered = 0;
}

static bool event_before(const event_t *one, const event_t *other)
{
    if (one->at_us != other->at_us)
        return one->at_us < other->at_us;
    return one->order < other->order;
}

blink_result_t events_push(events_t *events, double at_us, event_kind_t kind, uint32_t index)
{
    if (!vec_reserve(&events->heap, events->heap.count + 1))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu events", events->heap.count + 1);
    event_t *heap = events->heap.items;
    event_t event = {at_us, events->entered++, (uint32_t)kind, index};
    size_t at = events->heap.count++;
    for (; at > 0; at = (at - 1) / 2) {
        const event_t *parent = &heap[(at - 1) / 2];
        if (!event_before(&event, parent))
            break;
        heap[at] = *parent;
    }
    heap[at] = event;
    return BLINK_OK;
}

bool events_pop(events_t *events, event_t *event)
{
    event_t *heap = events->heap.items;
    if (events->heap.count == 0)
        return false;
    *event = heap[0];
    event_t last = heap[--events->heap.count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < events->heap.count; at = child) {
        if (child + 1 < events->heap.count && event_before(&heap[child + 1], &heap[child]))
            child++;
        if (!event_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return true;
}

/* The radix heap of events. */
#include "events.h"

#include "error.h"

/* Times from 0 up are ordered as the bits that stand for them. */
static uint64_t bits_of(double at_us)
{
    uint64_t bits;
    memcpy(&bits, &at_us, sizeof(bits));
    return bits;
}

void events_fini(events_t *events)
{
    for (uint32_t i = 0; i < EVENTS_BUCKETS; i++)
        vec_free(&events->buckets[i]);
    *events = (events_t){0};
}

static blink_result_t enter(events_t *events, const event_t *event)
{
    uint64_t differing = bits_of(event->at_us) ^ bits_of(events->now_us);
    uint32_t bucket = differing ? 64 - (uint32_t)__builtin_clzll(differing) : 0;
    if (!vec_push(&events->buckets[bucket], *event))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu events", events->buckets[bucket].count + 1);
    events->filled |= UINT64_C(1) << bucket;
    return BLINK_OK;
}

blink_result_t events_push(events_t *events, double at_us, event_kind_t kind, uint32_t index)
{
    event_t event = {at_us, (uint32_t)kind, index};
    return enter(events, &event);
}

/* Let time go on to the earliest event, which is in the lowest bucket that has any. What is in that bucket
 * differs from now in a lower bit than before, so all of it comes to lower buckets, which are empty. */
static blink_result_t go_on(events_t *events)
{
    uint32_t lowest = (uint32_t)__builtin_ctzll(events->filled);
    const event_t *items = events->buckets[lowest].items;
    size_t count = events->buckets[lowest].count;
    events->now_us = items[0].at_us;
    for (size_t i = 1; i < count; i++)
        if (items[i].at_us < events->now_us)
            events->now_us = items[i].at_us;
    for (size_t i = 0; i < count; i++)
        BLINK_TRY(enter(events, &items[i]));
    events->buckets[lowest].count = 0;
    events->filled &= ~(UINT64_C(1) << lowest);
    return BLINK_OK;
}

blink_result_t events_pop(events_t *events, event_t *event, bool *found)
{
    if (events->taken == events->buckets[0].count) {
        events->taken = events->buckets[0].count = 0;
        events->filled &= ~UINT64_C(1);
        *found = events->filled != 0;
        if (!*found)
            return BLINK_OK;
        BLINK_TRY(go_on(events));
    }
    *event = events->buckets[0].items[events->taken++];
    *found = true;
    return BLINK_OK;
}

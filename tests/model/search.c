/* The search: level by level. Of a state only its hash, its parent and the event between them are kept. */
#include "search.h"

#include "base/vec.h"
#include "seen.h"
#include "story.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX  1024u
#define STATES_MAX (1u << 22)

typedef struct origin {
    uint32_t parent;
    uint32_t event;
} origin_t;

/* The states of one level, packed, one behind the other. */
typedef VEC(uint64_t) level_t;

static struct searcher {
    const search_world_t *world;
    search_result_t *result;
    void *start;
    seen_t seen;
    VEC(origin_t) origins;
    uint32_t wrong_state;
    story_t story;
} searcher;

void search_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    story_add(&searcher.story, format, arguments);
    va_end(arguments);
}

typedef uint64_t __attribute__((may_alias)) word_t;

/* Most words of a state are 0. Of each 64 words there is a map of the others, and they follow. */
static size_t pack(const word_t *words, size_t count, uint64_t *packed)
{
    size_t length = 0;
    for (size_t first = 0; first < count; first += 64) {
        uint64_t *map = &packed[length++];
        *map = 0;
        for (size_t i = first; i < count && i < first + 64; i++) {
            if (words[i] == 0)
                continue;
            *map |= 1ull << (i - first);
            packed[length++] = words[i];
        }
    }
    return length;
}

/* Returns what follows the packed state. */
static const uint64_t *unpack(const uint64_t *packed, word_t *words, size_t count)
{
    memset(words, 0, count * sizeof(*words));
    for (size_t first = 0; first < count; first += 64) {
        for (uint64_t map = *packed++; map; map &= map - 1)
            words[first + (size_t)__builtin_ctzll(map)] = *packed++;
    }
    return packed;
}

static size_t word_count(void)
{
    return searcher.world->state_bytes / sizeof(uint64_t);
}

/* Let everything happen again on the way to this state. */
static void tell(uint32_t state)
{
    uint32_t events[DEPTH_MAX], count = 0;
    for (; state != 0; state = searcher.origins.items[state].parent) {
        if (count == DEPTH_MAX)
            abort();
        events[count++] = searcher.origins.items[state].event;
    }
    memcpy(searcher.world->state, searcher.start, searcher.world->state_bytes);
    searcher.story = (story_t){.text = searcher.result->story, .bytes = sizeof(searcher.result->story)};
    while (count > 0)
        searcher.world->happen(events[--count]);
    searcher.story.text = NULL;
}

/* What is wrong with the state as it stands, if anything. Whether all is well. */
static bool judge(uint32_t number, bool end)
{
    searcher.result->wrong = searcher.world->wrong(end);
    searcher.wrong_state = number;
    return !searcher.result->wrong;
}

/* Note the state as it stands, and append it to the next level if it is new. Whether all is well. */
static bool note(level_t *next, uint32_t parent, uint32_t event)
{
    size_t words = word_count(), most = words + words / 64 + 1;
    if (!vec_reserve(next, next->count + most))
        abort();
    uint64_t *packed = next->items + next->count;
    size_t length = pack(searcher.world->state, words, packed);
    if (!seen_add(&searcher.seen, seen_hash(packed, length * sizeof(*packed))))
        return true;
    if (searcher.seen.count > STATES_MAX || !vec_push(&searcher.origins, ((origin_t){parent, event})))
        abort(); /* the world is too large to be gone through */
    next->count += length;
    return judge((uint32_t)searcher.origins.count - 1, false);
}

/* Try everything in one state. Whether all is well. */
static bool expand(const uint64_t *packed, uint32_t number, level_t *next)
{
    const search_world_t *world = searcher.world;
    bool happened = false;
    unpack(packed, world->state, word_count());
    for (uint32_t event = 0; event < world->event_count; event++) {
        if (!world->happen(event))
            continue;
        happened = true;
        if (!note(next, number, event))
            return false;
        unpack(packed, world->state, word_count());
    }
    if (happened)
        return true;
    searcher.result->ends++;
    return judge(number, true);
}

/* Whether all is well. */
static bool search_levels(void)
{
    level_t here = {0}, next = {0};
    uint32_t number = 0;
    bool well = note(&here, 0, 0);
    while (well && here.count > 0) {
        const uint64_t *packed = here.items, *end = here.items + here.count;
        for (; well && packed < end; packed = unpack(packed, searcher.world->state, word_count()))
            well = expand(packed, number++, &next);
        level_t swap = here;
        here = next;
        next = swap;
        next.count = 0;
        searcher.result->depth++;
    }
    vec_free(&here);
    vec_free(&next);
    return well;
}

void search(const search_world_t *world, search_result_t *result)
{
    *result = (search_result_t){0};
    searcher = (struct searcher){.world = world, .result = result};
    searcher.start = malloc(world->state_bytes);
    if (!searcher.start)
        abort();
    memcpy(searcher.start, world->state, world->state_bytes);
    if (!search_levels())
        tell(searcher.wrong_state);
    result->states = searcher.seen.count;
    memcpy(world->state, searcher.start, world->state_bytes);
    free(searcher.start);
    free(searcher.seen.hashes);
    vec_free(&searcher.origins);
}

/*
 * An exhaustive search over what may happen to a few parties that exchange messages. A state is a block of
 * memory at a fixed address, pointers into itself included; whatever may happen in a state is tried, nearest
 * states first, so that what goes wrong is shown by one of the shortest stories that end so.
 */
#ifndef SEARCH_H
#define SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What is searched. The state begins as it is there; it is aligned to 8 bytes and a multiple of as many. */
typedef struct search_world {
    void *state;
    size_t state_bytes;
    /* Let event number 0 … event_count - 1 happen. False: it cannot in this state, which is unchanged. */
    bool (*happen)(uint32_t event);
    uint32_t event_count;
    /* What is wrong with this state; NULL: nothing. `end`: nothing can happen any more. */
    const char *(*wrong)(bool end);
} search_world_t;

typedef struct search_result {
    uint64_t states, ends;
    uint32_t depth;    /* events of the longest story without a detour */
    const char *wrong; /* what world->wrong() said; the search ended there */
    char story[16384]; /* how that came, a line for each event */
} search_result_t;

/** Search all states, or up to the first that is wrong. */
void search(const search_world_t *world, search_result_t *result);

/** From happen(): a line of the story, if one is told. */
void search_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* The walk: along the first choice of every new state, then back to the last state with a choice left. */
#include "walk.h"

#include "seen.h"

#include <stdlib.h>

#define STATES_MAX (1u << 22)

typedef struct walker {
    const walk_world_t *world;
    walk_result_t *result;
    seen_t seen;
    uint64_t *left; /* left[d]: choices at depth d that have not been tried */
} walker_t;

static uint8_t lowest(uint64_t mask)
{
    return (uint8_t)__builtin_ctzll(mask);
}

/* Whether the state is new. */
static bool note_state(walker_t *walker)
{
    if (!seen_add(&walker->seen, walker->world->hash()))
        return false;
    if (++walker->result->states > STATES_MAX)
        abort(); /* the world is too large to be gone through */
    return true;
}

/* Go on along the first choice of every new state. */
static void go_on(walker_t *walker)
{
    walk_result_t *result = walker->result;
    while (note_state(walker)) {
        uint64_t mask = walker->world->choices();
        result->ends += mask == 0;
        result->wrong = walker->world->is_wrong(mask == 0);
        if (mask == 0 || result->wrong)
            return;
        if (result->depth == WALK_STEPS_MAX)
            abort();
        uint8_t choice = result->path[result->depth] = lowest(mask);
        walker->left[result->depth++] = mask & (mask - 1);
        walker->world->take(choice);
    }
}

void walk_again(const walk_world_t *world, const walk_result_t *result)
{
    world->restart();
    for (uint32_t i = 0; i < result->depth; i++)
        world->take(result->path[i]);
}

/* Take the next choice of the last state that has one left. False: there is none. */
static bool turn(walker_t *walker)
{
    walk_result_t *result = walker->result;
    while (result->depth > 0 && walker->left[result->depth - 1] == 0)
        result->depth--;
    if (result->depth == 0)
        return false;
    uint64_t *left = &walker->left[result->depth - 1];
    result->path[result->depth - 1] = lowest(*left);
    *left &= *left - 1;
    walk_again(walker->world, result);
    result->runs++;
    return true;
}

void walk(const walk_world_t *world, walk_result_t *result)
{
    *result = (walk_result_t){.runs = 1};
    walker_t walker = {.world = world, .result = result};
    walker.left = calloc(WALK_STEPS_MAX, sizeof(*walker.left));
    if (!walker.left)
        abort();
    world->restart();
    do
        go_on(&walker);
    while (!result->wrong && turn(&walker));
    free(walker.left);
    free(walker.seen.hashes);
}

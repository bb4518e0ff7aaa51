/* Which op a standing landing is for, and when it may be used again. */
#include "net/flow/standing.h"

#include <assert.h>
#include <stdlib.h>

static_assert(FLOW_WINDOW <= WIRE_STANDING_MOVES, "a standing sequence names each move of a window");

static landing_t *landing_for(standing_t *standing, uint64_t k)
{
    return &standing->landings[k % standing->count];
}

/* Nobody has used its landing for the k-th op yet. */
static void open_for(standing_t *standing, uint64_t k)
{
    landing_t *landing = landing_for(standing, k);
    for (uint32_t i = 0; i < standing->flow_count; i++)
        flow_receiver_open(&landing->flows[i], FLOW_WINDOW, FLOW_WINDOW);
    landing->standing = true;
    landing->unsettled = standing->flow_count;
    landing->first_sequence = wire_standing_sequence(k / standing->count, 0);
}

blink_result_t standing_open(landings_t *landings, standing_t *standing, uint32_t count, uint32_t flow_count,
                             uint64_t bytes, uint64_t ended)
{
    assert(count > 0 && count <= STANDING_MOST && (count & (count - 1)) == 0);
    *standing = (standing_t){.flow_count = flow_count};
    standing->flows = calloc((size_t)count * flow_count, sizeof(*standing->flows));
    if (!standing->flows)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u flows of standing landings",
                          count * flow_count);
    for (; standing->count < count; standing->count++) {
        blink_result_t result =
            landing_lend(landings, &standing->landings[standing->count],
                         standing->flows + (size_t)standing->count * flow_count, flow_count, bytes);
        if (result != BLINK_OK) {
            standing_close(landings, standing);
            return result;
        }
    }
    standing->ended = ended;
    for (uint64_t k = ended; k < ended + count; k++)
        open_for(standing, k);
    return BLINK_OK;
}

void standing_retire(landings_t *landings, standing_t *standing)
{
    for (uint32_t i = 0; i < standing->count; i++) {
        landing_cut(&standing->landings[i]);
        landing_give_memory(landings, &standing->landings[i]);
    }
}

void standing_close(landings_t *landings, standing_t *standing)
{
    while (standing->count > 0) {
        landing_t *landing = &standing->landings[--standing->count];
        landing_cut(landing);
        landing_return(landings, landing);
    }
    free(standing->flows);
    standing->flows = NULL;
}

bool standing_may_begin(const standing_t *standing, uint64_t k)
{
    return k < standing->ended + standing->count;
}

landing_t *standing_landing(standing_t *standing, uint64_t k)
{
    return k >= standing->ended && standing_may_begin(standing, k) ? landing_for(standing, k) : NULL;
}

void standing_advance(standing_t *standing, uint64_t ended)
{
    if (ended <= standing->ended)
        return;
    bool overtakes = ended - standing->ended >= standing->count;
    uint64_t first = overtakes ? ended : standing->ended + standing->count;
    standing->ended = ended;
    for (uint64_t k = first; k < ended + standing->count; k++) {
        assert(landing_is_settled(landing_for(standing, k)));
        open_for(standing, k);
    }
}

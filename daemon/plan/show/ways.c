#include "plan/show/ways.h"

#include "error.h"
#include "plan/internal.h"
#include "plan/show/write.h"

#include <stdlib.h>

/* More than that: edges are counted, not listed. */
#define RANKS_IN_FULL 64u

typedef enum way_kind { WAY_NVLINK, WAY_OTHER, WAY_HOST, WAY_KINDS } way_kind_t;

static way_kind_t way_of(const topo_t *topo, const plan_path_t *path)
{
    if (!plan_path_joins_peers(topo, path))
        return WAY_HOST;
    for (uint32_t i = 0; i < path->link_count; i++)
        if (!topo_is_nvlink(&topo->links[path->links[i]]))
            return WAY_OTHER;
    return WAY_NVLINK;
}

/* The ways of the plan's trees and routes. */
typedef struct ways {
    const topo_t *topo;
    const plan_t *plan;
    bool *used; /* by path */
} ways_t;

static void find_used(ways_t *ways)
{
    plan_walk_t walk = {0};
    plan_branch_t branch;
    while (plan_walk_next(ways->plan, &walk, &branch)) {
        for (uint32_t place = 0; place < plan_branch_room(ways->plan, &branch); place++) {
            uint32_t path = plan_branch_edge(&branch, place);
            if (path != PLAN_NONE)
                ways->used[path] = true;
        }
    }
}

/* Count those of a kind, and write them if there is a text. */
static uint32_t count_ways(const ways_t *ways, way_kind_t kind, topo_text_t *text)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ways->plan->path_count; i++) {
        const plan_path_t *path = &ways->plan->paths[i];
        if (!ways->used[i] || way_of(ways->topo, path) != kind)
            continue;
        count++;
        const topo_link_t *links = ways->topo->links;
        if (text)
            fprintf(text->file, " %s>%s", ways->topo->nodes[links[path->links[0]].from].id,
                    ways->topo->nodes[links[path->links[path->link_count - 1]].to].id);
    }
    return count;
}

static void write_ways(topo_text_t *text, const ways_t *ways)
{
    static const char *const names[] = {[WAY_NVLINK] = "over NVLink",
                                        [WAY_OTHER] = "over other links",
                                        [WAY_HOST] = "through memory of the host"};
    for (uint32_t kind = 0; kind < WAY_KINDS; kind++) {
        uint32_t count = count_ways(ways, (way_kind_t)kind, NULL);
        if (count == 0)
            continue;
        fprintf(text->file, "%u ways %s%s", count, names[kind],
                ways->plan->rank_count <= RANKS_IN_FULL ? ":" : "");
        if (ways->plan->rank_count <= RANKS_IN_FULL)
            count_ways(ways, (way_kind_t)kind, text);
        fputc('\n', text->file);
    }
}

static blink_result_t describe(const topo_t *topo, const plan_t *plan, topo_text_t *text)
{
    ways_t ways = {.topo = topo};
    BLINK_TRY(plan_acquire_images(topo, plan, &ways.plan));
    blink_result_t result = BLINK_OK;
    ways.used = calloc(ways.plan->path_count + 1u, sizeof(*ways.used));
    if (!ways.used)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the ways of a plan");
    if (result == BLINK_OK) {
        find_used(&ways);
        write_ways(text, &ways);
    }
    free(ways.used);
    plan_release_images(plan, ways.plan);
    return result;
}

blink_result_t plan_ways_describe(const topo_t *topo, const plan_t *plan, char **described)
{
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    blink_result_t result = topo->non_peer_count > 0 ? describe(topo, plan, &text) : BLINK_OK;
    blink_result_t closed = topo_text_close(&text, described);
    if (result != BLINK_OK && closed == BLINK_OK)
        free(*described);
    return result == BLINK_OK ? closed : result;
}

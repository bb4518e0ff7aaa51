/* What the writers of plans share (plan/show/write.h). */
#include "plan/show/write.h"

#include "collective.h"
#include "names.h"
#include "plan/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STAGE_REDUCE, STAGE_BROADCAST, STAGE_ROUTE, STAGE_COUNT };

/* ---- the walk ---- */

static bool show_tree(const plan_part_t *part, const plan_tree_t *tree, const char *phase,
                      plan_branch_t *branch)
{
    branch->phase = phase;
    branch->root = part->root;
    branch->tree = tree;
    return tree->parent != NULL;
}

static bool show_route(const plan_part_t *part, plan_branch_t *branch)
{
    if (part->route.hop_count == 0)
        return false;
    branch->phase = "route";
    branch->root = part->route.ranks[0];
    branch->to = part->route.ranks[part->route.hop_count];
    branch->route = &part->route;
    return true;
}

static bool show_stage(const plan_part_t *part, uint32_t stage, plan_branch_t *branch)
{
    switch (stage) {
    case STAGE_REDUCE:
        return show_tree(part, &part->reduce, "reduce", branch);
    case STAGE_BROADCAST:
        branch->shares_part = part->reduce.parent != NULL;
        return show_tree(part, &part->broadcast, "broadcast", branch);
    default:
        return show_route(part, branch);
    }
}

bool plan_walk_next(const plan_t *plan, plan_walk_t *walk, plan_branch_t *branch)
{
    while (walk->channel < plan->channel_count) {
        const plan_channel_t *channel = &plan->channels[walk->channel];
        if (walk->part == channel->part_count) {
            *walk = (plan_walk_t){.channel = walk->channel + 1};
        } else if (walk->stage == STAGE_COUNT) {
            walk->part++;
            walk->stage = 0;
        } else {
            *branch = (plan_branch_t){
                .channel = walk->channel, .to = PLAN_NONE, .share = channel->share / channel->part_count};
            if (show_stage(&channel->parts[walk->part], walk->stage++, branch))
                return true;
        }
    }
    return false;
}

uint32_t plan_branch_room(const plan_t *plan, const plan_branch_t *branch)
{
    return branch->tree ? plan->rank_count : branch->route->hop_count;
}

uint32_t plan_branch_edge(const plan_branch_t *branch, uint32_t place)
{
    if (!branch->tree)
        return branch->route->paths[place];
    return place == branch->root ? PLAN_NONE : branch->tree->path[place];
}

uint32_t plan_branch_depth(const plan_t *plan, const plan_branch_t *branch)
{
    return branch->tree ? plan_tree_depth(plan, branch->tree) : branch->route->hop_count;
}

/* ---- names ---- */

const char *plan_rank_id(const topo_t *topo, const plan_t *plan, uint32_t rank)
{
    return topo->nodes[plan->rank_node[rank]].id;
}

const char *plan_algorithm_label(const plan_t *plan)
{
    if (plan->algorithm != BLINK_ALGORITHM_TREES)
        return blink_name_algorithm(plan->algorithm);
    return collective_routes(plan->collective) ? "packed-routes" : "packed-trees";
}

void plan_write_heading(topo_text_t *text, const topo_t *topo, const plan_t *plan,
                        void (*write_name)(topo_text_t *text, const char *name))
{
    fputs(blink_name_collective(plan->collective), text->file);
    if (plan->root != PLAN_NONE) {
        bool gathers = plan->collective == BLINK_REDUCE || plan->collective == BLINK_GATHER;
        fputs(gathers ? " to " : " from ", text->file);
        write_name(text, plan_rank_id(topo, plan, plan->root));
    }
    if (plan->peer != PLAN_NONE) {
        fputs(" to ", text->file);
        write_name(text, plan_rank_id(topo, plan, plan->peer));
    }
    fputs(" on ", text->file);
    write_name(text, topo->name);
    fprintf(text->file, ", %u rank%s: %s, %s protocol", plan->rank_count, plan->rank_count == 1 ? "" : "s",
            plan_algorithm_label(plan), blink_name_protocol(plan->protocol));
}

void plan_write_branch(topo_text_t *text, const topo_t *topo, const plan_t *plan, const plan_branch_t *branch,
                       void (*write_name)(topo_text_t *text, const char *name))
{
    if (branch->tree)
        fprintf(text->file, "%s %s ", branch->phase, branch->phase[0] == 'r' ? "to" : "from");
    write_name(text, plan_rank_id(topo, plan, branch->root));
    if (!branch->tree) {
        fputs(" to ", text->file);
        write_name(text, plan_rank_id(topo, plan, branch->to));
    }
}

/* ---- colours ---- */

/* One of red (0), green (8) or blue (4) of a hue, as in the usual formula from hue, saturation and lightness.
 */
static unsigned hue_part(double hue, double lightness, double which)
{
    double at = fmod(which + 12.0 * hue, 12.0), reach = 0.75 * fmin(lightness, 1.0 - lightness);
    return (unsigned)lround(255.0 * (lightness - reach * fmax(-1.0, fmin(fmin(at - 3.0, 9.0 - at), 1.0))));
}

const char *plan_colour(uint32_t index, uint32_t count, char colour[PLAN_COLOUR_BYTES])
{
    /* Six of Okabe and Ito, "Color Universal Design" (2008), then of Tol's "muted" ones, as far as they are
     * told apart beside these. */
    static const char *const chosen[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                         "#332288", "#999933", "#882255", "#000000", "#44aa99", "#777777"};
    if (count <= sizeof(chosen) / sizeof(chosen[0])) {
        snprintf(colour, PLAN_COLOUR_BYTES, "%s", chosen[index]);
        return colour;
    }
    double hue = (double)index / count, lightness = index % 2 == 0 ? 0.38 : 0.58;
    snprintf(colour, PLAN_COLOUR_BYTES, "#%02x%02x%02x", hue_part(hue, lightness, 0),
             hue_part(hue, lightness, 8), hue_part(hue, lightness, 4));
    return colour;
}

/* ---- images ---- */

blink_result_t plan_acquire_images(const topo_t *topo, const plan_t *plan, const plan_t **all)
{
    *all = plan;
    if (plan->symmetry_count == 0)
        return BLINK_OK;
    plan_t *expanded = NULL;
    blink_result_t result = plan_expand(topo, plan, &expanded);
    *all = expanded;
    return result;
}

void plan_release_images(const plan_t *plan, const plan_t *all)
{
    if (all != plan)
        plan_destroy((plan_t *)all);
}

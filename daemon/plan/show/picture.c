#include "plan/show/picture.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TREES_APART    12u /* up to so many each tree is a group; */
#define CHANNELS_APART 24u /* else each of up to so many channels; else each root */

/* ---- what is drawn ---- */

static blink_result_t choose_nodes(picture_t *picture)
{
    const topo_t *whole = picture->whole;
    picture->topo = whole;
    for (uint32_t node = 0; node < whole->node_count; node++)
        picture->image[node] = node;
    if (whole->gpu_count > PLAN_DRAWN_GPUS_MAX) {
        BLINK_TRY(topo_crop_to_host(whole, picture->plan->rank_node[0], picture->image, &picture->cropped));
        picture->topo = picture->cropped;
    }
    if (picture->topo->gpu_count > PLAN_DRAWN_GPUS_MAX)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "one host of %.60s has %u gpus; a picture shows at most %u",
                          whole->name, picture->topo->gpu_count, PLAN_DRAWN_GPUS_MAX);
    if (picture->topo->node_count > PLAN_DRAWN_NODES_MAX)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "a host of %.60s and its network have %u nodes; a picture "
                          "shows at most %u",
                          whole->name, picture->topo->node_count, PLAN_DRAWN_NODES_MAX);
    return BLINK_OK;
}

static bool drawn_rank(const picture_t *picture, uint32_t rank)
{
    return picture->image[picture->plan->rank_node[rank]] != TOPO_NONE;
}

/* The branch's group. By root, all roots that are not drawn are one. */
static uint32_t find_group(picture_t *picture, const plan_branch_t *branch, uint32_t index)
{
    if (picture->by_tree)
        return index;
    if (picture->by_channel)
        return branch->channel;
    uint32_t *group = &picture->root_group[branch->root];
    for (uint32_t rank = 0; *group == PLAN_NONE && rank < picture->plan->rank_count; rank++)
        if (!drawn_rank(picture, branch->root) && !drawn_rank(picture, rank))
            *group = picture->root_group[rank];
    if (*group == PLAN_NONE)
        *group = picture->group_count;
    return *group;
}

static void load_group(picture_t *picture, const plan_branch_t *branch, double *loads)
{
    const plan_t *plan = picture->plan;
    for (uint32_t place = 0; place < plan_branch_room(plan, branch); place++) {
        uint32_t index = plan_branch_edge(branch, place);
        for (uint32_t i = 0; index != PLAN_NONE && i < plan->paths[index].link_count; i++) {
            const topo_link_t *link = &picture->whole->links[plan->paths[index].links[i]];
            uint32_t from = picture->image[link->from], to = picture->image[link->to];
            if (from != TOPO_NONE && to != TOPO_NONE)
                loads[topo_find_link(picture->topo, from, to)] += branch->share;
        }
    }
}

static blink_result_t gather_groups(picture_t *picture)
{
    plan_walk_t walk = {0};
    plan_branch_t branch;
    const plan_t *plan = picture->plan;
    uint64_t trees = plan_tree_count(plan);
    picture->by_tree = trees <= TREES_APART;
    picture->by_channel = plan->channel_count <= CHANNELS_APART;
    uint32_t most = picture->by_tree      ? TREES_APART
                    : picture->by_channel ? CHANNELS_APART
                                          : PLAN_DRAWN_GPUS_MAX;
    picture->groups = calloc(most + 1u, sizeof(*picture->groups));
    picture->loads = calloc((most + 1u) * (size_t)picture->topo->link_count + 1u, sizeof(*picture->loads));
    picture->root_group = malloc(plan->rank_count * sizeof(*picture->root_group));
    if (!picture->groups || !picture->loads || !picture->root_group)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to draw %u links", picture->topo->link_count);
    memset(picture->root_group, 0xff, plan->rank_count * sizeof(*picture->root_group));
    for (uint32_t index = 0; plan_walk_next(plan, &walk, &branch); index++) {
        uint32_t at = find_group(picture, &branch, index);
        picture_group_t *group = &picture->groups[at];
        if (at >= picture->group_count)
            picture->group_count = at + 1;
        if (group->count++ == 0)
            group->first = branch;
        group->share += branch.shares_part && !picture->by_tree ? 0.0 : branch.share;
        load_group(picture, &branch, &picture->loads[(size_t)at * picture->topo->link_count]);
    }
    return BLINK_OK;
}

double picture_group_load(const picture_t *picture, uint32_t group, uint32_t link)
{
    return picture->loads[(size_t)group * picture->topo->link_count + link];
}

double picture_link_load(const picture_t *picture, uint32_t link)
{
    double load = 0.0;
    for (uint32_t group = 0; group < picture->group_count; group++)
        load += picture_group_load(picture, group, link);
    return load;
}

static blink_result_t write_heading(picture_t *picture)
{
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    plan_write_heading(&text, picture->whole, picture->plan, topo_text_xml);
    return topo_text_close(&text, &picture->heading);
}

blink_result_t picture_init(picture_t *picture, const topo_t *whole, const plan_t *plan)
{
    *picture = (picture_t){.whole = whole, .plan = plan};
    picture->image = malloc(whole->node_count * sizeof(*picture->image));
    picture->is_rank = calloc(whole->node_count, sizeof(*picture->is_rank));
    picture->whole_loads = calloc(whole->link_count + 1u, sizeof(*picture->whole_loads));
    if (!picture->image || !picture->is_rank || !picture->whole_loads)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to draw %u nodes", whole->node_count);
    BLINK_TRY(write_heading(picture));
    BLINK_TRY(choose_nodes(picture));
    for (uint32_t rank = 0; rank < plan->rank_count; rank++)
        if (drawn_rank(picture, rank))
            picture->is_rank[picture->image[plan->rank_node[rank]]] = true;
    BLINK_TRY(plan_link_loads(whole, plan, picture->whole_loads));
    BLINK_TRY(gather_groups(picture));
    return BLINK_OK;
}

void picture_fini(picture_t *picture)
{
    topo_destroy(picture->cropped);
    free(picture->heading);
    free(picture->image);
    free(picture->is_rank);
    free(picture->whole_loads);
    free(picture->loads);
    free(picture->groups);
    free(picture->root_group);
}

/* ---- what overview and panels draw alike ---- */

void picture_write_ends(topo_text_t *text, const topo_t *topo, const topo_link_t *link)
{
    topo_text_xml(text, topo->nodes[link->from].id);
    fputs(" to ", text->file);
    topo_text_xml(text, topo->nodes[link->to].id);
}

void picture_write_group_name(topo_text_t *text, const picture_t *picture, uint32_t index)
{
    const picture_group_t *group = &picture->groups[index];
    const plan_branch_t *first = &group->first;
    if (picture->by_tree) {
        plan_write_branch(text, picture->whole, picture->plan, first, topo_text_xml);
        return;
    }
    if (picture->by_channel) {
        fprintf(text->file, "channel %u", first->channel);
        if (group->count > 2)
            fprintf(text->file, ", %u %s", group->count, first->tree ? "trees" : "routes");
        if (group->count > 2 || !first->tree)
            return;
        fputs(", root ", text->file);
    } else if (!drawn_rank(picture, first->root)) {
        fputs("roots on other hosts", text->file);
        return;
    } else {
        fputs(first->tree ? "root " : "from ", text->file);
    }
    topo_text_xml(text, plan_rank_id(picture->whole, picture->plan, first->root));
}

void picture_draw_nodes(topo_text_t *text, const picture_t *picture, const topo_layout_t *layout)
{
    const plan_t *plan = picture->plan;
    for (uint32_t node = 0; node < picture->topo->node_count; node++) {
        bool gpu = picture->topo->nodes[node].kind == TOPO_DEVICE;
        bool root = plan->root != PLAN_NONE && picture->image[plan->rank_node[plan->root]] == node;
        bool aside = gpu && !picture->is_rank[node];
        if (aside)
            fputs("<g opacity=\"0.35\">", text->file);
        topo_layout_draw_node(text, layout, node,
                              root ? "stroke=\"#000\" stroke-width=\"3\"" : "stroke=\"#444\"");
        if (aside)
            fputs("</g>\n", text->file);
    }
}

void picture_draw_arrow(topo_text_t *text, const topo_curve_t *curve, double half, const char *colour)
{
    double x = (curve->from.x + 2 * curve->by.x + curve->to.x) / 4;
    double y = (curve->from.y + 2 * curve->by.y + curve->to.y) / 4;
    double dx = curve->to.x - curve->from.x, dy = curve->to.y - curve->from.y, length = hypot(dx, dy);
    dx *= half / length;
    dy *= half / length;
    fprintf(text->file,
            "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fZ\" fill=\"%s\" stroke=\"#fff\" "
            "stroke-width=\"0.7\"/>\n",
            x + dx, y + dy, x - dx - dy, y - dy + dx, x - dx + dy, y - dy - dx, colour);
}

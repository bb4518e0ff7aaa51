/*
 * Plans as one stand-alone picture over the topology's layout. Every loaded direction of a link is a grey
 * track, on the right of its way, as wide as all the link could carry while the plan runs at its rate; each
 * group of trees fills its part of the track in its colour. So a full track is what limits the plan.
 */
#include "plan/show/write.h"

#include "error.h"
#include "topo/show/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI             3.14159265358979323846
#define TREES_APART    12u /* up to so many each tree is a group; */
#define CHANNELS_APART 24u /* else each of up to so many channels; else each root */
#define RADIUS_LEAST   270.0
#define RADIUS_MOST    420.0 /* for topologies of many links */
#define TRACK_MOST     13.0
#define TRACK_LEAST    3.0
#define INK            0.5  /* of the disc that tracks may cover */
#define TRACK_GAP      1.5  /* between the two directions of a link */
#define BOW            0.05 /* of a track's length, outward */
#define HEAD_ROOM      46.0
#define FOOT_ROOM      28.0
#define HEADING_LETTER 8.6 /* width of a letter of the heading */
#define LEGEND_ROW     18.0
#define LEGEND_WIDTH   225.0 /* and a node's box, for the root's id */
#define FULL           0.999 /* busy shares from here on are called full */

/* What is drawn in one colour. */
typedef struct group {
    plan_branch_t first; /* its first tree or route */
    double share;        /* of the payload, each byte counted once */
    uint32_t count;      /* trees and routes */
} group_t;

typedef struct picture {
    const topo_t *whole, *topo; /* planned on; drawn */
    topo_t *cropped;            /* `topo`, if that is not all */
    const plan_t *plan;         /* all images */
    uint32_t *image;            /* per node of `whole`: the node drawn, or TOPO_NONE */
    char *heading;              /* escaped */
    topo_layout_t layout;
    double track; /* width */
    bool by_tree, by_channel;
    uint32_t group_count;
    group_t *groups;
    uint32_t *root_group; /* per rank, by root: its group, or PLAN_NONE so far */
    bool *is_rank;        /* per drawn node */
    double *loads;        /* per group and drawn link */
    double *whole_loads;  /* per link of `whole` */
} picture_t;

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
        group_t *group = &picture->groups[at];
        if (at >= picture->group_count)
            picture->group_count = at + 1;
        if (group->count++ == 0)
            group->first = branch;
        group->share += branch.shares_part && !picture->by_tree ? 0.0 : branch.share;
        load_group(picture, &branch, &picture->loads[(size_t)at * picture->topo->link_count]);
    }
    return BLINK_OK;
}

static double group_load(const picture_t *picture, uint32_t group, uint32_t link)
{
    return picture->loads[(size_t)group * picture->topo->link_count + link];
}

static double link_load(const picture_t *picture, uint32_t link)
{
    double load = 0.0;
    for (uint32_t group = 0; group < picture->group_count; group++)
        load += group_load(picture, group, link);
    return load;
}

/* Wide, unless so much is loaded that tracks would hide one another. */
static void size_tracks(picture_t *picture)
{
    const topo_t *topo = picture->topo;
    double length = 1.0;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_place_t *from = &picture->layout.places[topo->links[i].from];
        const topo_place_t *to = &picture->layout.places[topo->links[i].to];
        length += link_load(picture, i) > 0.0 ? hypot(to->x - from->x, to->y - from->y) : 0.0;
    }
    double disc = PI / 4 * picture->layout.width * picture->layout.height;
    picture->track = fmax(TRACK_LEAST, fmin(TRACK_MOST, INK * disc / length));
}

/* ---- tracks ---- */

/* A curve beside the straight way between two nodes, `aside` to the right of it. */
static void write_curve(topo_text_t *text, const picture_t *picture, const topo_link_t *link, double aside)
{
    const topo_place_t *from = &picture->layout.places[link->from], *to = &picture->layout.places[link->to];
    double dx = to->x - from->x, dy = to->y - from->y, length = hypot(dx, dy);
    double right_x = -dy / length, right_y = dx / length, bow = aside + 2 * BOW * length;
    fprintf(text->file, "d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"", from->x + aside * right_x,
            from->y + aside * right_y, (from->x + to->x) / 2 + bow * right_x,
            (from->y + to->y) / 2 + bow * right_y, to->x + aside * right_x, to->y + aside * right_y);
}

/* An arrow head on the middle of the track. */
static void write_arrow(topo_text_t *text, const picture_t *picture, const topo_link_t *link)
{
    const topo_place_t *from = &picture->layout.places[link->from], *to = &picture->layout.places[link->to];
    double dx = to->x - from->x, dy = to->y - from->y, length = hypot(dx, dy);
    double aside = picture->track / 2 + TRACK_GAP / 2 + BOW * length, half = fmax(2.5, picture->track * 0.4);
    double x = (from->x + to->x) / 2 - aside * dy / length, y = (from->y + to->y) / 2 + aside * dx / length;
    dx *= half / length;
    dy *= half / length;
    fprintf(text->file,
            "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fZ\" fill=\"#222\" stroke=\"#fff\" "
            "stroke-width=\"0.7\"/>\n",
            x + dx, y + dy, x - dx - dy, y - dy + dx, x - dx + dy, y - dy - dx);
}

static void write_ends(topo_text_t *text, const topo_t *topo, const topo_link_t *link)
{
    topo_text_xml(text, topo->nodes[link->from].id);
    fputs(" to ", text->file);
    topo_text_xml(text, topo->nodes[link->to].id);
}

static void write_group_name(topo_text_t *text, const picture_t *picture, uint32_t index)
{
    const group_t *group = &picture->groups[index];
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

/* The coloured parts of one track, side by side in its middle. */
static void write_fill(topo_text_t *text, const picture_t *picture, uint32_t index, double total)
{
    const topo_link_t *link = &picture->topo->links[index];
    double busy = total * picture->plan->rate_GBps / link->GBps;
    double aside = TRACK_GAP / 2 + picture->track * (1 - busy) / 2;
    char colour[PLAN_COLOUR_BYTES], GBps[TOPO_HUMAN_BYTES];
    for (uint32_t group = 0; group < picture->group_count; group++) {
        double load = group_load(picture, group, index), width = picture->track * busy * load / total;
        if (load <= 0.0)
            continue;
        fputs("<path ", text->file);
        write_curve(text, picture, link, aside + width / 2);
        fprintf(text->file, " stroke=\"%s\" stroke-width=\"%.2f\"><title>",
                plan_colour(group, picture->group_count, colour), fmax(width, 0.3));
        write_ends(text, picture->topo, link);
        fputs(": ", text->file);
        write_group_name(text, picture, group);
        fprintf(text->file, ", %.3f%% of the payload, %s of ", 100.0 * load,
                topo_human(load * picture->plan->rate_GBps, GBps));
        fprintf(text->file, "%s GB/s</title></path>\n", topo_human(link->GBps, GBps));
        aside += width;
    }
}

static void write_tracks(topo_text_t *text, const picture_t *picture)
{
    const topo_t *topo = picture->topo;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        bool loaded = link_load(picture, i) > 0.0;
        fputs("<path ", text->file);
        write_curve(text, picture, &topo->links[i], TRACK_GAP / 2 + picture->track / 2);
        fprintf(text->file, " stroke=\"%s\" stroke-width=\"%.2f\"%s><title>", loaded ? "#dcdcdc" : "#cfcfcf",
                loaded ? picture->track : 0.8, loaded ? "" : " stroke-dasharray=\"5 4\"");
        write_ends(text, topo, &topo->links[i]);
        fprintf(text->file, ": %s, %.1f%% busy</title></path>\n", topo_link_kind_name(topo->links[i].kind),
                100.0 * link_load(picture, i) * picture->plan->rate_GBps / topo->links[i].GBps);
    }
    for (uint32_t i = 0; i < topo->link_count; i++)
        if (link_load(picture, i) > 0.0)
            write_fill(text, picture, i, link_load(picture, i));
    for (uint32_t i = 0; i < topo->link_count; i++)
        if (link_load(picture, i) > 0.0)
            write_arrow(text, picture, &topo->links[i]);
}

/* ---- around them ---- */

static void write_nodes(topo_text_t *text, const picture_t *picture)
{
    const plan_t *plan = picture->plan;
    for (uint32_t node = 0; node < picture->topo->node_count; node++) {
        bool gpu = picture->topo->nodes[node].kind == TOPO_DEVICE;
        bool root = plan->root != PLAN_NONE && picture->image[plan->rank_node[plan->root]] == node;
        bool aside = gpu && !picture->is_rank[node];
        if (aside)
            fputs("<g opacity=\"0.35\">", text->file);
        topo_layout_draw_node(text, &picture->layout, picture->topo, node,
                              root ? "stroke=\"#000\" stroke-width=\"3\"" : "stroke=\"#444\"");
        if (aside)
            fputs("</g>\n", text->file);
    }
}

/* The links that are as busy as the busiest: one by name, how many others. */
static void write_busiest(topo_text_t *text, const picture_t *picture)
{
    const topo_t *whole = picture->whole;
    double most = 0.0;
    uint32_t busiest = 0, others = 0;
    for (uint32_t i = 0; i < whole->link_count; i++) {
        double busy = picture->whole_loads[i] * picture->plan->rate_GBps / whole->links[i].GBps;
        if (busy > most * (2 - FULL)) {
            busiest = i;
            others = 0;
            most = busy;
        } else if (busy > most * FULL) {
            others++;
        }
    }
    fputs("busiest: ", text->file);
    write_ends(text, whole, &whole->links[busiest]);
    if (others > 0)
        fprintf(text->file, " and %u other%s", others, others > 1 ? "s" : "");
    fprintf(text->file, ", %.1f%%", 100.0 * most);
    if (most < FULL)
        fputs("; a switch's own limit comes first", text->file);
}

static void write_head(topo_text_t *text, const picture_t *picture)
{
    const plan_t *plan = picture->plan;
    fprintf(text->file, "<text x=\"%d\" y=\"22\" font-size=\"15\" font-weight=\"bold\">", TOPO_MARGIN);
    fprintf(text->file, "%s</text>\n<text x=\"%d\" y=\"40\">", picture->heading, TOPO_MARGIN);
    if (picture->group_count == 0) {
        fputs("nothing moves</text>\n", text->file);
        return;
    }
    fprintf(text->file, "rate %.3f GB/s, bound %.3f GB/s (%.1f%%); ", plan->rate_GBps, plan->bound_GBps,
            100.0 * plan->rate_GBps / plan->bound_GBps);
    write_busiest(text, picture);
    fputs("</text>\n", text->file);
}

static uint32_t legend_rows(const picture_t *picture)
{
    uint32_t room = (uint32_t)(picture->layout.height / LEGEND_ROW);
    return picture->group_count < room ? picture->group_count : room;
}

static double legend_width(const picture_t *picture)
{
    return LEGEND_WIDTH + picture->layout.box_width;
}

/* A row per group; a second column where one is not enough. */
static void write_legend(topo_text_t *text, const picture_t *picture)
{
    char colour[PLAN_COLOUR_BYTES];
    for (uint32_t i = 0; i < picture->group_count; i++) {
        double x = picture->layout.width + legend_width(picture) * (i / legend_rows(picture));
        double y = HEAD_ROOM + TOPO_MARGIN + LEGEND_ROW * (i % legend_rows(picture));
        fprintf(text->file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"9\" fill=\"%s\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">",
                x, y - 8, plan_colour(i, picture->group_count, colour), x + 24, y);
        write_group_name(text, picture, i);
        fprintf(text->file, ": %.2f%%", 100.0 * picture->groups[i].share);
        if (picture->by_tree)
            fprintf(text->file, ", depth %u", plan_branch_depth(picture->plan, &picture->groups[i].first));
        fputs("</text>\n", text->file);
    }
}

static void write_foot(topo_text_t *text, const picture_t *picture, double height)
{
    fprintf(text->file,
            "<rect x=\"%d\" y=\"%.1f\" width=\"30\" height=\"10\" fill=\"#dcdcdc\"/>"
            "<rect x=\"%d\" y=\"%.1f\" width=\"30\" height=\"5\" fill=\"#1f77b4\"/>"
            "<text x=\"%d\" y=\"%.1f\">grey: a link's capacity, on the right of its way; coloured: the part "
            "that is used",
            TOPO_MARGIN, height - 20, TOPO_MARGIN, height - 17.5, TOPO_MARGIN + 40, height - 11);
    if (picture->cropped)
        fprintf(text->file, "; shown: the host of rank 0 and the network, %u of %u gpus",
                picture->topo->gpu_count, picture->whole->gpu_count);
    fputs("</text>\n", text->file);
}

static void write_picture(topo_text_t *text, const picture_t *picture)
{
    uint32_t columns = picture->group_count == 0 ? 0 : (picture->group_count - 1) / legend_rows(picture) + 1;
    double width = fmax(picture->layout.width + legend_width(picture) * columns,
                        2 * TOPO_MARGIN + HEADING_LETTER * (double)strlen(picture->heading));
    double height = HEAD_ROOM + picture->layout.height + FOOT_ROOM;
    fprintf(
        text->file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<title>",
        width, height, width, height);
    fputs(picture->heading, text->file);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", text->file);
    write_head(text, picture);
    fprintf(text->file, "<g transform=\"translate(0 %.0f)\" text-anchor=\"middle\">\n<g fill=\"none\">\n",
            HEAD_ROOM);
    write_tracks(text, picture);
    fputs("</g>\n", text->file);
    write_nodes(text, picture);
    fputs("</g>\n", text->file);
    write_legend(text, picture);
    write_foot(text, picture, height);
    fputs("</svg>\n", text->file);
}

static blink_result_t write_heading(picture_t *picture)
{
    topo_text_t text;
    BLINK_TRY(topo_text_open(&text));
    plan_write_heading(&text, picture->whole, picture->plan, topo_text_xml);
    return topo_text_close(&text, &picture->heading);
}

static blink_result_t prepare(picture_t *picture)
{
    const topo_t *whole = picture->whole;
    const plan_t *plan = picture->plan;
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
    BLINK_TRY(topo_layout_init(&picture->layout, picture->topo,
                               fmin(RADIUS_MOST, RADIUS_LEAST + 1.5 * picture->topo->link_count)));
    size_tracks(picture);
    return BLINK_OK;
}

blink_result_t plan_write_svg(const topo_t *topo, const plan_t *plan, char **result)
{
    picture_t picture = {.whole = topo};
    topo_text_t text;
    BLINK_TRY(plan_acquire_images(topo, plan, &picture.plan));
    blink_result_t status = prepare(&picture);
    if (status == BLINK_OK)
        status = topo_text_open(&text);
    if (status == BLINK_OK) {
        write_picture(&text, &picture);
        status = topo_text_close(&text, result);
    }
    topo_layout_fini(&picture.layout);
    topo_destroy(picture.cropped);
    free(picture.heading);
    free(picture.image);
    free(picture.is_rank);
    free(picture.whole_loads);
    free(picture.loads);
    free(picture.groups);
    free(picture.root_group);
    plan_release_images(plan, picture.plan);
    return status;
}

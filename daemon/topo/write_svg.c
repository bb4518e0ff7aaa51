/*
 * Draws a topology as one stand-alone picture: GPUs on a circle, everything else on smaller circles inside by
 * its distance from the nearest GPU, each node turned toward the nodes it hangs on, so that links seldom
 * cross.
 */
#include "topo/internal.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI          3.14159265358979323846
#define BOX_HEIGHT  26
#define BOX_ROOM    34 /* along a circle beside the box */
#define CIRCLE_GAP  20 /* between the boxes of neighbouring circles */
#define RADIUS_MIN  200
#define MARGIN      24
#define LEGEND_ROOM 28

typedef struct spot {
    uint32_t level; /* links away from the nearest gpu */
    double turn;    /* direction it would like to have, then the one it has: radians */
    double x, y;
} spot_t;

typedef struct picture {
    const topo_t *topo;
    spot_t *spots;   /* by node */
    uint32_t *order; /* nodes, sorted by level, then turn */
    uint32_t level_count;
    double *radii; /* by level */
    double box_width, centre_x, centre_y;
} picture_t;

static const char *const node_fills[] = {
    [TOPO_GPU] = "#d7efc8", [TOPO_SWITCH] = "#fde9c0", [TOPO_NIC] = "#d5e3f7", [TOPO_CPU] = "#e8dcf0"};
static const char *const link_strokes[] = {
    [TOPO_NVLINK] = "#5a9c1e",   [TOPO_NVSWITCH] = "#2f7f5f", [TOPO_PCIE] = "#c27c0e", [TOPO_QPI] = "#8a4fa3",
    [TOPO_NIC_LINK] = "#2d6cc0", [TOPO_NET] = "#1f4e8c",      [TOPO_SHM] = "#777777"};

/* Breadth first from all gpus over links of either direction; nodes that no gpu reaches go innermost. `order`
 * is the queue. */
static void find_levels(picture_t *picture)
{
    const topo_t *topo = picture->topo;
    uint32_t tail = 0, deepest = 0;
    for (uint32_t i = 0; i < topo->node_count; i++)
        picture->spots[i].level = topo->nodes[i].kind == TOPO_GPU ? 0 : TOPO_NONE;
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        picture->order[tail++] = topo->gpus[i];
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t node = picture->order[head];
        deepest = picture->spots[node].level;
        for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
            uint32_t next = topo->links[topo->out_links[j]].to;
            if (picture->spots[next].level == TOPO_NONE) {
                picture->spots[next].level = deepest + 1;
                picture->order[tail++] = next;
            }
        }
    }
    bool left_over = tail < topo->node_count;
    for (uint32_t i = 0; left_over && i < topo->node_count; i++) {
        if (picture->spots[i].level == TOPO_NONE) {
            picture->spots[i].level = deepest + 1;
            picture->order[tail++] = i;
        }
    }
    picture->level_count = deepest + 1 + (left_over ? 1 : 0);
}

static bool links_every_gpu(const topo_t *topo, uint32_t node)
{
    uint32_t gpus = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++)
        gpus += topo->nodes[topo->links[topo->out_links[j]].to].kind == TOPO_GPU;
    return topo->nodes[node].kind != TOPO_GPU && gpus == topo->gpu_count;
}

/* A node that every gpu hangs on has no direction: if it is the only such, it goes to the middle. */
static void move_hub_inside(picture_t *picture)
{
    const topo_t *topo = picture->topo;
    uint32_t hubs = 0, place = 0;
    for (uint32_t i = 0; i < topo->node_count; i++) {
        if (links_every_gpu(topo, picture->order[i])) {
            hubs++;
            place = i;
        }
    }
    if (hubs != 1 || topo->gpu_count < 3)
        return;
    uint32_t hub = picture->order[place], last = topo->node_count - 1;
    memmove(&picture->order[place], &picture->order[place + 1], (last - place) * sizeof(hub));
    picture->order[last] = hub;
    picture->spots[hub].level = picture->level_count++;
}

/* The mean direction of the neighbours one level further out; its own place in the file where they cancel
 * out. */
static double wanted_turn(const picture_t *picture, uint32_t node)
{
    const topo_t *topo = picture->topo;
    double x = 0, y = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
        const spot_t *outer = &picture->spots[topo->links[topo->out_links[j]].to];
        if (outer->level + 1 == picture->spots[node].level) {
            x += cos(outer->turn);
            y += sin(outer->turn);
        }
    }
    double turn = hypot(x, y) > 1e-6 ? atan2(y, x) : 2 * PI * node / topo->node_count;
    return turn < -PI / 2 ? turn + 2 * PI : turn;
}

/* The order in the file breaks ties. */
static int compare_turns(const void *one, const void *other, void *spots)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    double turn_a = ((const spot_t *)spots)[a].turn, turn_b = ((const spot_t *)spots)[b].turn;
    if (turn_a != turn_b)
        return turn_a < turn_b ? -1 : 1;
    return (a > b) - (a < b);
}

/* Spread one circle's nodes evenly, in the order of their wishes, turned so that the wishes are met on
 * average. */
static void place_level(picture_t *picture, uint32_t *nodes, uint32_t count, double radius)
{
    bool gpus = picture->spots[nodes[0]].level == 0;
    double x = 0, y = 0, step = 2 * PI / count;
    if (!gpus) {
        for (uint32_t i = 0; i < count; i++)
            picture->spots[nodes[i]].turn = wanted_turn(picture, nodes[i]);
        qsort_r(nodes, count, sizeof(*nodes), compare_turns, picture->spots);
        for (uint32_t i = 0; i < count; i++) {
            x += cos(picture->spots[nodes[i]].turn - i * step);
            y += sin(picture->spots[nodes[i]].turn - i * step);
        }
    }
    double start = gpus ? -PI / 2 : atan2(y, x);
    for (uint32_t i = 0; i < count; i++) {
        spot_t *spot = &picture->spots[nodes[i]];
        spot->turn = start + i * step;
        spot->x = picture->centre_x + radius * cos(spot->turn);
        spot->y = picture->centre_y + radius * sin(spot->turn);
    }
}

static uint32_t level_size(const picture_t *picture, uint32_t first)
{
    uint32_t count = 1, level = picture->spots[picture->order[first]].level;
    while (first + count < picture->topo->node_count &&
           picture->spots[picture->order[first + count]].level == level)
        count++;
    return count;
}

/* Radii from the innermost circle out: each has room for its boxes and lies clear of the one inside. */
static void size_circles(picture_t *picture)
{
    uint32_t end = picture->topo->node_count;
    double gap = picture->box_width + CIRCLE_GAP, inner = -gap;
    for (uint32_t level = picture->level_count; level-- > 0;) {
        uint32_t first = end;
        while (first > 0 && picture->spots[picture->order[first - 1]].level == level)
            first--;
        uint32_t count = end - first;
        double wanted = count > 1 ? fmax(gap, count * (picture->box_width + BOX_ROOM) / (2 * PI)) : 0;
        picture->radii[level] = fmax(wanted, inner + gap);
        inner = picture->radii[level];
        end = first;
    }
    double scale = fmax(1, RADIUS_MIN / inner);
    for (uint32_t level = 0; level < picture->level_count; level++)
        picture->radii[level] *= scale;
}

static void lay_out(picture_t *picture)
{
    const topo_t *topo = picture->topo;
    picture->box_width = 40;
    for (uint32_t i = 0; i < topo->node_count; i++)
        picture->box_width = fmax(picture->box_width, 16 + 7.5 * (double)strlen(topo->nodes[i].id));
    find_levels(picture);
    move_hub_inside(picture);
    size_circles(picture);
    picture->centre_x = picture->radii[0] + picture->box_width / 2 + MARGIN;
    picture->centre_y = picture->radii[0] + BOX_HEIGHT / 2.0 + MARGIN;
    for (uint32_t first = 0, count; first < topo->node_count; first += count) {
        count = level_size(picture, first);
        place_level(picture, &picture->order[first], count,
                    picture->radii[picture->spots[picture->order[first]].level]);
    }
}

static void write_links(topo_text_t *text, const picture_t *picture)
{
    const topo_t *topo = picture->topo;
    double largest_GBps = topo_largest_GBps(topo);
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint32_t mirror = topo_find_mirror(topo, i);
        if (mirror != TOPO_NONE && mirror < i)
            continue;
        const topo_link_t *link = &topo->links[i];
        const spot_t *from = &picture->spots[link->from], *to = &picture->spots[link->to];
        char there[TOPO_HUMAN_BYTES], back[TOPO_HUMAN_BYTES];
        fprintf(text->file,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"%.2f\"%s><title>",
                from->x, from->y, to->x, to->y, link_strokes[link->kind], 1 + 7 * link->GBps / largest_GBps,
                mirror == TOPO_NONE ? " stroke-dasharray=\"8 4\"" : "");
        topo_text_xml(text, topo->nodes[link->from].id);
        fputs(mirror == TOPO_NONE ? " to " : " and ", text->file);
        topo_text_xml(text, topo->nodes[link->to].id);
        fprintf(text->file, ": %s %s GB/s", topo_link_kind_name(link->kind), topo_human(link->GBps, there));
        if (mirror != TOPO_NONE && topo->links[mirror].GBps != link->GBps)
            fprintf(text->file, ", back %s GB/s", topo_human(topo->links[mirror].GBps, back));
        fputs("</title></line>\n", text->file);
    }
}

static void write_nodes(topo_text_t *text, const picture_t *picture)
{
    for (uint32_t i = 0; i < picture->topo->node_count; i++) {
        const topo_node_t *node = &picture->topo->nodes[i];
        const spot_t *spot = &picture->spots[i];
        fprintf(
            text->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\" fill=\"%s\" stroke=\"#444\"/>"
            "<text x=\"%.1f\" y=\"%.1f\">",
            spot->x - picture->box_width / 2, spot->y - BOX_HEIGHT / 2.0, picture->box_width, BOX_HEIGHT,
            node_fills[node->kind], spot->x, spot->y + 4.5);
        topo_text_xml(text, node->id);
        fputs("</text>\n", text->file);
    }
}

/* The colours of the kinds of link that occur. */
static void write_legend(topo_text_t *text, const picture_t *picture, double height)
{
    double x = MARGIN;
    for (topo_link_kind_t kind = TOPO_NVLINK; kind <= TOPO_SHM; kind++) {
        bool used = false;
        for (uint32_t i = 0; i < picture->topo->link_count && !used; i++)
            used = picture->topo->links[i].kind == kind;
        if (!used)
            continue;
        fprintf(text->file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"6\" fill=\"%s\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%s</text>\n",
                x, height - 17, link_strokes[kind], x + 19, height - 10, topo_link_kind_name(kind));
        x += 86;
    }
}

static void write_picture(topo_text_t *text, const picture_t *picture)
{
    double width = 2 * picture->centre_x, height = 2 * picture->centre_y + LEGEND_ROOM;
    fprintf(
        text->file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<title>",
        width, height, width, height);
    topo_text_xml(text, picture->topo->name);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<g stroke-opacity=\"0.75\">\n",
          text->file);
    write_links(text, picture);
    fputs("</g>\n", text->file);
    write_nodes(text, picture);
    write_legend(text, picture, height);
    fputs("</svg>\n", text->file);
}

blink_result_t topo_write_svg(const topo_t *topo, char **result)
{
    picture_t picture = {.topo = topo};
    topo_text_t text;
    blink_result_t status;
    picture.spots = calloc(topo->node_count, sizeof(*picture.spots));
    picture.order = calloc(topo->node_count, sizeof(*picture.order));
    picture.radii = calloc((size_t)topo->node_count + 1, sizeof(*picture.radii));
    if (!picture.spots || !picture.order || !picture.radii) {
        status = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory drawing a topology");
        goto done;
    }
    status = topo_text_open(&text);
    if (status != BLINK_OK)
        goto done;
    lay_out(&picture);
    write_picture(&text, &picture);
    status = topo_text_close(&text, result);
done:
    free(picture.radii);
    free(picture.order);
    free(picture.spots);
    return status;
}

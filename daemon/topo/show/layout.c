/*
 * Where the nodes of a picture stand: GPUs on a circle, everything else on smaller circles inside by its
 * distance from the nearest GPU, each node turned toward the nodes it hangs on, so that links seldom cross.
 * Topologies and plans are drawn over the same layout.
 */
#include "topo/show/layout.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI         3.14159265358979323846
#define BOX_ROOM   34 /* along a circle beside the box */
#define CIRCLE_GAP 20 /* between the boxes of neighbouring circles */

typedef struct spot {
    uint32_t level; /* links away from the nearest gpu */
    double turn;    /* direction it would like to have, then the one it has: radians */
} spot_t;

typedef struct plotter {
    const topo_t *topo;
    topo_layout_t *layout;
    spot_t *spots;   /* by node */
    uint32_t *order; /* nodes, sorted by level, then turn */
    uint32_t level_count;
    double *radii; /* by level */
    double least_radius;
} plotter_t;

/* Breadth first from all gpus over links of either direction; nodes that no gpu reaches go innermost. `order`
 * is the queue. */
static void find_levels(plotter_t *plotter)
{
    const topo_t *topo = plotter->topo;
    uint32_t tail = 0, deepest = 0;
    for (uint32_t i = 0; i < topo->node_count; i++)
        plotter->spots[i].level = topo->nodes[i].kind == TOPO_DEVICE ? 0 : TOPO_NONE;
    for (uint32_t i = 0; i < topo->gpu_count; i++)
        plotter->order[tail++] = topo->gpus[i];
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t node = plotter->order[head];
        deepest = plotter->spots[node].level;
        for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
            uint32_t next = topo->links[topo->out_links[j]].to;
            if (plotter->spots[next].level == TOPO_NONE) {
                plotter->spots[next].level = deepest + 1;
                plotter->order[tail++] = next;
            }
        }
    }
    bool left_over = tail < topo->node_count;
    for (uint32_t i = 0; left_over && i < topo->node_count; i++) {
        if (plotter->spots[i].level == TOPO_NONE) {
            plotter->spots[i].level = deepest + 1;
            plotter->order[tail++] = i;
        }
    }
    plotter->level_count = deepest + 1 + (left_over ? 1 : 0);
}

static bool links_every_gpu(const topo_t *topo, uint32_t node)
{
    uint32_t gpus = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++)
        gpus += topo->nodes[topo->links[topo->out_links[j]].to].kind == TOPO_DEVICE;
    return topo->nodes[node].kind != TOPO_DEVICE && gpus == topo->gpu_count;
}

/* A node that every gpu hangs on has no direction: if it is the only such, it goes to the middle. */
static void move_hub_inside(plotter_t *plotter)
{
    const topo_t *topo = plotter->topo;
    uint32_t hubs = 0, place = 0;
    for (uint32_t i = 0; i < topo->node_count; i++) {
        if (links_every_gpu(topo, plotter->order[i])) {
            hubs++;
            place = i;
        }
    }
    if (hubs != 1 || topo->gpu_count < 3)
        return;
    uint32_t hub = plotter->order[place], last = topo->node_count - 1;
    memmove(&plotter->order[place], &plotter->order[place + 1], (last - place) * sizeof(hub));
    plotter->order[last] = hub;
    plotter->spots[hub].level = plotter->level_count++;
}

/* The mean direction of the neighbours one level further out; its own place in the file where they cancel
 * out. */
static double wanted_turn(const plotter_t *plotter, uint32_t node)
{
    const topo_t *topo = plotter->topo;
    double x = 0, y = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
        const spot_t *outer = &plotter->spots[topo->links[topo->out_links[j]].to];
        if (outer->level + 1 == plotter->spots[node].level) {
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
static void place_level(plotter_t *plotter, uint32_t *nodes, uint32_t count, double radius)
{
    bool gpus = plotter->spots[nodes[0]].level == 0;
    double x = 0, y = 0, step = 2 * PI / count;
    if (!gpus) {
        for (uint32_t i = 0; i < count; i++)
            plotter->spots[nodes[i]].turn = wanted_turn(plotter, nodes[i]);
        qsort_r(nodes, count, sizeof(*nodes), compare_turns, plotter->spots);
        for (uint32_t i = 0; i < count; i++) {
            x += cos(plotter->spots[nodes[i]].turn - i * step);
            y += sin(plotter->spots[nodes[i]].turn - i * step);
        }
    }
    double start = gpus ? -PI / 2 : atan2(y, x);
    for (uint32_t i = 0; i < count; i++) {
        spot_t *spot = &plotter->spots[nodes[i]];
        spot->turn = start + i * step;
        plotter->layout->places[nodes[i]] =
            (topo_place_t){plotter->layout->width / 2 + radius * cos(spot->turn),
                           plotter->layout->height / 2 + radius * sin(spot->turn)};
    }
}

static uint32_t level_size(const plotter_t *plotter, uint32_t first)
{
    uint32_t count = 1, level = plotter->spots[plotter->order[first]].level;
    while (first + count < plotter->topo->node_count &&
           plotter->spots[plotter->order[first + count]].level == level)
        count++;
    return count;
}

/* Radii from the innermost circle out: each is long enough for its boxes and lies clear of the one inside. */
static void size_circles(plotter_t *plotter)
{
    uint32_t end = plotter->topo->node_count;
    double gap = plotter->layout->box_width + CIRCLE_GAP, inner = -gap;
    for (uint32_t level = plotter->level_count; level-- > 0;) {
        uint32_t first = end;
        while (first > 0 && plotter->spots[plotter->order[first - 1]].level == level)
            first--;
        uint32_t count = end - first;
        double wanted = count > 1 ? fmax(gap, count * (plotter->layout->box_width + BOX_ROOM) / (2 * PI)) : 0;
        plotter->radii[level] = fmax(wanted, inner + gap);
        inner = plotter->radii[level];
        end = first;
    }
    double scale = fmax(1, plotter->least_radius / inner);
    for (uint32_t level = 0; level < plotter->level_count; level++)
        plotter->radii[level] *= scale;
}

static void lay_out(plotter_t *plotter)
{
    const topo_t *topo = plotter->topo;
    topo_layout_t *layout = plotter->layout;
    layout->box_width = 40;
    for (uint32_t i = 0; i < topo->node_count; i++)
        layout->box_width = fmax(layout->box_width, 16 + 7.5 * (double)strlen(topo->nodes[i].id));
    find_levels(plotter);
    move_hub_inside(plotter);
    size_circles(plotter);
    layout->width = 2 * plotter->radii[0] + layout->box_width + 2 * TOPO_MARGIN;
    layout->height = 2 * plotter->radii[0] + TOPO_BOX_HEIGHT + 2 * TOPO_MARGIN;
    for (uint32_t first = 0, count; first < topo->node_count; first += count) {
        count = level_size(plotter, first);
        place_level(plotter, &plotter->order[first], count,
                    plotter->radii[plotter->spots[plotter->order[first]].level]);
    }
}

blink_result_t topo_layout_init(topo_layout_t *layout, const topo_t *topo, double least_radius)
{
    plotter_t plotter = {.topo = topo, .layout = layout, .least_radius = least_radius};
    blink_result_t result = BLINK_OK;
    *layout = (topo_layout_t){.places = calloc(topo->node_count, sizeof(*layout->places))};
    plotter.spots = calloc(topo->node_count, sizeof(*plotter.spots));
    plotter.order = calloc(topo->node_count, sizeof(*plotter.order));
    plotter.radii = calloc((size_t)topo->node_count + 1, sizeof(*plotter.radii));
    if (layout->places && plotter.spots && plotter.order && plotter.radii)
        lay_out(&plotter);
    else
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to lay out %u nodes", topo->node_count);
    free(plotter.radii);
    free(plotter.order);
    free(plotter.spots);
    if (result != BLINK_OK)
        topo_layout_fini(layout);
    return result;
}

void topo_layout_fini(topo_layout_t *layout)
{
    free(layout->places);
    layout->places = NULL;
}

void topo_layout_draw_node(topo_text_t *text, const topo_layout_t *layout, const topo_t *topo, uint32_t node,
                           const char *style)
{
    static const char *const fills[] = {
        [TOPO_DEVICE] = "#d7efc8", [TOPO_SWITCH] = "#fde9c0", [TOPO_NIC] = "#d5e3f7", [TOPO_CPU] = "#e8dcf0"};
    const topo_place_t *place = &layout->places[node];
    fprintf(text->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\" fill=\"%s\" %s/>"
            "<text x=\"%.1f\" y=\"%.1f\">",
            place->x - layout->box_width / 2, place->y - TOPO_BOX_HEIGHT / 2.0, layout->box_width,
            TOPO_BOX_HEIGHT, fills[topo->nodes[node].kind], style, place->x, place->y + 4.5);
    topo_text_xml(text, topo->nodes[node].id);
    fputs("</text>\n", text->file);
}

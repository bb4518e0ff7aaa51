/* Draws what a layout has placed: frames, boxes, and links that go around boxes. */
#include "topo/show/layout.h"

#include <math.h>

#define SAMPLES 32

/* Pictures of more nodes are not looked at link by link. */
#define ROUTED_NODES_MOST 400u

/* ---- links ---- */

static topo_curve_t bowed(const topo_place_t *from, const topo_place_t *to, double bow)
{
    double dx = to->x - from->x, dy = to->y - from->y, length = fmax(hypot(dx, dy), 1);
    topo_place_t by = {(from->x + to->x) / 2 - bow * dy / length, (from->y + to->y) / 2 + bow * dx / length};
    return (topo_curve_t){*from, by, *to};
}

static topo_place_t point_of(const topo_curve_t *curve, double at)
{
    double a = (1 - at) * (1 - at), b = 2 * at * (1 - at), c = at * at;
    return (topo_place_t){a * curve->from.x + b * curve->by.x + c * curve->to.x,
                          a * curve->from.y + b * curve->by.y + c * curve->to.y};
}

static bool meets(const topo_layout_t *layout, const topo_curve_t *curve, const topo_place_t *box)
{
    double wide = layout->box_width / 2 + TOPO_CLEARANCE, high = TOPO_BOX_HEIGHT / 2.0 + TOPO_CLEARANCE;
    for (int i = 1; i < SAMPLES; i++) {
        topo_place_t point = point_of(curve, (double)i / SAMPLES);
        if (fabs(point.x - box->x) < wide && fabs(point.y - box->y) < high)
            return true;
    }
    return false;
}

static uint32_t count_met(const topo_layout_t *layout, uint32_t from, uint32_t to, double bow)
{
    const topo_curve_t curve = bowed(&layout->places[from], &layout->places[to], bow);
    uint32_t count = 0;
    for (uint32_t node = 0; node < layout->topo->node_count; node++)
        count += node != from && node != to && meets(layout, &curve, &layout->places[node]);
    return count;
}

/* How far the way from the lesser node to the other one is bent to its right: as little as will do. */
static double find_bow(const topo_layout_t *layout, uint32_t from, uint32_t to)
{
    static const double bows[] = {0,    30,  -30,  60,  -60,  90,  -90,  120, -120, 160,
                                  -160, 200, -200, 250, -250, 300, -300, 400, -400};
    uint32_t best = 0, fewest = UINT32_MAX;
    if (layout->topo->node_count > ROUTED_NODES_MOST)
        return 0;
    for (uint32_t i = 0; i < sizeof(bows) / sizeof(bows[0]) && fewest > 0; i++) {
        uint32_t met = count_met(layout, from, to, bows[i]);
        if (met < fewest) {
            fewest = met;
            best = i;
        }
    }
    return bows[best];
}

topo_curve_t topo_layout_route(const topo_layout_t *layout, uint32_t from, uint32_t to)
{
    double bow = from < to ? find_bow(layout, from, to) : -find_bow(layout, to, from);
    return bowed(&layout->places[from], &layout->places[to], bow);
}

topo_curve_t topo_curve_aside(const topo_curve_t *curve, double aside)
{
    double dx = curve->to.x - curve->from.x, dy = curve->to.y - curve->from.y,
           length = fmax(hypot(dx, dy), 1);
    double x = -dy / length * aside, y = dx / length * aside;
    return (topo_curve_t){{curve->from.x + x, curve->from.y + y},
                          {curve->by.x + x, curve->by.y + y},
                          {curve->to.x + x, curve->to.y + y}};
}

void topo_layout_write_curve(topo_text_t *text, const topo_curve_t *curve)
{
    fprintf(text->file, "M%.1f %.1fQ%.1f %.1f %.1f %.1f", curve->from.x, curve->from.y, curve->by.x,
            curve->by.y, curve->to.x, curve->to.y);
}

/* ---- boxes ---- */

void topo_layout_draw_frames(topo_text_t *text, const topo_layout_t *layout)
{
    for (uint32_t i = 0; i < layout->frame_count; i++) {
        const topo_frame_t *frame = &layout->frames[i];
        fprintf(text->file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"8\" fill=\"#fafafa\" "
                "stroke=\"#bbb\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\" fill=\"#555\">",
                frame->x, frame->y, frame->width, frame->height, frame->x + 10, frame->y + 18);
        topo_text_xml(text, frame->host);
        fputs("</text>\n", text->file);
    }
}

void topo_layout_draw_node(topo_text_t *text, const topo_layout_t *layout, uint32_t node, const char *style)
{
    static const char *const fills[] = {
        [TOPO_DEVICE] = "#d7efc8", [TOPO_SWITCH] = "#fde9c0", [TOPO_NIC] = "#d5e3f7", [TOPO_CPU] = "#e8dcf0"};
    const topo_place_t *place = &layout->places[node];
    fprintf(text->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\" fill=\"%s\" %s/>"
            "<text x=\"%.1f\" y=\"%.1f\">",
            place->x - layout->box_width / 2, place->y - TOPO_BOX_HEIGHT / 2.0, layout->box_width,
            TOPO_BOX_HEIGHT, fills[layout->topo->nodes[node].kind], style, place->x, place->y + 4.5);
    topo_text_xml(text, layout->topo->nodes[node].id);
    fputs("</text>\n", text->file);
}

/* After Okabe and Ito, "Color Universal Design" (2008). */
const char *topo_layout_colour(topo_link_kind_t kind)
{
    static const char *const colours[] = {
        [TOPO_NVLINK] = "#009e73", [TOPO_NVSWITCH] = "#56b4e9", [TOPO_PCIE] = "#e69f00",
        [TOPO_QPI] = "#cc79a7",    [TOPO_NIC_LINK] = "#0072b2", [TOPO_NET] = "#d55e00",
        [TOPO_SHM] = "#888888"};
    return colours[kind];
}

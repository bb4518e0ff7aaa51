/*
 * The plot of a simulation: bus bandwidth above, time below, both over the size, which is on a logarithmic
 * axis. A picture that stands alone.
 */
#include "simulate.h"

#include "names.h"
#include "tools/human.h"
#include "topo/text.h"

#include <math.h>

#define WIDTH        760
#define LEFT         80
#define RIGHT        180 /* with the legend */
#define TOP          50
#define PANEL_HEIGHT 230
#define PANEL_GAP    60
#define HEIGHT       (TOP + 2 * PANEL_HEIGHT + PANEL_GAP + 50)
#define TICKS        5

/* A panel: what it shows, and how its values become heights. */
typedef struct panel {
    const char *title;
    double (*value)(const simulate_point_t *point);
    bool logarithmic;
    double least, most; /* of the axis; their logarithms if it is logarithmic */
    double bottom;      /* y of the least */
} panel_t;

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#332288", "#000000"};

static double busbw_of(const simulate_point_t *point)
{
    return point->busbw_GBps;
}

static double time_of(const simulate_point_t *point)
{
    return point->result.time_us;
}

static double x_of(const simulation_t *simulation, uint64_t bytes)
{
    double first = log2((double)simulation_at(simulation, 0, 0)->bytes);
    double last = log2((double)simulation_at(simulation, 0, simulation->size_count - 1)->bytes);
    double width = WIDTH - LEFT - RIGHT;
    return LEFT + (last > first ? width * (log2((double)bytes) - first) / (last - first) : width / 2);
}

static double y_of(const panel_t *panel, double value)
{
    double at = panel->logarithmic ? log10(value) : value;
    return panel->bottom - PANEL_HEIGHT * (at - panel->least) / (panel->most - panel->least);
}

/* From zero, or from the power of ten below, to what all curves fit under. */
static void scale_panel(const simulation_t *simulation, panel_t *panel)
{
    double least = INFINITY, most = 0;
    size_t points = (size_t)simulation->curve_count * simulation->size_count;
    for (size_t i = 0; i < points; i++) {
        least = fmin(least, panel->value(&simulation->points[i]));
        most = fmax(most, panel->value(&simulation->points[i]));
    }
    if (panel->logarithmic) {
        panel->least = floor(log10(least));
        panel->most = fmax(ceil(log10(most)), panel->least + 1);
        return;
    }
    double unit = pow(10, floor(log10(most)));
    panel->least = 0;
    panel->most = ceil(most / unit) * unit;
}

static void draw_axis(const simulation_t *simulation, const panel_t *panel, FILE *out)
{
    char text[HUMAN_BYTES];
    uint32_t ticks = panel->logarithmic ? (uint32_t)(panel->most - panel->least) : TICKS;
    for (uint32_t i = 0; i <= ticks; i++) {
        double value = panel->least + (panel->most - panel->least) * i / ticks;
        value = panel->logarithmic ? pow(10, value) : value;
        double y = y_of(panel, value);
        fprintf(out,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, y, WIDTH - RIGHT, y, LEFT - 8, y + 4, value);
    }
    uint32_t every = 1 + simulation->size_count / 8;
    for (uint32_t i = 0; i < simulation->size_count; i += every) {
        uint64_t bytes = simulation_at(simulation, 0, i)->bytes;
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                x_of(simulation, bytes), panel->bottom + 18, human_size(bytes, text));
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n"
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">payload, bytes (K: 1024)</text>\n",
            LEFT, panel->bottom - PANEL_HEIGHT - 10, panel->title, LEFT + (WIDTH - LEFT - RIGHT) / 2,
            panel->bottom + 36);
}

static void draw_curve(const simulation_t *simulation, const panel_t *panel, uint32_t curve, FILE *out)
{
    char text[HUMAN_BYTES], size[HUMAN_BYTES];
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colours[curve]);
    for (uint32_t i = 0; i < simulation->size_count; i++) {
        const simulate_point_t *point = simulation_at(simulation, curve, i);
        fprintf(out, "%.1f,%.1f ", x_of(simulation, point->bytes), y_of(panel, panel->value(point)));
    }
    fputs("\"/>\n", out);
    for (uint32_t i = 0; i < simulation->size_count; i++) {
        const simulate_point_t *point = simulation_at(simulation, curve, i);
        fprintf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %s: %s</title></circle>\n",
                x_of(simulation, point->bytes), y_of(panel, panel->value(point)), colours[curve],
                blink_name_algorithm(point->algorithm), human_size(point->bytes, size),
                human_number(panel->value(point), text));
    }
}

static void draw_legend(const simulation_t *simulation, FILE *out)
{
    for (uint32_t i = 0; i < simulation->curve_count; i++) {
        int y = TOP + 12 + 20 * (int)i;
        fprintf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"6\" fill=\"%s\"/><text x=\"%d\" "
                "y=\"%d\">%s</text>\n",
                WIDTH - RIGHT + 16, y - 6, colours[i], WIDTH - RIGHT + 36, y,
                blink_name_algorithm(simulation->algorithms[i]));
    }
}

void simulate_draw(const simulation_t *simulation, FILE *out)
{
    panel_t panels[] = {
        {.title = "bus bandwidth, GB/s", .value = busbw_of, .bottom = TOP + PANEL_HEIGHT},
        {.title = "time, µs", .value = time_of, .logarithmic = true, .bottom = HEIGHT - 50},
    };
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"20\" font-size=\"14\">%s on ",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, blink_name_collective(simulation->request->collective));
    topo_text_xml(&(topo_text_t){.file = out}, simulation->topo->name);
    fprintf(out, ", %u rank%s, simulated</text>\n", simulation->request->rank_count,
            human_plural(simulation->request->rank_count));
    for (size_t i = 0; i < sizeof(panels) / sizeof(panels[0]); i++) {
        scale_panel(simulation, &panels[i]);
        draw_axis(simulation, &panels[i], out);
        for (uint32_t curve = 0; curve < simulation->curve_count; curve++)
            draw_curve(simulation, &panels[i], curve, out);
    }
    draw_legend(simulation, out);
    fputs("</svg>\n", out);
}

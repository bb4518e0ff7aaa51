/* Draws a topology as one stand-alone picture over the layout of topo/show/layout.h: colours are kinds of
 * link, widths are capacities. */
#include "topo/topo.h"

#include "error.h"
#include "topo/show/layout.h"
#include "topo/text.h"

#include <math.h>
#include <string.h>

#define HEAD_ROOM    30 /* for the title */
#define LEGEND_ROW   20
#define LEGEND_WIDTH 230
#define SAMPLES_MOST 12u /* lines of the legend */

/* A line of the legend: links of one kind and capacity. */
typedef struct sample {
    topo_link_kind_t kind;
    double GBps;
    uint32_t count; /* a pair of directions is one */
} sample_t;

typedef struct legend {
    uint32_t count;
    sample_t samples[SAMPLES_MOST];
    bool is_all; /* no link is of another kind or capacity */
} legend_t;

static bool is_drawn(const topo_t *topo, uint32_t link)
{
    uint32_t mirror = topo_find_mirror(topo, link);
    return mirror == TOPO_NONE || link < mirror;
}

static legend_t gather_legend(const topo_t *topo)
{
    legend_t legend = {.is_all = true};
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_link_t *link = &topo->links[i];
        uint32_t at = 0;
        if (!is_drawn(topo, i))
            continue;
        while (at < legend.count && (legend.samples[at].kind != link->kind ||
                                     fabs(legend.samples[at].GBps - link->GBps) > 1e-9 * link->GBps))
            at++;
        if (at == legend.count && legend.count == SAMPLES_MOST) {
            legend.is_all = false;
            continue;
        }
        if (at == legend.count)
            legend.samples[legend.count++] = (sample_t){link->kind, link->GBps, 0};
        legend.samples[at].count++;
    }
    return legend;
}

static double width_of(double GBps, double largest_GBps)
{
    return 1 + 6 * GBps / largest_GBps;
}

static void write_link(topo_text_t *text, const topo_layout_t *layout, uint32_t index, double largest_GBps)
{
    const topo_t *topo = layout->topo;
    const topo_link_t *link = &topo->links[index];
    uint32_t mirror = topo_find_mirror(topo, index);
    char there[TOPO_HUMAN_BYTES], back[TOPO_HUMAN_BYTES];
    const topo_curve_t curve = topo_layout_route(layout, link->from, link->to);
    fputs("<path data-from=\"", text->file);
    topo_text_xml(text, topo->nodes[link->from].id);
    fputs("\" data-to=\"", text->file);
    topo_text_xml(text, topo->nodes[link->to].id);
    fputs("\" d=\"", text->file);
    topo_layout_write_curve(text, &curve);
    fprintf(text->file, "\" stroke=\"%s\" stroke-width=\"%.2f\"%s><title>", topo_layout_colour(link->kind),
            width_of(link->GBps, largest_GBps), mirror == TOPO_NONE ? " stroke-dasharray=\"8 4\"" : "");
    topo_text_xml(text, topo->nodes[link->from].id);
    fputs(mirror == TOPO_NONE ? " to " : " and ", text->file);
    topo_text_xml(text, topo->nodes[link->to].id);
    fprintf(text->file, ": %s %s GB/s", topo_link_kind_name(link->kind), topo_human(link->GBps, there));
    if (mirror != TOPO_NONE && topo->links[mirror].GBps != link->GBps)
        fprintf(text->file, ", back %s GB/s", topo_human(topo->links[mirror].GBps, back));
    fputs("</title></path>\n", text->file);
}

static void write_links(topo_text_t *text, const topo_layout_t *layout)
{
    double largest_GBps = topo_largest_GBps(layout->topo);
    for (uint32_t i = 0; i < layout->topo->link_count; i++)
        if (is_drawn(layout->topo, i))
            write_link(text, layout, i, largest_GBps);
}

static uint32_t legend_columns(const topo_layout_t *layout)
{
    double columns = (layout->width - 2 * TOPO_MARGIN) / LEGEND_WIDTH;
    return columns < 1 ? 1 : (uint32_t)columns;
}

static void write_legend(topo_text_t *text, const topo_layout_t *layout, const legend_t *legend, double top)
{
    char GBps[TOPO_HUMAN_BYTES];
    uint32_t columns = legend_columns(layout);
    fputs("<g class=\"legend\">\n", text->file);
    for (uint32_t i = 0; i < legend->count; i++) {
        const sample_t *sample = &legend->samples[i];
        double x = TOPO_MARGIN + LEGEND_WIDTH * (i % columns), y = top + LEGEND_ROW * (i / columns);
        fprintf(text->file,
                "<path d=\"M%.1f %.1fh26\" stroke=\"%s\" stroke-width=\"%.2f\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%u %s of %s GB/s</text>\n",
                x, y, topo_layout_colour(sample->kind),
                width_of(sample->GBps, topo_largest_GBps(layout->topo)), x + 34, y + 4, sample->count,
                topo_link_kind_name(sample->kind), topo_human(sample->GBps, GBps));
    }
    if (!legend->is_all)
        fprintf(text->file,
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"start\">and links of other capacities"
                "</text>\n",
                TOPO_MARGIN, top + LEGEND_ROW * ((legend->count - 1) / columns + 1) + 4);
    fputs("</g>\n", text->file);
}

static void write_title(topo_text_t *text, const topo_t *topo)
{
    fprintf(text->file,
            "<text x=\"%d\" y=\"26\" font-size=\"15\" font-weight=\"bold\" text-anchor=\"start\">",
            TOPO_MARGIN);
    topo_text_xml(text, topo->name);
    fprintf(text->file, ", %u device%s</text>\n", topo->gpu_count, topo->gpu_count == 1 ? "" : "s");
}

static void write_picture(topo_text_t *text, const topo_t *topo, const topo_layout_t *layout)
{
    const legend_t legend = gather_legend(topo);
    uint32_t lines = (legend.count + legend_columns(layout) - 1) / legend_columns(layout) + !legend.is_all;
    double width = fmax(layout->width, LEGEND_WIDTH + 2 * TOPO_MARGIN);
    double height = HEAD_ROOM + layout->height + LEGEND_ROW * lines + TOPO_MARGIN;
    fprintf(
        text->file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<title>",
        width, height, width, height);
    topo_text_xml(text, topo->name);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", text->file);
    write_title(text, topo);
    fprintf(text->file, "<g transform=\"translate(0 %d)\">\n", HEAD_ROOM);
    topo_layout_draw_frames(text, layout);
    fputs("<g fill=\"none\" stroke-opacity=\"0.8\">\n", text->file);
    write_links(text, layout);
    fputs("</g>\n", text->file);
    for (uint32_t node = 0; node < topo->node_count; node++)
        topo_layout_draw_node(text, layout, node, "stroke=\"#444\"");
    fputs("</g>\n", text->file);
    write_legend(text, layout, &legend, HEAD_ROOM + layout->height + LEGEND_ROW / 2.0);
    fputs("</svg>\n", text->file);
}

blink_result_t topo_write_svg(const topo_t *topo, char **result)
{
    topo_layout_t layout;
    topo_text_t text;
    BLINK_TRY(topo_layout_init(&layout, topo, 1));
    blink_result_t status = topo_text_open(&text);
    if (status == BLINK_OK) {
        write_picture(&text, topo, &layout);
        status = topo_text_close(&text, result);
    }
    topo_layout_fini(&layout);
    return status;
}

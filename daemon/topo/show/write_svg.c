/* Draws a topology as one stand-alone picture over the layout of topo/layout.h: colours are kinds of link,
 * widths are capacities. */
#include "topo/topo.h"

#include "error.h"
#include "topo/show/layout.h"
#include "topo/text.h"

#define RADIUS_LEAST 200
#define LEGEND_ROOM  28

static const char *const link_strokes[] = {
    [TOPO_NVLINK] = "#5a9c1e",   [TOPO_NVSWITCH] = "#2f7f5f", [TOPO_PCIE] = "#c27c0e", [TOPO_QPI] = "#8a4fa3",
    [TOPO_NIC_LINK] = "#2d6cc0", [TOPO_NET] = "#1f4e8c",      [TOPO_SHM] = "#777777"};

static void write_links(topo_text_t *text, const topo_t *topo, const topo_layout_t *layout)
{
    double largest_GBps = topo_largest_GBps(topo);
    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint32_t mirror = topo_find_mirror(topo, i);
        if (mirror != TOPO_NONE && mirror < i)
            continue;
        const topo_link_t *link = &topo->links[i];
        const topo_place_t *from = &layout->places[link->from], *to = &layout->places[link->to];
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

/* The colours of the kinds of link that occur. */
static void write_legend(topo_text_t *text, const topo_t *topo, double height)
{
    double x = TOPO_MARGIN;
    for (topo_link_kind_t kind = TOPO_NVLINK; kind <= TOPO_SHM; kind++) {
        bool used = false;
        for (uint32_t i = 0; i < topo->link_count && !used; i++)
            used = topo->links[i].kind == kind;
        if (!used)
            continue;
        fprintf(text->file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"6\" fill=\"%s\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%s</text>\n",
                x, height - 17, link_strokes[kind], x + 19, height - 10, topo_link_kind_name(kind));
        x += 86;
    }
}

static void write_picture(topo_text_t *text, const topo_t *topo, const topo_layout_t *layout)
{
    double width = layout->width, height = layout->height + LEGEND_ROOM;
    fprintf(
        text->file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<title>",
        width, height, width, height);
    topo_text_xml(text, topo->name);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<g stroke-opacity=\"0.75\">\n",
          text->file);
    write_links(text, topo, layout);
    fputs("</g>\n", text->file);
    for (uint32_t node = 0; node < topo->node_count; node++)
        topo_layout_draw_node(text, layout, topo, node, "stroke=\"#444\"");
    write_legend(text, topo, height);
    fputs("</svg>\n", text->file);
}

blink_result_t topo_write_svg(const topo_t *topo, char **result)
{
    topo_layout_t layout;
    topo_text_t text;
    BLINK_TRY(topo_layout_init(&layout, topo, RADIUS_LEAST));
    blink_result_t status = topo_text_open(&text);
    if (status == BLINK_OK) {
        write_picture(&text, topo, &layout);
        status = topo_text_close(&text, result);
    }
    topo_layout_fini(&layout);
    return status;
}

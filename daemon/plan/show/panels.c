/* Small multiples (Tufte, "Envisioning Information", 1990): each group of a plan's trees and routes in a
 * picture of its own, all over the same layout. */
#include "plan/show/picture.h"

#include "error.h"

#include <math.h>

#define SCALE      0.62
#define HEAD_ROOM  30.0 /* in the panel's own units */
#define PANEL_GAP  16.0
#define LINE_WIDTH 3.5
#define COLUMNS    3u /* at least, where there are so many */

typedef struct panels {
    const picture_t *picture;
    const topo_layout_t *layout;
    const topo_curve_t *curves; /* by link */
    double width, height;       /* of a panel, in units of the whole picture */
    uint32_t columns, count;
} panels_t;

static panels_t arrange(const picture_t *picture, const topo_layout_t *layout, double width)
{
    panels_t panels = {.picture = picture,
                       .layout = layout,
                       .width = SCALE * layout->width + PANEL_GAP,
                       .height = SCALE * (layout->height + HEAD_ROOM) + PANEL_GAP,
                       .columns = COLUMNS,
                       .count = picture->group_count};
    double columns = (width - 2 * TOPO_MARGIN + PANEL_GAP) / panels.width;
    if (panels.count > PICTURE_PANELS_MOST)
        panels.count = PICTURE_PANELS_MOST;
    if (columns > COLUMNS)
        panels.columns = (uint32_t)columns;
    if (panels.columns > panels.count)
        panels.columns = panels.count > 0 ? panels.count : 1;
    return panels;
}

/* All links faintly, and over them, on the right of their way, those that the group loads. */
static void draw_links(topo_text_t *text, const panels_t *panels, uint32_t group, const char *colour)
{
    const topo_t *topo = panels->picture->topo;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        fputs("<path d=\"", text->file);
        topo_layout_write_curve(text, &panels->curves[i]);
        fputs("\" stroke=\"#e4e4e4\"/>\n", text->file);
    }
    for (uint32_t i = 0; i < topo->link_count; i++) {
        if (picture_group_load(panels->picture, group, i) <= 0)
            continue;
        const topo_curve_t curve = topo_curve_aside(&panels->curves[i], LINE_WIDTH);
        fputs("<path d=\"", text->file);
        topo_layout_write_curve(text, &curve);
        fprintf(text->file, "\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", colour, LINE_WIDTH);
        picture_draw_arrow(text, &curve, 6, colour);
    }
}

static void draw_caption(topo_text_t *text, const panels_t *panels, uint32_t index, const char *colour)
{
    const picture_t *picture = panels->picture;
    const picture_group_t *group = &picture->groups[index];
    fprintf(text->file,
            "<rect x=\"%d\" y=\"12\" width=\"16\" height=\"10\" fill=\"%s\"/>"
            "<text x=\"%d\" y=\"22\" text-anchor=\"start\" font-size=\"14\">",
            TOPO_MARGIN, colour, TOPO_MARGIN + 26);
    picture_write_group_name(text, picture, index);
    fprintf(text->file, ": %.2f%%", 100.0 * group->share);
    if (picture->by_tree)
        fprintf(text->file, ", depth %u", plan_branch_depth(picture->plan, &group->first));
    fputs("</text>\n", text->file);
}

static void draw_panel(topo_text_t *text, const panels_t *panels, uint32_t index, double x, double y)
{
    char colour[PLAN_COLOUR_BYTES];
    plan_colour(index, panels->picture->group_count, colour);
    fprintf(text->file, "<g transform=\"translate(%.1f %.1f) scale(%.2f)\" text-anchor=\"middle\">\n", x, y,
            SCALE);
    draw_caption(text, panels, index, colour);
    fprintf(text->file, "<g transform=\"translate(0 %.0f)\">\n<g fill=\"none\">\n", HEAD_ROOM);
    draw_links(text, panels, index, colour);
    fputs("</g>\n", text->file);
    picture_draw_nodes(text, panels->picture, panels->layout);
    fputs("</g></g>\n", text->file);
}

picture_size_t picture_size_panels(const picture_t *picture, const topo_layout_t *layout, double width)
{
    const panels_t panels = arrange(picture, layout, width);
    uint32_t rows = (panels.count + panels.columns - 1) / panels.columns;
    return (picture_size_t){2 * TOPO_MARGIN - PANEL_GAP + panels.columns * panels.width,
                            rows * panels.height};
}

void picture_draw_panels(topo_text_t *text, const picture_t *picture, const topo_layout_t *layout,
                         const topo_curve_t *curves, double top, double width)
{
    panels_t panels = arrange(picture, layout, width);
    panels.curves = curves;
    for (uint32_t i = 0; i < panels.count; i++)
        draw_panel(text, &panels, i, TOPO_MARGIN + panels.width * (i % panels.columns),
                   top + panels.height * (i / panels.columns));
}

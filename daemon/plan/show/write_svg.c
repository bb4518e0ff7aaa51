/*
 * Plans as one stand-alone picture. Above, an overview over the topology's layout: every loaded direction of
 * a link is a grey track, on the right of its way, as wide as all the link could carry while the plan runs at
 * its rate; each group of trees fills its part of the track in its colour. So a full track is what limits the
 * plan. Below, each group by itself (panels.c).
 */
#include "plan/show/picture.h"

#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROOM           1.4 /* of the overview */
#define PANEL_ROOM     0.5
#define TRACK_MOST     13.0
#define TRACK_LEAST    3.0
#define INK            0.25 /* of the picture that tracks may cover */
#define TRACK_GAP      1.5  /* between the two directions of a link */
#define HEAD_ROOM      46.0
#define FOOT_ROOM      28.0
#define HEADING_LETTER 8.6   /* width of a letter of the heading */
#define FULL           0.999 /* busy shares from here on are called full */

typedef struct overview {
    const picture_t *picture;
    topo_layout_t layout, panel_layout;
    topo_curve_t *curves, *panel_curves; /* by link: the middle between its directions' tracks */
    double track;                        /* width */
} overview_t;

/* ---- tracks ---- */

/* Wide, unless so much is loaded that tracks would hide one another. */
static void size_tracks(overview_t *overview)
{
    const topo_t *topo = overview->picture->topo;
    double length = 1.0;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_curve_t *curve = &overview->curves[i];
        if (picture_link_load(overview->picture, i) > 0.0)
            length += hypot(curve->to.x - curve->from.x, curve->to.y - curve->from.y);
    }
    double area = overview->layout.width * overview->layout.height;
    overview->track = fmax(TRACK_LEAST, fmin(TRACK_MOST, INK * area / length));
}

/* The beginning of a path element, `aside` to the right of the link's middle. */
static void write_curve(topo_text_t *text, const overview_t *overview, uint32_t link, double aside)
{
    const topo_curve_t curve = topo_curve_aside(&overview->curves[link], aside);
    fputs("<path d=\"", text->file);
    topo_layout_write_curve(text, &curve);
    fputs("\"", text->file);
}

/* The coloured parts of one track, side by side in its middle. */
static void write_fill(topo_text_t *text, const overview_t *overview, uint32_t index)
{
    const picture_t *picture = overview->picture;
    const topo_link_t *link = &picture->topo->links[index];
    double total = picture_link_load(picture, index);
    double busy = total * picture->plan->rate_GBps / link->GBps;
    double aside = TRACK_GAP / 2 + overview->track * (1 - busy) / 2;
    char colour[PLAN_COLOUR_BYTES], GBps[TOPO_HUMAN_BYTES];
    for (uint32_t group = 0; group < picture->group_count; group++) {
        double load = picture_group_load(picture, group, index),
               width = overview->track * busy * load / total;
        if (load <= 0.0)
            continue;
        write_curve(text, overview, index, aside + width / 2);
        fprintf(text->file, " stroke=\"%s\" stroke-width=\"%.2f\"><title>",
                plan_colour(group, picture->group_count, colour), fmax(width, 0.3));
        picture_write_ends(text, picture->topo, link);
        fputs(": ", text->file);
        picture_write_group_name(text, picture, group);
        fprintf(text->file, ", %.3f%% of the payload, %s of ", 100.0 * load,
                topo_human(load * picture->plan->rate_GBps, GBps));
        fprintf(text->file, "%s GB/s</title></path>\n", topo_human(link->GBps, GBps));
        aside += width;
    }
}

static void write_track(topo_text_t *text, const overview_t *overview, uint32_t index)
{
    const picture_t *picture = overview->picture;
    const topo_link_t *link = &picture->topo->links[index];
    double load = picture_link_load(picture, index);
    bool loaded = load > 0.0;
    write_curve(text, overview, index, TRACK_GAP / 2 + overview->track / 2);
    fprintf(text->file, " stroke=\"%s\" stroke-width=\"%.2f\"%s><title>", loaded ? "#dcdcdc" : "#cfcfcf",
            loaded ? overview->track : 0.8, loaded ? "" : " stroke-dasharray=\"5 4\"");
    picture_write_ends(text, picture->topo, link);
    fprintf(text->file, ": %s, %.1f%% busy</title></path>\n", topo_link_kind_name(link->kind),
            100.0 * load * picture->plan->rate_GBps / link->GBps);
}

static void write_arrow(topo_text_t *text, const overview_t *overview, uint32_t index)
{
    const topo_curve_t curve =
        topo_curve_aside(&overview->curves[index], TRACK_GAP / 2 + overview->track / 2);
    picture_draw_arrow(text, &curve, fmax(2.5, overview->track * 0.4), "#222");
}

static void write_tracks(topo_text_t *text, const overview_t *overview)
{
    const picture_t *picture = overview->picture;
    uint32_t count = picture->topo->link_count;
    for (uint32_t i = 0; i < count; i++)
        write_track(text, overview, i);
    for (uint32_t i = 0; i < count; i++)
        if (picture_link_load(picture, i) > 0.0)
            write_fill(text, overview, i);
    for (uint32_t i = 0; i < count; i++)
        if (picture_link_load(picture, i) > 0.0)
            write_arrow(text, overview, i);
}

/* ---- around them ---- */

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
    picture_write_ends(text, whole, &whole->links[busiest]);
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

static void write_foot(topo_text_t *text, const overview_t *overview, double y)
{
    const picture_t *picture = overview->picture;
    fprintf(text->file,
            "<rect x=\"%d\" y=\"%.1f\" width=\"30\" height=\"10\" fill=\"#dcdcdc\"/>"
            "<rect x=\"%d\" y=\"%.1f\" width=\"30\" height=\"5\" fill=\"#0072b2\"/>"
            "<text x=\"%d\" y=\"%.1f\">grey: a link's capacity, on the right of its way; coloured: the part "
            "that is used",
            TOPO_MARGIN, y - 20, TOPO_MARGIN, y - 17.5, TOPO_MARGIN + 40, y - 11);
    if (picture->cropped)
        fprintf(text->file, "; shown: the host of rank 0 and the network, %u of %u gpus",
                picture->topo->gpu_count, picture->whole->gpu_count);
    if (picture->group_count > PICTURE_PANELS_MOST)
        fprintf(text->file, "; below: the first %u of %u", PICTURE_PANELS_MOST, picture->group_count);
    fputs("</text>\n", text->file);
}

static void write_picture(topo_text_t *text, const overview_t *overview)
{
    const picture_t *picture = overview->picture;
    double width =
        fmax(overview->layout.width, 2 * TOPO_MARGIN + HEADING_LETTER * (double)strlen(picture->heading));
    double top = HEAD_ROOM + overview->layout.height + FOOT_ROOM;
    const picture_size_t panels = picture_size_panels(picture, &overview->panel_layout, width);
    double height = top + panels.height;
    width = fmax(width, panels.width);
    fprintf(
        text->file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<title>",
        width, height, width, height);
    fputs(picture->heading, text->file);
    fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", text->file);
    write_head(text, picture);
    fprintf(text->file, "<g transform=\"translate(0 %.0f)\" text-anchor=\"middle\">\n", HEAD_ROOM);
    topo_layout_draw_frames(text, &overview->layout);
    fputs("<g fill=\"none\">\n", text->file);
    write_tracks(text, overview);
    fputs("</g>\n", text->file);
    picture_draw_nodes(text, picture, &overview->layout);
    fputs("</g>\n", text->file);
    write_foot(text, overview, top);
    picture_draw_panels(text, picture, &overview->panel_layout, overview->panel_curves, top, width);
    fputs("</svg>\n", text->file);
}

static blink_result_t route_links(const topo_layout_t *layout, topo_curve_t **curves)
{
    const topo_t *topo = layout->topo;
    *curves = calloc((size_t)topo->link_count + 1, sizeof(**curves));
    if (!*curves)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to draw %u links", topo->link_count);
    for (uint32_t i = 0; i < topo->link_count; i++)
        (*curves)[i] = topo_layout_route(layout, topo->links[i].from, topo->links[i].to);
    return BLINK_OK;
}

static blink_result_t overview_init(overview_t *overview, const picture_t *picture)
{
    *overview = (overview_t){.picture = picture};
    BLINK_TRY(topo_layout_init(&overview->layout, picture->topo, ROOM));
    BLINK_TRY(topo_layout_init(&overview->panel_layout, picture->topo, PANEL_ROOM));
    BLINK_TRY(route_links(&overview->layout, &overview->curves));
    BLINK_TRY(route_links(&overview->panel_layout, &overview->panel_curves));
    size_tracks(overview);
    return BLINK_OK;
}

static blink_result_t draw(const picture_t *picture, char **result)
{
    overview_t overview;
    topo_text_t text;
    blink_result_t status = overview_init(&overview, picture);
    if (status == BLINK_OK)
        status = topo_text_open(&text);
    if (status == BLINK_OK) {
        write_picture(&text, &overview);
        status = topo_text_close(&text, result);
    }
    topo_layout_fini(&overview.layout);
    topo_layout_fini(&overview.panel_layout);
    free(overview.curves);
    free(overview.panel_curves);
    return status;
}

blink_result_t plan_write_svg(const topo_t *topo, const plan_t *plan, char **result)
{
    picture_t picture;
    const plan_t *all;
    BLINK_TRY(plan_acquire_images(topo, plan, &all));
    blink_result_t status = picture_init(&picture, topo, all);
    if (status == BLINK_OK)
        status = draw(&picture, result);
    picture_fini(&picture);
    plan_release_images(plan, all);
    return status;
}

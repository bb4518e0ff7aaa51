/*
 * What a picture of a plan shows, before anything is drawn: which nodes, which groups of trees and routes in
 * which colours, and what each group loads on each link.
 */
#ifndef BLINK_PLAN_PICTURE_H
#define BLINK_PLAN_PICTURE_H

#include "plan/show/write.h"
#include "topo/show/layout.h"

/* What is drawn in one colour. */
typedef struct picture_group {
    plan_branch_t first; /* its first tree or route */
    double share;        /* of the payload, each byte counted once */
    uint32_t count;      /* trees and routes */
} picture_group_t;

typedef struct picture {
    const topo_t *whole, *topo; /* planned on; drawn */
    topo_t *cropped;            /* `topo`, if that is not all */
    const plan_t *plan;         /* all images */
    uint32_t *image;            /* per node of `whole`: the node drawn, or TOPO_NONE */
    char *heading;              /* escaped */
    bool by_tree, by_channel;
    uint32_t group_count;
    picture_group_t *groups;
    uint32_t *root_group; /* per rank, by root: its group, or PLAN_NONE so far */
    bool *is_rank;        /* per drawn node */
    double *loads;        /* per group and drawn link */
    double *whole_loads;  /* per link of `whole` */
} picture_t;

/* Gather what is to be drawn of a plan, all images of which are `plan`. picture_fini() it in any case.
 * Errors: UNSUPPORTED (too much for a picture), NO_MEMORY. */
blink_result_t picture_init(picture_t *picture, const topo_t *topo, const plan_t *plan);
void picture_fini(picture_t *picture);

double picture_group_load(const picture_t *picture, uint32_t group, uint32_t link);
double picture_link_load(const picture_t *picture, uint32_t link);

/* "channel 0, root gpu7", "broadcast from gpu0", "from gpu3"; escaped. */
void picture_write_group_name(topo_text_t *text, const picture_t *picture, uint32_t group);

/* "gpu0 to gpu1"; escaped. */
void picture_write_ends(topo_text_t *text, const topo_t *topo, const topo_link_t *link);

/* The boxes, those that are no ranks faintly, and a root's with a thick rim. */
void picture_draw_nodes(topo_text_t *text, const picture_t *picture, const topo_layout_t *layout);

/* An arrow head on the middle of a curve; `half` is half its length. */
void picture_draw_arrow(topo_text_t *text, const topo_curve_t *curve, double half, const char *colour);

/* Small pictures of the groups, one each, of the first PICTURE_PANELS_MOST: how large they are together
 * beside and below each other in a picture that is `width` wide, or wider where they need it; and drawn there
 * from `top` on. */
#define PICTURE_PANELS_MOST 24u
typedef struct picture_size {
    double width, height;
} picture_size_t;
picture_size_t picture_size_panels(const picture_t *picture, const topo_layout_t *layout, double width);
void picture_draw_panels(topo_text_t *text, const picture_t *picture, const topo_layout_t *layout,
                         const topo_curve_t *curves, double top, double width);

#endif

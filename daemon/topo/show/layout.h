/*
 * Where each node of a topology stands in a picture, and its box: what the writers of pictures share, of
 * topologies and of plans.
 */
#ifndef BLINK_TOPO_LAYOUT_H
#define BLINK_TOPO_LAYOUT_H

#include "topo/text.h"
#include "topo/topo.h"

#define TOPO_BOX_HEIGHT 26
#define TOPO_MARGIN     24 /* around everything */

typedef struct topo_place {
    double x, y; /* of the box's centre; y grows downward */
} topo_place_t;

/* All in the units of the picture. */
typedef struct topo_layout {
    topo_place_t *places; /* by node */
    double box_width;     /* of every node, wide enough for its id */
    double width, height; /* with margins */
} topo_layout_t;

/* Lay out a topology; the outermost circle has at least the given radius. On failure nothing is left to
 * release. Errors: NO_MEMORY. */
blink_result_t topo_layout_init(topo_layout_t *layout, const topo_t *topo, double least_radius);
void topo_layout_fini(topo_layout_t *layout);

/* The node's box and its id, as SVG; `style` is attributes of the box, such as its stroke. */
void topo_layout_draw_node(topo_text_t *text, const topo_layout_t *layout, const topo_t *topo, uint32_t node,
                           const char *style);

#endif

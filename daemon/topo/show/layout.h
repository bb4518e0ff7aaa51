/*
 * Where each node of a topology stands in a picture, its box, and how links go around the boxes: what the
 * writers of pictures share, of topologies and of plans.
 */
#ifndef BLINK_TOPO_LAYOUT_H
#define BLINK_TOPO_LAYOUT_H

#include "topo/text.h"
#include "topo/topo.h"

#define TOPO_BOX_HEIGHT 26
#define TOPO_MARGIN     24  /* around everything */
#define TOPO_CLEARANCE  4.0 /* how near to a box a link that is not its own may come */

typedef struct topo_place {
    double x, y; /* of the box's centre; y grows downward */
} topo_place_t;

/* Around the nodes of a host. */
typedef struct topo_frame {
    const char *host; /* borrowed from the topology */
    double x, y, width, height;
} topo_frame_t;

/* All in the units of the picture. */
typedef struct topo_layout {
    const topo_t *topo;   /* borrowed */
    topo_place_t *places; /* by node */
    uint32_t frame_count;
    topo_frame_t *frames;
    double box_width;     /* of every node, wide enough for its id */
    double width, height; /* with margins */
} topo_layout_t;

/* A quadratic Bézier curve. */
typedef struct topo_curve {
    topo_place_t from, by, to;
} topo_curve_t;

/*
 * Lay out a topology: hosts side by side, switches of the network above them, and within a host NICs, CPUs
 * and PCIe switches in rows above its devices, NVSwitches below. Devices that are linked directly stand in
 * squares where they are quads of a cube mesh, else on a circle. `room` is how far things are apart, 1 for a
 * picture that is looked at by itself. On failure nothing is left to release. Errors: NO_MEMORY.
 */
blink_result_t topo_layout_init(topo_layout_t *layout, const topo_t *topo, double room);
void topo_layout_fini(topo_layout_t *layout);

/* How a link is drawn: straight, or around the boxes that stand in its way. The two directions of a link go
 * the same way. */
topo_curve_t topo_layout_route(const topo_layout_t *layout, uint32_t from, uint32_t to);

/* The curve beside a curve, so far to the right of its way. */
topo_curve_t topo_curve_aside(const topo_curve_t *curve, double aside);

/* The path data of a curve: "M1 2Q3 4 5 6". */
void topo_layout_write_curve(topo_text_t *text, const topo_curve_t *curve);

/* The frames of hosts with their names, as SVG. */
void topo_layout_draw_frames(topo_text_t *text, const topo_layout_t *layout);

/* The node's box and its id, as SVG; `style` is attributes of the box, such as its stroke. */
void topo_layout_draw_node(topo_text_t *text, const topo_layout_t *layout, uint32_t node, const char *style);

/* Of a link's kind: colours that are told apart by the colour-blind, too. */
const char *topo_layout_colour(topo_link_kind_t kind);

#endif

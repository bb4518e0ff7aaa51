/*
 * Lays out a topology in rows: hosts are blocks side by side, with the network's switches above them. Within
 * a host the devices come first, and each row above and below stands over what its nodes are linked to, as in
 * the layered drawings of Sugiyama, Tagawa and Toda (1981) with one sweep outward from the devices.
 */
#include "topo/show/layout.h"

#include "error.h"
#include "topo/show/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW_PITCH      78.0 /* from row to row */
#define BOX_GAP        26.0 /* between boxes of a row */
#define SQUARE_WIDTH   96.0 /* of a quad, between boxes */
#define SQUARE_HEIGHT  118.0
#define SQUARE_GAP     110.0 /* between quads */
#define FRAME_ROOM     30.0  /* around the boxes of a host, also for links that go around boxes */
#define FRAME_HEAD     20.0  /* for the host's name */
#define HOST_GAP       34.0
#define ASPECT         1.5 /* of the picture, where hosts allow it */
#define NETWORK_ASPECT 4.0
#define HOSTS_ABREAST  4u
#define ROW_MOST       18u /* boxes beside each other */

typedef struct plotter {
    const topo_t *topo;
    topo_layout_t *layout;
    topo_rows_t rows;
    double room;
    bool *placed; /* by node */
} plotter_t;

static double between(const plotter_t *plotter, double distance)
{
    return plotter->room * distance;
}

/* Frames take no more room in a picture of wide distances. */
static double frame_room(const plotter_t *plotter)
{
    return fmin(plotter->room, 1) * FRAME_ROOM;
}

static double frame_head(const plotter_t *plotter)
{
    return fmin(plotter->room, 1) * FRAME_HEAD;
}

static double pitch_of(const plotter_t *plotter)
{
    return plotter->layout->box_width + fmax(8, between(plotter, BOX_GAP));
}

static void put(plotter_t *plotter, uint32_t node, double x, double y)
{
    plotter->layout->places[node] = (topo_place_t){x, y};
    plotter->placed[node] = true;
}

/* ---- devices ---- */

/* One beside the other; long rows are broken, and each stands between the boxes of the one above. Returns the
 * height. */
static double put_in_row(plotter_t *plotter, const uint32_t *nodes, uint32_t count, double y)
{
    double pitch = pitch_of(plotter), step = between(plotter, ROW_PITCH) / 1.5;
    uint32_t lines = (count + ROW_MOST - 1) / ROW_MOST, each = (count + lines - 1) / lines;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t line = i / each, first = line * each;
        uint32_t in_line = count - first < each ? count - first : each;
        put(plotter, nodes[i], pitch * (i - first - (in_line - 1) / 2.0 + (line % 2) * 0.5), y + line * step);
    }
    return (lines - 1) * step;
}

static double put_on_circle(plotter_t *plotter, const uint32_t *nodes, uint32_t count, double y)
{
    double radius = fmax(between(plotter, 130), count * (plotter->layout->box_width + 14) / (2 * M_PI));
    for (uint32_t i = 0; i < count; i++) {
        /* Turned by half a step, so that two are on top, and more can be reached from above. */
        double turn = 2 * M_PI * (i - 0.5) / count - M_PI / 2;
        put(plotter, nodes[i], radius * cos(turn), y + radius * (1 + sin(turn)));
    }
    return 2 * radius;
}

/* Each quad is a square, whose lower side is moved aside, so that its corners are reached from above. */
static double put_in_squares(plotter_t *plotter, const uint32_t *nodes, uint32_t count, double y)
{
    const topo_layout_t *layout = plotter->layout;
    double side = layout->box_width + between(plotter, SQUARE_WIDTH), aside = 0.75 * layout->box_width;
    double height = TOPO_BOX_HEIGHT + between(plotter, SQUARE_HEIGHT);
    double step = side + aside + layout->box_width + between(plotter, SQUARE_GAP);
    uint32_t quads = count / 4;
    for (uint32_t i = 0; i < count; i++) {
        /* Around the square from the upper left: down, right, up. */
        bool right = i % 4 >= 2, low = i % 4 == 1 || i % 4 == 2;
        double middle = step * (i / 4 - (quads - 1) / 2.0);
        put(plotter, nodes[i], middle + (right ? side : -side) / 2 + (low ? aside : -aside) / 2,
            y + (low ? height : 0));
    }
    return height;
}

static double put_devices(plotter_t *plotter, topo_block_t *block, double y)
{
    switch (topo_rows_shape(&plotter->rows, block)) {
    case TOPO_SQUARES:
        return put_in_squares(plotter, block->devices, block->device_count, y);
    case TOPO_CIRCLE:
        return put_on_circle(plotter, block->devices, block->device_count, y);
    default:
        return put_in_row(plotter, block->devices, block->device_count, y);
    }
}

/* ---- the rows above and below ---- */

typedef struct wish {
    uint32_t node;
    double x;
} wish_t;

static int compare_wishes(const void *one, const void *other)
{
    const wish_t *a = one, *b = other;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* The middle of what a node is linked to and that stands already; 0 where there is nothing. */
static double wanted_x(const plotter_t *plotter, uint32_t node)
{
    const topo_t *topo = plotter->topo;
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t j = topo->out_first[node]; j < topo->out_first[node + 1]; j++) {
        uint32_t next = topo->links[topo->out_links[j]].to;
        if (plotter->placed[next] && plotter->rows.block_of[next] == plotter->rows.block_of[node]) {
            sum += plotter->layout->places[next].x;
            count++;
        }
    }
    return count > 0 ? sum / count : 0;
}

/* Nodes of a row that are all linked to the same have no place of their own. */
static bool wish_the_same(const wish_t *wishes, uint32_t count, double pitch)
{
    return count > 1 && wishes[count - 1].x - wishes[0].x < pitch / 2;
}

/* As near to their wishes as boxes that do not touch can be; evenly over the width of the devices if they
 * have the same wishes. `wishes` is room for the row. */
static void put_near(plotter_t *plotter, const topo_row_t *row, double y, double width, wish_t *wishes)
{
    double pitch = pitch_of(plotter), x = -INFINITY, off = 0;
    for (uint32_t i = 0; i < row->count; i++)
        wishes[i] = (wish_t){row->nodes[i], wanted_x(plotter, row->nodes[i])};
    qsort(wishes, row->count, sizeof(*wishes), compare_wishes);
    bool spread = wish_the_same(wishes, row->count, pitch);
    for (uint32_t i = 0; spread && i < row->count; i++)
        wishes[i].x += width * ((i + 0.5) / row->count - 0.5);
    for (uint32_t i = 0; i < row->count; i++) {
        x = fmax(wishes[i].x, x + pitch);
        off += (x - wishes[i].x) / row->count;
        put(plotter, wishes[i].node, x, y);
    }
    for (uint32_t i = 0; i < row->count; i++)
        plotter->layout->places[wishes[i].node].x -= off;
}

/* ---- blocks ---- */

typedef struct box {
    double left, top, right, bottom;
} box_t;

static void widen(box_t *box, const topo_layout_t *layout, uint32_t node)
{
    const topo_place_t *place = &layout->places[node];
    box->left = fmin(box->left, place->x - layout->box_width / 2);
    box->right = fmax(box->right, place->x + layout->box_width / 2);
    box->top = fmin(box->top, place->y - TOPO_BOX_HEIGHT / 2.0);
    box->bottom = fmax(box->bottom, place->y + TOPO_BOX_HEIGHT / 2.0);
}

/* How far below the devices a row is, so that the flattest link to one of its boxes passes above the next,
 * and below the next of the devices where it begins. */
static double drop_to(const plotter_t *plotter, const topo_row_t *row, double width)
{
    double pitch = fmax(TOPO_BOX_HEIGHT + 12, between(plotter, ROW_PITCH));
    double beside = width / row->count - plotter->layout->box_width / 2;
    double beside_device = pitch_of(plotter) - plotter->layout->box_width / 2 - TOPO_CLEARANCE;
    double flattest = fmax(TOPO_BOX_HEIGHT / fmax(beside, 1),
                           (TOPO_BOX_HEIGHT / 2.0 + TOPO_CLEARANCE) / fmax(beside_device, 1));
    return fmax(pitch, fmin(width / 2, flattest * width));
}

/* Put a host's nodes around (0, 0). Rows above the devices go up from the lowest, those below go down, and
 * far enough for wide bundles of links. */
static box_t put_block(plotter_t *plotter, topo_block_t *block, wish_t *wishes)
{
    double pitch = fmax(TOPO_BOX_HEIGHT + 12, between(plotter, ROW_PITCH));
    double low = block->device_count > 0 ? put_devices(plotter, block, 0) : 0;
    box_t box = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (uint32_t i = 0; i < block->device_count; i++)
        widen(&box, plotter->layout, block->devices[i]);
    double width = block->device_count > 0 ? box.right - box.left : 0;
    for (uint32_t row = 0; row < block->above_count; row++)
        put_near(plotter, &block->above[row], -pitch * (row + 1), width, wishes);
    for (uint32_t row = 0; row < block->below_count; row++) {
        low += drop_to(plotter, &block->below[row], width);
        put_near(plotter, &block->below[row], low, width, wishes);
    }
    for (uint32_t i = 0; i < block->node_count; i++)
        widen(&box, plotter->layout, block->nodes[i]);
    return box;
}

static void move_block(plotter_t *plotter, const topo_block_t *block, double x, double y)
{
    for (uint32_t i = 0; i < block->node_count; i++) {
        plotter->layout->places[block->nodes[i]].x += x;
        plotter->layout->places[block->nodes[i]].y += y;
    }
}

static void add_frame(topo_layout_t *layout, const topo_block_t *block, double x, double y, double width,
                      double height)
{
    if (*block->host)
        layout->frames[layout->frame_count++] = (topo_frame_t){block->host, x, y, width, height};
}

/* Of hosts with a network few are side by side, so that its links run through no other host. */
static uint32_t host_columns(const plotter_t *plotter, double width, double height)
{
    uint32_t count = plotter->rows.block_count;
    bool networked = plotter->rows.network_count > 0;
    if (networked && count <= HOSTS_ABREAST)
        return count > 0 ? count : 1;
    double columns = round(sqrt((networked ? NETWORK_ASPECT : ASPECT) * count * height / width));
    return columns < 1 ? 1 : columns > count ? count : (uint32_t)columns;
}

/* All hosts have as much room as the largest. Returns how low they reach. */
static double put_blocks(plotter_t *plotter, box_t *boxes, wish_t *wishes, double top)
{
    topo_layout_t *layout = plotter->layout;
    uint32_t count = plotter->rows.block_count;
    double width = 0, height = 0;
    for (uint32_t i = 0; i < count; i++) {
        boxes[i] = put_block(plotter, &plotter->rows.blocks[i], wishes);
        width = fmax(width, boxes[i].right - boxes[i].left + 2 * frame_room(plotter));
        height = fmax(height, boxes[i].bottom - boxes[i].top + 2 * frame_room(plotter) + frame_head(plotter));
    }
    uint32_t columns = host_columns(plotter, width, height);
    for (uint32_t i = 0; i < count; i++) {
        double x = TOPO_MARGIN + i % columns * (width + HOST_GAP);
        double y = top + i / columns * (height + HOST_GAP);
        move_block(plotter, &plotter->rows.blocks[i], x + width / 2 - (boxes[i].left + boxes[i].right) / 2,
                   y + frame_head(plotter) + frame_room(plotter) - boxes[i].top);
        add_frame(layout, &plotter->rows.blocks[i], x, y, width, height);
    }
    layout->width = 2 * TOPO_MARGIN + columns * (width + HOST_GAP) - HOST_GAP;
    return top + (count + columns - 1) / columns * (height + HOST_GAP) - HOST_GAP;
}

/* The network's switches, level above level, each level in the middle. Returns how low they reach. */
static double network_height(const plotter_t *plotter)
{
    double pitch = fmax(TOPO_BOX_HEIGHT + 12, between(plotter, ROW_PITCH));
    return TOPO_MARGIN + plotter->rows.network_count * pitch;
}

static void put_network(plotter_t *plotter)
{
    double pitch = fmax(TOPO_BOX_HEIGHT + 12, between(plotter, ROW_PITCH));
    for (uint32_t level = 0; level < plotter->rows.network_count; level++) {
        const topo_row_t *row = &plotter->rows.network[level];
        double span = fmin(plotter->layout->width - 2 * TOPO_MARGIN, 3 * pitch_of(plotter) * row->count);
        span = fmax(span, pitch_of(plotter) * row->count);
        plotter->layout->width = fmax(plotter->layout->width, span + 2 * TOPO_MARGIN);
        for (uint32_t i = 0; i < row->count; i++)
            put(plotter, row->nodes[i], plotter->layout->width / 2 + span * ((i + 0.5) / row->count - 0.5),
                TOPO_MARGIN + TOPO_BOX_HEIGHT / 2.0 + pitch * (plotter->rows.network_count - 1 - level));
    }
}

static void lay_out(plotter_t *plotter, box_t *boxes, wish_t *wishes)
{
    topo_layout_t *layout = plotter->layout;
    layout->box_width = 40;
    for (uint32_t i = 0; i < plotter->topo->node_count; i++)
        layout->box_width = fmax(layout->box_width, 16 + 7.5 * (double)strlen(plotter->topo->nodes[i].id));
    layout->height = TOPO_MARGIN + put_blocks(plotter, boxes, wishes, network_height(plotter));
    put_network(plotter);
}

blink_result_t topo_layout_init(topo_layout_t *layout, const topo_t *topo, double room)
{
    plotter_t plotter = {.topo = topo, .layout = layout, .room = room};
    *layout = (topo_layout_t){.topo = topo};
    BLINK_TRY(topo_rows_init(&plotter.rows, topo));
    size_t nodes = (size_t)topo->node_count + 1;
    box_t *boxes = calloc(nodes, sizeof(*boxes));
    wish_t *wishes = calloc(nodes, sizeof(*wishes));
    plotter.placed = calloc(nodes, sizeof(*plotter.placed));
    layout->places = calloc(nodes, sizeof(*layout->places));
    layout->frames = calloc(nodes, sizeof(*layout->frames));
    blink_result_t result = BLINK_OK;
    if (boxes && wishes && plotter.placed && layout->places && layout->frames)
        lay_out(&plotter, boxes, wishes);
    else
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to lay out %u nodes", topo->node_count);
    free(boxes);
    free(wishes);
    free(plotter.placed);
    topo_rows_fini(&plotter.rows);
    if (result != BLINK_OK)
        topo_layout_fini(layout);
    return result;
}

void topo_layout_fini(topo_layout_t *layout)
{
    free(layout->places);
    free(layout->frames);
    layout->places = NULL;
    layout->frames = NULL;
}

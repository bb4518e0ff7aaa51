/*
 * Which node of a topology stands in which row of a picture: pure structure, without coordinates.
 */
#ifndef BLINK_TOPO_ROWS_H
#define BLINK_TOPO_ROWS_H

#include "topo/topo.h"

typedef struct topo_row {
    uint32_t *nodes; /* borrowed from topo_rows_t.sorted */
    uint32_t count;
} topo_row_t;

#define TOPO_ROWS_MOST 12u /* above or below; deeper switches share the outermost */

/* What devices look like: all arrays are in the order of the file. */
typedef enum topo_shape { TOPO_ROW, TOPO_CIRCLE, TOPO_SQUARES } topo_shape_t;

/* A host. */
typedef struct topo_block {
    const char *host; /* borrowed; empty: of nodes that name none */
    uint32_t *nodes;
    uint32_t node_count;
    uint32_t *devices; /* the first of `nodes`; quads adjoin where there are some */
    uint32_t device_count;
    topo_row_t above[TOPO_ROWS_MOST]; /* from the devices outward: PCIe switches, CPUs, NICs */
    topo_row_t below[TOPO_ROWS_MOST]; /* NVSwitches */
    uint32_t above_count, below_count;
} topo_block_t;

typedef struct topo_rows {
    const topo_t *topo;
    uint32_t *sorted;   /* all nodes, by block and row */
    uint32_t *block_of; /* by node; TOPO_NONE: of the network */
    uint32_t block_count;
    topo_block_t *blocks;
    topo_row_t network[TOPO_ROWS_MOST]; /* switches that are on no host, from the hosts outward */
    uint32_t network_count;
} topo_rows_t;

/* Errors: NO_MEMORY. */
blink_result_t topo_rows_init(topo_rows_t *rows, const topo_t *topo);
void topo_rows_fini(topo_rows_t *rows);

/* Squares, if the devices are quads, each linked completely, with few links between them, which puts quads
 * one after the other in `devices`; a circle if some are linked directly; else a row. */
topo_shape_t topo_rows_shape(const topo_rows_t *rows, topo_block_t *block);

#endif

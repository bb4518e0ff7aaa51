/*
 * One run of a lane program, as every executor is given it, and how it ended.
 */
#ifndef BLINK_EXEC_RUN_H
#define BLINK_EXEC_RUN_H

#include "exec/share.h"
#include "plan/lane/lane.h"

#include <stdatomic.h>

/* A run that has ended: no lane touches a buffer any more. */
typedef struct exec_end {
    void *context;         /* the run's */
    blink_result_t result; /* not BLINK_OK: why it failed; the thread's error text says more */
    uint64_t ns;           /* from exec_start() to the end; 0: not measured, as most of the shortest runs */
} exec_end_t;

typedef struct exec_wires exec_wires_t;

/*
 * Buffers are arrays of blocks of `count` elements; collective.h says of how many blocks, and what
 * stands where. Read: one block of the input of every rank, but all n for reducescatter and alltoall, those
 * of the root alone for broadcast (one) and scatter (n), one of the source for sendrecv. Written: one block
 * of the output of every rank, but all n for allgather and alltoall, those of the root alone for reduce (one)
 * and gather (n), one of the destination for sendrecv. Nothing else is touched. Buffers overlap only as
 * lane_verify() proves it right in place.
 */
typedef struct exec_run {
    /* Per rank; NULL where it is not read, or not written. On GPUs: addresses of the GPU worker; of a
     * program with wires, NULL where any bytes will do, as they do for a barrier. Copied at the start. */
    const void *const *inputs;
    void *const *outputs;
    /* Bytes from one block to the next in each rank's input and output; NULL: the blocks adjoin. Copied. */
    const uint64_t *input_strides, *output_strides;
    uint64_t count; /* elements of one block: of the payload where that is a single block */
    blink_datatype_t datatype;
    blink_redop_t redop; /* SUM where nothing is reduced */
    /* PRE_MUL_SUM: per rank, the bits of an element its input is multiplied by; else NULL. Copied. */
    const uint64_t *scalars;
    /* Counters for each link of the topology, borrowed until the run ends; may be NULL. */
    _Atomic uint64_t *comm_link_bytes;
    /* By link of the program's topology: which one of those counters, TOPO_NONE for a link of another host.
     * Borrowed as they are. NULL: they are the same. sent_link says it of what a rank of this host sends:
     * links between switches of the network count there, which belong to no host. */
    const uint32_t *own_link, *sent_link;
    exec_share_t *share;       /* whose workers and links, or GPUs, it takes; NULL: nobody's */
    bool starter_is_busy;      /* the thread that starts the run has more to do than to take part in it */
    const exec_wires_t *wires; /* of a program with wire lanes: the network's side (exec/wire.h); else NULL */
    /* Called with the run's end, on a thread of the executor's own or in a call of exec/wire.h, unless
     * exec_start() or exec_poll() tells the end: exactly one of the three does. Must not block. */
    void (*done)(const exec_end_t *end);
    void *context;
} exec_run_t;

#endif

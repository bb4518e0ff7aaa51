/*
 * blink-trace/1: the ops of a job, as blinkctl record writes them and blinkctl simulate --trace and
 * blink-perf --replay read them. A line of JSON each for the trace, for a communicator before its first op,
 * for an op once it has ended, in the order of their ends by communicator, and for the end of the trace
 * (docs/json.md).
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include "base/vec.h"
#include "blink/types.h"
#include "collective.h"

#define TRACE_SCHEMA "blink-trace/1"

/* Of one trace: what is written, and what is read. */
#define TRACE_OPS_MOST      1000000u
#define TRACE_ARRIVALS_MOST 16000000u

#define TRACE_NONE UINT32_MAX

/* Where a rank of a communicator is; TRACE_NONE: not known, as on another host. */
typedef struct trace_place {
    uint32_t device, client;
} trace_place_t;

typedef struct trace_comm {
    uint32_t number, rank_count, op_count;
    trace_place_t *places; /* by rank */
} trace_comm_t;

typedef struct trace_arrival {
    uint32_t rank;
    uint64_t at_us;
} trace_arrival_t;

typedef struct trace_op {
    uint32_t comm; /* index in comms */
    blink_collective_t collective;
    blink_datatype_t datatype;
    blink_redop_t redop; /* sum where nothing is reduced */
    uint32_t root, peer; /* 0 where it has none */
    uint32_t arrival_count;
    size_t arrival_first;
    uint64_t bytes, all_came_us, ended_us;
} trace_op_t;

typedef struct trace {
    VEC(trace_comm_t) comms;
    VEC(trace_op_t) ops; /* that succeeded */
    VEC(trace_arrival_t) arrivals;
    char *topology;                      /* the name of the one that was recorded on */
    uint64_t failed_count, missed_count; /* ops that are not here */
    double pace_scale;                   /* what links had of their capacity; 0: they were not paced */
    bool is_cut;                         /* it has no end: what is here is what came before it */
} trace_t;

/** What a trace calls a collective: as blinkctl ops does, so that a sendrecv is a "transfer". */
const char *trace_collective_name(blink_collective_t collective);

/** trace_free() also after a failure. Errors: SYSTEM (names the file), INVALID_ARGUMENT (names file and
 * line), UNSUPPORTED (another schema, a collective that is not known), NO_MEMORY. */
blink_result_t trace_read(const char *path, trace_t *trace);
void trace_free(trace_t *trace);

/** Say on standard error what is not in it: it was cut, ops that ended unseen, and those that failed. */
void trace_note_lacks(const char *program, const char *path, const trace_t *trace);

#endif

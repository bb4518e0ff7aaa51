/* Ops as tracks for Perfetto: one or more per rank, and those of the runs. */
#include "ctl/ops/ops.h"

#include <stdio.h>
#include <string.h>

/* Ops of a rank that overlap lie on tracks of their own, up to so many. */
#define LANES 16u

/* Whatever a daemon says. */
#define RANKS_MOST 65536u

/* The first track of a rank; those of the runs come before all ranks'. */
static uint32_t first_track(uint32_t rank)
{
    return (rank + 1) * LANES;
}

/* What is on the tracks of one rank, or of the runs. */
typedef struct lanes {
    uint64_t end_us[LANES];
    uint32_t used;
} lanes_t;

/* A lane that is free from this moment on. */
static uint32_t take_lane(lanes_t *lanes, uint64_t begin_us, uint64_t end_us)
{
    uint32_t lane = 0;
    while (lane + 1 < LANES && lane < lanes->used && lanes->end_us[lane] > begin_us)
        lane++;
    if (lane == lanes->used)
        lanes->used++;
    lanes->end_us[lane] = end_us;
    return lane;
}

typedef struct trace {
    const ops_t *ops;
    bool has_begun; /* some event has been printed */
    bool failed;
} trace_t;

/* Takes the reference. NULL is out of memory. */
static void put(trace_t *trace, json_t *event)
{
    if (!event) {
        trace->failed = true;
        return;
    }
    fputs(trace->has_begun ? ",\n" : "", stdout);
    json_dumpf(event, stdout, JSON_COMPACT);
    json_decref(event);
    trace->has_begun = true;
}

static void put_name(trace_t *trace, const char *of, uint32_t track, const char *name)
{
    put(trace, json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", of, "pid",
                         (json_int_t)trace->ops->comm, "tid", (json_int_t)track, "args", "name", name));
}

static void put_names(trace_t *trace, const lanes_t *lanes, uint32_t track, const char *name)
{
    for (uint32_t lane = 0; lane < lanes->used; lane++)
        put_name(trace, "thread_name", track + lane, name);
}

/* Takes the reference to args. */
static void put_span(trace_t *trace, const char *name, uint32_t track, uint64_t begin_us, uint64_t end_us,
                     json_t *args)
{
    put(trace, json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:o}", "ph", "X", "name", ctl_json_text(name), "pid",
                         (json_int_t)trace->ops->comm, "tid", (json_int_t)track, "ts", (json_int_t)begin_us,
                         "dur", (json_int_t)(end_us > begin_us ? end_us - begin_us : 0), "args", args));
}

static json_t *args_of(const Blinkwire__Op *op)
{
    return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I}", "bytes", (json_int_t)op->bytes, "doing",
                     ctl_json_text(op->doing), "plan_us", (json_int_t)op->plan_us, "client_us",
                     (json_int_t)op->client_us, "scratch_us", (json_int_t)op->scratch_us, "run_us",
                     (json_int_t)op->run_us);
}

static void name_op(const Blinkwire__Op *op, char text[64])
{
    snprintf(text, 64, "%s %lu", op->collective, (unsigned long)op->op);
}

/* From when the rank came until the op ended; in it, how long it waited for the last one. */
static void put_entry(trace_t *trace, const Blinkwire__Op *op, size_t entry, lanes_t *lanes)
{
    char name[64];
    uint64_t end_us = ops_end_us(trace->ops, op), begin_us = op->began_us + op->came_us[entry];
    size_t last = ops_last(op);
    uint32_t track = first_track(op->ranks[entry]) + take_lane(lanes, begin_us, end_us);
    name_op(op, name);
    put_span(trace, name, track, begin_us, end_us, args_of(op));
    bool is_last = op->came_us[last] == op->came_us[entry];
    uint64_t all_us = op->came_us[last] == OPS_NOT_COME ? end_us : op->began_us + op->came_us[last];
    snprintf(name, sizeof(name), "waits for rank %u", op->ranks[last]);
    if (!is_last)
        put_span(trace, name, track, begin_us, all_us < end_us ? all_us : end_us, json_object());
}

static void put_rank(trace_t *trace, uint32_t rank)
{
    lanes_t lanes = {.used = 0};
    char name[32];
    for (size_t i = 0; i < trace->ops->count; i++) {
        const Blinkwire__Op *op = trace->ops->ops[i];
        for (size_t entry = 0; entry < op->n_ranks && entry < op->n_came_us; entry++)
            if (op->ranks[entry] == rank && op->came_us[entry] != OPS_NOT_COME)
                put_entry(trace, op, entry, &lanes);
    }
    snprintf(name, sizeof(name), "rank %u", rank);
    put_names(trace, &lanes, first_track(rank), name);
}

/* Of an op of several runs they are shown as one, before its end. */
static void put_runs(trace_t *trace)
{
    lanes_t lanes = {.used = 0};
    char name[64];
    for (size_t i = 0; i < trace->ops->count; i++) {
        const Blinkwire__Op *op = trace->ops->ops[i];
        if (!ops_has_ended(op) || op->run_us == 0 || op->run_us > op->ended_us)
            continue;
        name_op(op, name);
        uint32_t lane = take_lane(&lanes, op->ended_us - op->run_us, op->ended_us);
        put_span(trace, name, lane, op->ended_us - op->run_us, op->ended_us, args_of(op));
    }
    put_names(trace, &lanes, 0, "runs");
}

/* The ranks that any op names go from 0 to one less than this. */
static uint32_t rank_limit(const ops_t *ops)
{
    uint32_t limit = 0;
    for (size_t i = 0; i < ops->count; i++) {
        for (size_t entry = 0; entry < ops->ops[i]->n_ranks; entry++)
            if (ops->ops[i]->ranks[entry] >= limit && ops->ops[i]->ranks[entry] < RANKS_MOST)
                limit = ops->ops[i]->ranks[entry] + 1;
    }
    return limit;
}

blink_result_t ops_print_chrome(const ops_t *ops)
{
    trace_t trace = {.ops = ops};
    char name[64];
    uint32_t limit = rank_limit(ops);
    snprintf(name, sizeof(name), "communicator %u", ops->comm);
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", stdout);
    put_name(&trace, "process_name", 0, name);
    put_runs(&trace);
    for (uint32_t rank = 0; rank < limit; rank++)
        put_rank(&trace, rank);
    fputs("\n]}\n", stdout);
    return trace.failed ? BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print a trace") : BLINK_OK;
}

/* blinkctl simulate: its options, and the sweep over sizes and algorithms. */
#include "simulate.h"

#include "base/command_line.h"
#include "ctl.h"
#include "names.h"
#include "request.h"
#include "tools/arguments.h"
#include "tools/file.h"
#include "trace/predict_report.h"
#include "trace/schedule.h"

#include "base/value.h"
#include "collective.h"
#include "sim/goal.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MIN_BYTES ((uint64_t)1 << 10)
#define DEFAULT_MAX_BYTES ((uint64_t)1 << 30)
#define DEFAULT_FACTOR    4
#define SLOTS_MAX         4096

enum {
    KEY_FACTOR = 'f',
    KEY_PROTOCOL = 256,
    KEY_CHUNK,
    KEY_SLOTS,
    KEY_REDUCE,
    KEY_CSV,
    KEY_SVG,
    KEY_GOAL,
    KEY_TRACE,
    KEY_PACE
};

typedef struct simulate_options {
    ctl_options_t *common;
    request_t request;
    uint64_t min_bytes, max_bytes, factor; /* bytes 0: not given */
    bool protocol_given;
    blink_protocol_t protocol;
    uint64_t chunk_bytes; /* 0: chosen */
    uint32_t slots;       /* 0: chosen */
    double reduce_GBps;
    double pace_scale; /* of a trace */
    bool csv;
    const char *svg_path, *goal_path, *trace_path;
} simulate_options_t;

/* ---- command line ---- */

/* The ops of a trace say what they are. */
static void check_trace_options(struct argp_state *state, const simulate_options_t *options)
{
    const request_t *request = &options->request;
    if (request->bytes > 0 || options->min_bytes > 0 || options->max_bytes > 0 || request->root ||
        request->peer)
        argp_error(state,
                   "--trace FILE has sizes, roots and peers: not with --bytes, --min-bytes, --max-bytes, "
                   "--root or --peer");
    if (options->csv || options->svg_path)
        argp_error(state, "--trace prints a table or --json: not with --csv or --svg");
    if (request->algorithm_count > 1)
        argp_error(state, "--trace is predicted with one algorithm at a time");
}

static void finish_options(struct argp_state *state, simulate_options_t *options)
{
    if (options->trace_path)
        check_trace_options(state, options);
    else if (options->pace_scale != 1)
        argp_error(state, "--pace is for --trace FILE");
    if (options->request.bytes > 0 && (options->min_bytes > 0 || options->max_bytes > 0))
        argp_error(state, "--bytes is one size: not with --min-bytes or --max-bytes");
    if (options->request.bytes > 0)
        options->min_bytes = options->max_bytes = options->request.bytes;
    if (options->min_bytes == 0)
        options->min_bytes = options->max_bytes > 0 && options->max_bytes < DEFAULT_MIN_BYTES
                                 ? options->max_bytes
                                 : DEFAULT_MIN_BYTES;
    if (options->max_bytes == 0)
        options->max_bytes = options->min_bytes > DEFAULT_MAX_BYTES ? options->min_bytes : DEFAULT_MAX_BYTES;
    if (options->min_bytes > options->max_bytes)
        argp_error(state, "--min-bytes is more than --max-bytes");
    if (options->goal_path && !options->trace_path &&
        (options->min_bytes != options->max_bytes || options->request.algorithm_count > 1))
        argp_error(state, "--goal writes the schedule of one size and one algorithm: give --bytes");
    if (options->csv && options->common->json)
        argp_error(state, "--csv or --json, not both");
}

static error_t parse_output(int key, char *argument, struct argp_state *state)
{
    simulate_options_t *options = state->input;
    switch (key) {
    case KEY_CSV:
        options->csv = true;
        return 0;
    case KEY_SVG:
        options->svg_path = argument;
        return 0;
    case KEY_GOAL:
        options->goal_path = argument;
        return 0;
    case KEY_TRACE:
        options->trace_path = argument;
        return 0;
    case KEY_PACE:
        if (!value_parse_positive(argument, DBL_MAX, &options->pace_scale))
            argp_error(state, "--pace %s: a number above 0", argument);
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->request;
        state->child_inputs[1] = options->common;
        return 0;
    case ARGP_KEY_END:
        finish_options(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_simulate(int key, char *argument, struct argp_state *state)
{
    simulate_options_t *options = state->input;
    switch (key) {
    case 'b':
        options->min_bytes = argument_bytes(state, "--min-bytes", argument, 1);
        return 0;
    case 'e':
        options->max_bytes = argument_bytes(state, "--max-bytes", argument, 1);
        return 0;
    case KEY_FACTOR:
        options->factor = argument_number(state, "--factor", argument, 2, UINT32_MAX);
        return 0;
    case KEY_PROTOCOL:
        options->protocol_given = true;
        options->protocol = argument_protocol(state, "--protocol", argument);
        return 0;
    case KEY_CHUNK:
        options->chunk_bytes = argument_bytes(state, "--chunk", argument, 1);
        return 0;
    case KEY_SLOTS:
        options->slots = (uint32_t)argument_number(state, "--slots", argument, 1, SLOTS_MAX);
        return 0;
    case KEY_REDUCE:
        if (!value_parse_positive(argument, DBL_MAX, &options->reduce_GBps))
            argp_error(state, "--reduce-gbps %s: a number above 0", argument);
        return 0;
    default:
        return parse_output(key, argument, state);
    }
}

static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "At which sizes, and how:", 1},
    {"min-bytes", 'b', "SIZE", 0, "Smallest payload (default 1K)", 1},
    {"max-bytes", 'e', "SIZE", 0, "Largest payload (default 1G, or the smallest if that is larger)", 1},
    {"factor", KEY_FACTOR, "FACTOR", 0, "Factor between sizes (default 4)", 1},
    {"protocol", KEY_PROTOCOL, "NAME", 0, "simple, ll or ll128 (default: the plan's)", 1},
    {"chunk", KEY_CHUNK, "SIZE", 0, "Chunk of the largest channel (default: chosen for the size)", 1},
    {"slots", KEY_SLOTS, "COUNT", 0, "Chunks that an edge holds (default: chosen)", 1},
    {"reduce-gbps", KEY_REDUCE, "GB/S", 0, "What a device reads while it copies or reduces (default 2000)",
     1},
    {NULL, 0, NULL, 0, "What to show (default: tables):", 2},
    {"csv", KEY_CSV, NULL, 0, "Print a line per size and algorithm, with a column per link", 2},
    {"svg", KEY_SVG, "FILE", 0, "Also plot bus bandwidth and time over size", 2},
    {"goal", KEY_GOAL, "FILE", 0,
     "Also write the schedule of the one --bytes, or of --trace, as GOAL, which LogGOPSim and ATLAHS replay",
     2},
    {"trace", KEY_TRACE, "FILE", 0,
     "Instead predict the ops of a job, which `blinkctl record` has written: a rank is where the list of "
     "--ranks or the topology has its device",
     2},
    {"pace", KEY_PACE, "SCALE", 0,
     "With --trace: links have so much of their capacity, as those of `blinkd --pace` (default 1)", 2},
    {0},
};

static const char DOC[] =
    "Sweep sizes on virtual clocks over the programs that the executors run: time, bandwidths as nccl-tests "
    "defines them, and how busy each link is. Several algorithms, with commas between them, are compared. "
    "Without --topology they run on the running daemon's topology."
    "\v"
    "Times are launch plus transfers: a hop's cost by protocol and kind of link as NCCL's model has it, the "
    "links' "
    "latencies and capacities, and what devices read. One run takes at most 50000000 steps.\n";

/* ---- one size ---- */

/* Who receives has more to do where data come with flags: the program is another one. */
static blink_result_t name_protocol(const simulate_options_t *options, plan_t *plan)
{
    if (!options->protocol_given)
        return BLINK_OK;
    if (plan->algorithm == BLINK_ALGORITHM_MULTICAST && options->protocol != BLINK_PROTOCOL_SIMPLE)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "--protocol %s: multicast has no protocol but simple",
                          blink_name_protocol(options->protocol));
    plan->protocol = options->protocol;
    return BLINK_OK;
}

/* Plan, unless the plan at hand does not depend on the size; *program is as old as *plan. */
static blink_result_t compile(const topo_t *topo, const plan_request_t *request,
                              const simulate_options_t *options, plan_t **plan, lane_program_t **program)
{
    if (*plan && request->algorithm != BLINK_ALGORITHM_AUTO)
        return BLINK_OK;
    lane_program_destroy(*program);
    plan_destroy(*plan);
    *program = NULL;
    *plan = NULL;
    plan_t *templates, *all;
    BLINK_TRY(plan_create(topo, request, &templates));
    /* Nearly every edge has a step. */
    blink_result_t result = sim_check_step_count(plan_edge_count(templates));
    if (result == BLINK_OK && templates->symmetry_count > 0) {
        result = plan_expand(topo, templates, &all);
        if (result == BLINK_OK) {
            plan_destroy(templates);
            templates = all;
        }
    }
    if (result == BLINK_OK)
        result = name_protocol(options, templates);
    if (result == BLINK_OK)
        result = lane_compile(topo, templates, NULL, program);
    if (result == BLINK_OK)
        *plan = templates;
    else
        plan_destroy(templates);
    return result;
}

static blink_result_t write_goal(const topo_t *topo, const lane_geometry_t *geometry,
                                 const simulate_options_t *options)
{
    file_t file;
    BLINK_TRY(file_begin(options->goal_path, &file));
    return file_end(&file, goal_write(topo, geometry, options->reduce_GBps, file.out));
}

static blink_result_t bind_size(const plan_t *plan, const lane_program_t *program,
                                const simulate_options_t *options, uint64_t bytes, lane_geometry_t *geometry)
{
    uint64_t blocks = collective_block_count(plan->collective, plan->rank_count);
    return lane_geometry_init(program, (bytes + blocks - 1) / blocks, options->chunk_bytes, options->slots,
                              geometry);
}

/* Run one size of a compiled plan. */
static blink_result_t run_size(const topo_t *topo, const plan_t *plan, const lane_program_t *program,
                               const simulate_options_t *options, uint64_t bytes, simulate_point_t *point)
{
    uint64_t blocks = collective_block_count(plan->collective, plan->rank_count);
    lane_geometry_t geometry;
    BLINK_TRY(bind_size(plan, program, options, bytes, &geometry));
    *point = (simulate_point_t){.algorithm = plan->algorithm,
                                .protocol = program->protocol,
                                .bytes = (bytes + blocks - 1) / blocks * blocks,
                                .slots = geometry.slots,
                                .plan_GBps = plan->rate_GBps};
    for (uint32_t i = 0; i < program->channel_count; i++)
        if (geometry.channels[i].chunk_bytes > point->chunk_bytes)
            point->chunk_bytes = geometry.channels[i].chunk_bytes;
    blink_result_t result = sim_run(topo, &geometry, options->reduce_GBps, &point->result);
    if (result == BLINK_OK && options->goal_path && !options->trace_path)
        result = write_goal(topo, &geometry, options);
    lane_geometry_fini(&geometry);
    point->algbw_GBps = (double)point->bytes / point->result.time_us / 1e3;
    point->busbw_GBps = point->algbw_GBps * collective_busbw_factor(plan->collective, plan->rank_count);
    return result;
}

/* ---- the sweep ---- */

static blink_result_t run_curve(const simulation_t *simulation, const simulate_options_t *options,
                                uint32_t curve)
{
    plan_request_t request = *simulation->request;
    request.algorithm = simulation->algorithms[curve];
    plan_t *plan = NULL;
    lane_program_t *program = NULL;
    blink_result_t result = BLINK_OK;
    uint64_t bytes = options->min_bytes;
    for (uint32_t i = 0; result == BLINK_OK && i < simulation->size_count; i++, bytes *= options->factor) {
        request.bytes = bytes;
        result = compile(simulation->topo, &request, options, &plan, &program);
        if (result == BLINK_OK)
            result = run_size(simulation->topo, plan, program, options, bytes,
                              &simulation->points[(size_t)curve * simulation->size_count + i]);
    }
    lane_program_destroy(program);
    plan_destroy(plan);
    return result;
}

static uint32_t count_sizes(const simulate_options_t *options)
{
    uint32_t count = 1;
    for (uint64_t bytes = options->min_bytes; bytes <= options->max_bytes / options->factor;
         bytes *= options->factor)
        count++;
    return count;
}

static blink_result_t draw(const simulation_t *simulation, const char *path)
{
    file_t file;
    BLINK_TRY(file_begin(path, &file));
    simulate_draw(simulation, file.out);
    return file_end(&file, BLINK_OK);
}

static blink_result_t show(const simulation_t *simulation, const simulate_options_t *options)
{
    if (options->svg_path)
        BLINK_TRY(draw(simulation, options->svg_path));
    if (options->common->json)
        return simulate_print_json(simulation);
    if (!options->csv)
        return simulate_print_table(simulation);
    simulate_print_csv(simulation);
    return BLINK_OK;
}

static blink_result_t sweep(const request_case_t *opened, const simulate_options_t *options)
{
    simulation_t simulation = {.topo = opened->topo,
                               .request = &opened->plan,
                               .algorithms = options->request.algorithms,
                               .curve_count = options->request.algorithm_count,
                               .size_count = count_sizes(options)};
    size_t points = (size_t)simulation.curve_count * simulation.size_count;
    simulation.points = calloc(points, sizeof(*simulation.points));
    if (!simulation.points)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu simulations", points);
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; result == BLINK_OK && i < simulation.curve_count; i++)
        result = run_curve(&simulation, options, i);
    if (result == BLINK_OK)
        result = show(&simulation, options);
    for (size_t i = 0; i < points; i++)
        sim_result_fini(&simulation.points[i].result);
    free(simulation.points);
    return result;
}

/* ---- a trace ---- */

typedef struct timing {
    const topo_t *topo;
    const simulate_options_t *options;
    goal_links_t *links; /* NULL: no schedule is written */
} timing_t;

/* The program is the schedule's from now on. */
static blink_result_t make_schedule(const timing_t *timing, const plan_t *plan, lane_program_t *program,
                                    uint64_t bytes, schedule_t **made)
{
    schedule_t *schedule = calloc(1, sizeof(*schedule));
    if (!schedule) {
        lane_program_destroy(program);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a schedule");
    }
    schedule->program = program;
    blink_result_t result = bind_size(plan, program, timing->options, bytes, &schedule->geometry);
    if (result == BLINK_OK)
        result =
            goal_create(timing->links, &schedule->geometry, timing->options->reduce_GBps, &schedule->goal);
    if (result == BLINK_OK)
        *made = schedule;
    else
        schedule_free(schedule);
    return result;
}

static blink_result_t time_op(void *context, const plan_request_t *request, predict_kind_t *kind)
{
    const timing_t *timing = context;
    plan_t *plan = NULL;
    lane_program_t *program = NULL;
    simulate_point_t point = {0};
    blink_result_t result = compile(timing->topo, request, timing->options, &plan, &program);
    if (result == BLINK_OK)
        result = run_size(timing->topo, plan, program, timing->options, request->bytes, &point);
    kind->each_us = point.result.time_us / timing->options->pace_scale;
    sim_result_fini(&point.result);
    if (result == BLINK_OK && timing->links)
        result = make_schedule(timing, plan, program, request->bytes, &kind->schedule);
    else
        lane_program_destroy(program);
    plan_destroy(plan);
    return result;
}

static void note_pace(const char *path, const trace_t *trace)
{
    if (trace->pace_scale > 0 && trace->pace_scale != 1)
        fprintf(stderr,
                "blinkctl: %s was recorded with links paced at %g of their capacity, and is predicted at all "
                "of it; --pace %g predicts it so\n",
                path, trace->pace_scale, trace->pace_scale);
}

static blink_result_t show_prediction(const request_case_t *opened, const simulate_options_t *options,
                                      const trace_t *trace, const prediction_t *prediction)
{
    file_t file;
    if (options->goal_path) {
        BLINK_TRY(file_begin(options->goal_path, &file));
        BLINK_TRY(file_end(&file, schedule_write(trace, prediction, file.out)));
    }
    return options->common->json ? predict_print_json(trace, prediction, opened->topo->name)
                                 : predict_print_table(trace, prediction, opened->topo->name);
}

static blink_result_t predict_trace(const request_case_t *opened, const simulate_options_t *options)
{
    timing_t timing = {opened->topo, options, NULL};
    trace_t trace;
    prediction_t prediction = {0};
    blink_result_t result = trace_read(options->trace_path, &trace);
    if (result == BLINK_OK && options->goal_path)
        result = goal_links_create(opened->topo, &timing.links);
    if (result == BLINK_OK) {
        if (options->pace_scale == 1)
            note_pace(options->trace_path, &trace);
        trace_note_lacks("blinkctl", options->trace_path, &trace);
        result = predict(&trace, &opened->plan, time_op, &timing, &prediction);
    }
    if (result == BLINK_OK)
        result = show_prediction(opened, options, &trace, &prediction);
    goal_links_destroy(timing.links);
    prediction_free(&prediction);
    trace_free(&trace);
    return result;
}

blink_result_t ctl_simulate(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_child children[] = {
        {&request_argp, 0, NULL, 0}, {&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = option_list, .parser = parse_simulate, .doc = DOC, .children = children};
    simulate_options_t options = {.common = common,
                                  .request = request_default,
                                  .factor = DEFAULT_FACTOR,
                                  .reduce_GBps = SIM_REDUCE_GBPS,
                                  .pace_scale = 1};
    options.request.common = common;
    command_line_parse(&argp, argc, argv, 0, &options);

    request_case_t opened;
    BLINK_TRY(request_open(&options.request, &opened));
    blink_result_t result = options.trace_path ? predict_trace(&opened, &options) : sweep(&opened, &options);
    plan_thread_release();
    request_close(&opened);
    return result;
}

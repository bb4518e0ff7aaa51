/* blinkctl explain: which algorithm and protocol are chosen for a size, against which others, and where that
 * changes. */
#include "ctl.h"

#include "base/command_line.h"
#include "collective.h"
#include "explain_comm.h"
#include "names.h"
#include "plan/baseline/nccl/nccl_model.h"
#include "plan/bytes/bytes.h"
#include "plan/choose.h"
#include "plan/show/ideal.h"
#include "plan/show/limit.h"
#include "plan/show/phases.h"
#include "plan/show/ways.h"
#include "request.h"
#include "tools/arguments.h"
#include "tools/human.h"
#include "tools/table.h"
#include "topo/rates.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BYTES        (64u << 20)
#define CROSSOVER_FROM_BYTES (1u << 10)
#define CROSSOVER_TO_BYTES   (1u << 30)
#define BYTES_PER_US_GBps    1e3
#define BOUNDS_AGREE         1e-6

typedef struct explain_options {
    ctl_options_t *common;
    request_t request;
    uint32_t comm; /* a live communicator; 0: none */
} explain_options_t;

enum { KEY_COMM = 2000 };

static error_t parse_explain(int key, char *argument, struct argp_state *state)
{
    explain_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->common;
        state->child_inputs[1] = &options->request;
        return 0;
    case KEY_COMM:
        options->comm = argument_comm(state, "--comm", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->request.algorithms[0] != BLINK_ALGORITHM_AUTO)
            argp_error(state,
                       "--algorithm: explain compares all algorithms; blinkctl plan --algorithm plans by "
                       "the one that is named");
        if (options->comm > 0 && options->request.is_given)
            argp_error(state, "--comm shows what live ops have run by; it takes none of the options that say "
                              "what to plan, such as --topology, --collective and --bytes");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- what is answered ---- */

typedef struct explanation {
    const topo_t *topo;
    const plan_request_t *request;
    bool line_rates; /* the machine is named, and not as GPUs use it */
    plan_choice_t choice;
    plan_crossover_t *crossovers;
    uint32_t crossover_count;
    ideal_t ideal;
    /* The bound as if switches that reduce did so; 0: none does. */
    double multicast_bound_GBps;
    uint32_t peers; /* other hosts that a host exchanges data with, at most */
    char *limit;    /* what limits the plan, lines of text */
    char *phases;   /* of a plan of several hosts, a line of text; may be empty */
    char *ways;     /* of a plan for devices some of which are no peers, lines of text; else empty */
    /* What NCCL would do by its own model, where it does the collective and finds rings here. */
    bool has_nccl;
    nccl_graph_t nccl_graph;
    nccl_prediction_t nccl;
} explanation_t;

/* What NCCL's own cost model would choose here; left out where it has nothing to say. */
static blink_result_t ask_nccl(explanation_t *e)
{
    const plan_request_t *request = e->request;
    if (request->rank_count < 2)
        return BLINK_OK;
    nccl_generation_t generation = nccl_guess_generation(e->topo, request->rank_node, request->rank_count);
    blink_result_t result =
        nccl_find_graph(e->topo, request->rank_node, request->rank_count, generation, &e->nccl_graph);
    if (result == BLINK_OK)
        result = nccl_choose(&e->nccl_graph, request->collective, request->bytes, &e->nccl);
    e->has_nccl = result == BLINK_OK;
    return result == BLINK_ERR_UNREACHABLE || result == BLINK_ERR_UNSUPPORTED ? BLINK_OK : result;
}

static blink_result_t explain(explanation_t *e)
{
    BLINK_TRY(plan_choose(e->topo, e->request, &e->choice));
    BLINK_TRY(plan_choice_crossovers(&e->choice, CROSSOVER_FROM_BYTES, CROSSOVER_TO_BYTES, &e->crossovers,
                                     &e->crossover_count));
    BLINK_TRY(ask_nccl(e));
    BLINK_TRY(ideal_find(e->topo, e->request->collective, e->request->rank_node, e->request->rank_count,
                         &e->ideal));
    if (topo_has_reducing_switch(e->topo))
        BLINK_TRY(plan_multicast_bound_GBps(e->topo, e->choice.best, &e->multicast_bound_GBps));
    BLINK_TRY(plan_peers_most(e->topo, e->choice.best, &e->peers));
    BLINK_TRY(plan_phases_describe(e->topo, e->choice.best, &e->phases));
    BLINK_TRY(plan_ways_describe(e->topo, e->choice.best, &e->ways));
    return plan_limit_describe(e->topo, e->choice.best, &e->limit);
}

static void explanation_fini(explanation_t *e)
{
    plan_choice_fini(&e->choice);
    free(e->crossovers);
    free(e->limit);
    free(e->phases);
    free(e->ways);
}

static double busbw_GBps(const explanation_t *e, const plan_candidate_t *candidate)
{
    return (double)e->request->bytes / (BYTES_PER_US_GBps * candidate->predicted_us) *
           collective_busbw_factor(e->request->collective, e->request->rank_count);
}

static double percent_of_bound(const plan_t *plan)
{
    return plan->bound_GBps > 0.0 ? 100.0 * plan->rate_GBps / plan->bound_GBps : 100.0;
}

/* Of so much payload a second. */
static double as_busbw_GBps(const explanation_t *e, double GBps)
{
    return GBps * collective_busbw_factor(e->choice.best->collective, e->choice.best->rank_count);
}

/* Of the plan once its pipeline is full: what the ideal is compared with. */
static double plan_busbw_GBps(const explanation_t *e)
{
    return as_busbw_GBps(e, e->choice.best->rate_GBps);
}

/* Of one rank there is no ideal. */
static bool has_ideal(const explanation_t *e)
{
    return e->ideal.busbw_GBps > 0.0;
}

static double efficiency(const explanation_t *e)
{
    return plan_busbw_GBps(e) / e->ideal.busbw_GBps;
}

/* The fastest candidate of another algorithm, or NULL. */
static const plan_candidate_t *runner_up(const plan_choice_t *choice)
{
    for (uint32_t i = 1; i < choice->count && choice->candidates[i].result == BLINK_OK; i++)
        if (choice->candidates[i].algorithm != choice->candidates[0].algorithm)
            return &choice->candidates[i];
    return NULL;
}

/* ---- for people ---- */

/* Where other candidates count as equal to the chosen one, which may not be the one with the least time. */
static void print_tie(const plan_choice_t *choice)
{
    const plan_candidate_t *best = &choice->candidates[0];
    double least_us = best->predicted_us;
    uint32_t equals = 0;
    for (uint32_t i = 1; i < choice->count && choice->candidates[i].result == BLINK_OK; i++)
        least_us = fmin(least_us, choice->candidates[i].predicted_us);
    for (uint32_t i = 1; i < choice->count && choice->candidates[i].result == BLINK_OK; i++)
        equals += choice->candidates[i].predicted_us <= least_us * (1.0 + PLAN_CHOOSE_TIE);
    if (equals > 0)
        printf(
            "predictions within %g %% of the least count as equal: of these, %s, %s comes first in a fixed "
            "order\n",
            100 * PLAN_CHOOSE_TIE, blink_name_algorithm(best->algorithm),
            blink_name_protocol(best->protocol));
}

static void print_choice(const explanation_t *e)
{
    char bytes[HUMAN_BYTES], total[HUMAN_BYTES], latency[HUMAN_BYTES], other[HUMAN_BYTES];
    const plan_candidate_t *best = &e->choice.candidates[0], *second = runner_up(&e->choice);
    printf("%s of %s on %s, %u rank%s: %s, %s\n", blink_name_collective(e->request->collective),
           human_bytes(e->request->bytes, bytes), e->topo->name, e->request->rank_count,
           human_plural(e->request->rank_count), blink_name_algorithm(best->algorithm),
           blink_name_protocol(best->protocol));
    printf("predicted %s us: launch and hops %s us, the rest moving bytes",
           human_number(best->predicted_us, total), human_number(best->latency_us, latency));
    if (second)
        printf("; next is %s, %s, with %s us (x %.2f)", blink_name_algorithm(second->algorithm),
               blink_name_protocol(second->protocol), human_number(second->predicted_us, other),
               second->predicted_us / best->predicted_us);
    putchar('\n');
    print_tie(&e->choice);
}

static bool uses_nvlink(const explanation_t *e)
{
    const plan_t *plan = e->choice.best;
    for (uint32_t i = 0; i < plan->path_count; i++)
        for (uint32_t j = 0; j < plan->paths[i].link_count; j++)
            if (topo_is_nvlink(&e->topo->links[plan->paths[i].links[j]]))
                return true;
    return false;
}

/* The ideal is a yardstick, and no bound (plan/show/ideal.h). */
static void print_beyond_ideal(const explanation_t *e)
{
    if (!has_ideal(e) || efficiency(e) <= 1.0 + BOUNDS_AGREE)
        return;
    if (e->choice.best->algorithm == BLINK_ALGORITHM_MULTICAST)
        puts("More than the ideal, which does not count on switches that reduce and copy");
    else
        puts(
            "More than the ideal, for which all ranks send as much as the one with the slowest links can: by "
            "this plan some ranks send more than others");
}

/* What the limit of peers costs is what another plan would have been like. */
static void print_peers(const explanation_t *e)
{
    char text[HUMAN_BYTES];
    const plan_candidate_t *best = &e->choice.candidates[0], *unlimited = &e->choice.unlimited;
    if (e->peers > 0)
        printf("hosts exchange data with %u other%s at most\n", e->peers, human_plural(e->peers));
    if (unlimited->result == BLINK_OK && unlimited->contender != best->contender)
        printf("without the limit of %u peer%s: %s, %s, with %u peers, %s us (x %.2f), rate %.3f GB/s, "
               "depth %u instead of %u\n",
               e->request->peers_most, human_plural(e->request->peers_most),
               blink_name_algorithm(unlimited->algorithm), blink_name_protocol(unlimited->protocol),
               e->choice.contenders[unlimited->contender].peers, human_number(unlimited->predicted_us, text),
               unlimited->predicted_us / best->predicted_us, unlimited->rate_GBps, unlimited->depth,
               best->depth);
}

/* Only where it makes a difference. */
static void print_multicast(const explanation_t *e)
{
    double bound_GBps = e->multicast_bound_GBps;
    if (bound_GBps > e->choice.best->bound_GBps * (1.0 + BOUNDS_AGREE))
        printf("%s has switches that reduce and copy. Plans that make use of that have the bound "
               "%.3f GB/s, bus bandwidth %.3f GB/s%s\n",
               e->topo->name, bound_GBps, as_busbw_GBps(e, bound_GBps),
               e->request->multicast ? "" : ": see --multicast");
}

static void print_plan(const explanation_t *e)
{
    char bytes[HUMAN_BYTES];
    const plan_t *plan = e->choice.best;
    uint64_t digest;
    if (plan_digest(e->topo, plan, &digest) == BLINK_OK)
        printf("plan %s\n", plan_digest_text(digest, bytes));
    printf("rate %.3f GB/s, proven bound %.3f GB/s (%.1f%%)\n", plan->rate_GBps, plan->bound_GBps,
           percent_of_bound(plan));
    printf("%s %" PRIu64 ", channels %" PRIu64 ", depth %u, chunks of %s\n",
           collective_routes(plan->collective) ? "routes" : "trees", plan_tree_count(plan),
           e->choice.candidates[0].channel_count, e->choice.candidates[0].depth,
           human_bytes(e->choice.candidates[0].chunk_bytes, bytes));
    if (has_ideal(e))
        printf("bus bandwidth %.3f GB/s, %.1f%% of the ideal %.3f GB/s\n", plan_busbw_GBps(e),
               100.0 * efficiency(e), e->ideal.busbw_GBps);
    print_beyond_ideal(e);
    if (e->line_rates && uses_nvlink(e))
        printf("That is at NVLink's line rate, of which GPUs reach about %.0f%%: see --gpus\n",
               100.0 * TOPO_NVLINK_REACHED);
    print_multicast(e);
    fputs(e->phases, stdout);
    fputs(e->ways, stdout);
    print_peers(e);
    fputs(e->limit, stdout);
}

static blink_result_t print_candidates(const explanation_t *e)
{
    static const char *const headers[] = {"algorithm", "protocol", "us",    "hops us", "busbw GB/s",
                                          "rate GB/s", "channels", "depth", "chunk"};
    char text[HUMAN_BYTES];
    table_t *table = table_create("llnnnnrrr", headers);
    for (uint32_t i = 0; i < e->choice.count && e->choice.candidates[i].result == BLINK_OK; i++) {
        const plan_candidate_t *candidate = &e->choice.candidates[i];
        table_cell(table, "%s", blink_name_algorithm(candidate->algorithm));
        table_cell(table, "%s", blink_name_protocol(candidate->protocol));
        table_cell(table, "%s", human_number(candidate->predicted_us, text));
        table_cell(table, "%s", human_number(candidate->latency_us, text));
        table_cell(table, "%s", human_number(busbw_GBps(e, candidate), text));
        table_cell(table, "%s", human_number(candidate->rate_GBps, text));
        table_cell(table, "%" PRIu64, candidate->channel_count);
        table_cell(table, "%u", candidate->depth);
        table_cell(table, "%s", human_bytes(candidate->chunk_bytes, text));
    }
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

static void print_refused(const explanation_t *e)
{
    for (uint32_t i = 0; i < e->choice.count; i++) {
        const plan_candidate_t *candidate = &e->choice.candidates[i];
        if (candidate->result != BLINK_OK)
            printf("not %s, %s: %s\n", blink_name_algorithm(candidate->algorithm),
                   blink_name_protocol(candidate->protocol), candidate->text);
    }
}

static blink_result_t print_crossovers(const explanation_t *e)
{
    static const char *const headers[] = {"from", "algorithm", "protocol", "us"};
    char text[HUMAN_BYTES];
    table_t *table = table_create("rlln", headers);
    for (uint32_t i = 0; i < e->crossover_count; i++) {
        table_cell(table, "%s", human_bytes(e->crossovers[i].bytes, text));
        table_cell(table, "%s", blink_name_algorithm(e->crossovers[i].algorithm));
        table_cell(table, "%s", blink_name_protocol(e->crossovers[i].protocol));
        table_cell(table, "%s", human_number(e->crossovers[i].predicted_us, text));
    }
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

static void print_nccl(const explanation_t *e)
{
    char total[HUMAN_BYTES];
    if (e->has_nccl)
        printf(
            "NCCL by its own cost model: %s, %s, %s us, %.1f GB/s of payload, in %u channel%s of %.1f GB/s\n",
            blink_name_algorithm(e->nccl.algorithm), blink_name_protocol(e->nccl.protocol),
            human_number(e->nccl.time_us, total), e->nccl.GBps, e->nccl_graph.channel_count,
            human_plural(e->nccl_graph.channel_count), e->nccl_graph.channel_GBps);
}

/* Of one rank all algorithms make the same empty plan. */
static void print_alone(const explanation_t *e)
{
    char bytes[HUMAN_BYTES], total[HUMAN_BYTES];
    printf("%s of %s on %s, 1 rank: predicted %s us\n%s", blink_name_collective(e->request->collective),
           human_bytes(e->request->bytes, bytes), e->topo->name,
           human_number(e->choice.candidates[0].predicted_us, total), e->limit);
}

static blink_result_t print_text(const explanation_t *e)
{
    if (e->request->rank_count == 1) {
        print_alone(e);
        return BLINK_OK;
    }
    print_choice(e);
    print_plan(e);
    puts("\nCandidates:");
    BLINK_TRY(print_candidates(e));
    print_refused(e);
    print_nccl(e);
    puts("\nFastest by size, 1 KiB to 1 GiB:");
    return print_crossovers(e);
}

/* ---- for programs ---- */

static json_t *pack_candidates(const plan_choice_t *choice)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < choice->count; i++) {
        const plan_candidate_t *c = &choice->candidates[i];
        json_t *packed =
            c->result == BLINK_OK
                ? json_pack("{ss ss sf sf sf sI sI si}", "algorithm", blink_name_algorithm(c->algorithm),
                            "protocol", blink_name_protocol(c->protocol), "predicted_us", c->predicted_us,
                            "latency_us", c->latency_us, "rate_GBps", c->rate_GBps, "chunk_bytes",
                            (json_int_t)c->chunk_bytes, "channels", (json_int_t)c->channel_count, "depth",
                            (int)c->depth)
                : json_pack("{ss ss ss so}", "algorithm", blink_name_algorithm(c->algorithm), "protocol",
                            blink_name_protocol(c->protocol), "result", blink_name_result(c->result),
                            "reason", ctl_json_text(c->text));
        json_array_append_new(list, packed);
    }
    return list;
}

static json_t *pack_crossovers(const explanation_t *e)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->crossover_count; i++)
        json_array_append_new(list, json_pack("{sI ss ss sf}", "bytes", (json_int_t)e->crossovers[i].bytes,
                                              "algorithm", blink_name_algorithm(e->crossovers[i].algorithm),
                                              "protocol", blink_name_protocol(e->crossovers[i].protocol),
                                              "predicted_us", e->crossovers[i].predicted_us));
    return list;
}

static json_t *pack_ranks(const explanation_t *e)
{
    json_t *list = json_array();
    for (uint32_t rank = 0; rank < e->request->rank_count; rank++)
        json_array_append_new(list, json_string(e->topo->nodes[e->request->rank_node[rank]].id));
    return list;
}

/* null: the limit of peers costs nothing, or there is none. */
static json_t *pack_unlimited(const explanation_t *e)
{
    const plan_candidate_t *unlimited = &e->choice.unlimited;
    if (unlimited->result != BLINK_OK || unlimited->contender == e->choice.candidates[0].contender)
        return json_null();
    return json_pack("{ss ss sI sf sf si}", "algorithm", blink_name_algorithm(unlimited->algorithm),
                     "protocol", blink_name_protocol(unlimited->protocol), "peers",
                     (json_int_t)e->choice.contenders[unlimited->contender].peers, "predicted_us",
                     unlimited->predicted_us, "rate_GBps", unlimited->rate_GBps, "depth",
                     (int)unlimited->depth);
}

/* On each GPU at most, and what one moves; null: devices are none, or nobody counts. */
static json_t *pack_blocks(const explanation_t *e)
{
    const plan_candidate_t *best = &e->choice.candidates[0];
    const plan_blocks_t *blocks = &e->choice.contenders[best->contender].blocks;
    if (!(e->choice.best->block_GBps > 0.0))
        return json_null();
    return json_pack("{sI sf}", "count", (json_int_t)plan_blocks_under(blocks, best->protocol), "GBps",
                     e->choice.best->block_GBps);
}

/* null: a plan that is not shipped. */
static json_t *pack_digest(const explanation_t *e)
{
    uint64_t digest;
    char text[PLAN_DIGEST_BYTES];
    bool has_one = plan_digest(e->topo, e->choice.best, &digest) == BLINK_OK;
    return has_one ? json_string(plan_digest_text(digest, text)) : json_null();
}

static json_t *pack_nccl(const explanation_t *e)
{
    if (!e->has_nccl)
        return json_null();
    return json_pack("{ss ss sf sf sf sI sf}", "algorithm", blink_name_algorithm(e->nccl.algorithm),
                     "protocol", blink_name_protocol(e->nccl.protocol), "time_us", e->nccl.time_us,
                     "latency_us", e->nccl.latency_us, "GBps", e->nccl.GBps, "channels",
                     (json_int_t)e->nccl_graph.channel_count, "channel_GBps", e->nccl_graph.channel_GBps);
}

/* null: no switch reduces. */
static json_t *pack_multicast_bound(const explanation_t *e)
{
    return topo_has_reducing_switch(e->topo) ? json_real(e->multicast_bound_GBps) : json_null();
}

static blink_result_t print_json(const explanation_t *e)
{
    const plan_t *plan = e->choice.best;
    const plan_candidate_t *best = &e->choice.candidates[0];
    json_t *root =
        plan->root == PLAN_NONE ? json_null() : json_string(e->topo->nodes[plan->rank_node[plan->root]].id);
    return ctl_print_json(
        json_pack(
            "{ss ss ss so so so sI ss ss sf sf sf sf so sI sI si sI sf so so sI so so so so so so so so}",
            "schema", "blink-explain/1", "collective", blink_name_collective(plan->collective), "topology",
            e->topo->name, "ranks", pack_ranks(e), "root", root, "plan", pack_digest(e), "bytes",
            (json_int_t)e->request->bytes, "algorithm", blink_name_algorithm(best->algorithm), "protocol",
            blink_name_protocol(best->protocol), "predicted_us", best->predicted_us, "busbw_GBps",
            busbw_GBps(e, best), "rate_GBps", plan->rate_GBps, "bound_GBps", plan->bound_GBps, "blocks",
            pack_blocks(e), "trees", (json_int_t)plan_tree_count(plan), "channels",
            (json_int_t)best->channel_count, "depth", (int)best->depth, "chunk_bytes",
            (json_int_t)best->chunk_bytes, "plan_busbw_GBps", plan_busbw_GBps(e), "ideal_busbw_GBps",
            has_ideal(e) ? json_real(e->ideal.busbw_GBps) : json_null(), "efficiency",
            has_ideal(e) ? json_real(efficiency(e)) : json_null(), "peers", (json_int_t)e->peers, "unlimited",
            pack_unlimited(e), "phases", ctl_json_text(e->phases), "ways", ctl_json_text(e->ways), "limit",
            ctl_json_text(e->limit), "candidates", pack_candidates(&e->choice), "crossovers",
            pack_crossovers(e), "nccl", pack_nccl(e), "multicast_bound_GBps", pack_multicast_bound(e)),
        JSON_INDENT(1));
}

/* ---- the command ---- */

blink_result_t ctl_explain(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_child children[] = {
        {&ctl_common_argp, 0, NULL, 0}, {&request_argp, 0, NULL, 0}, {0}};
    static const struct argp_option own[] = {{"comm", KEY_COMM, "N", 0,
                                              "Instead: what the ops of live communicator N have run by, and "
                                              "whether their memory is used in place or "
                                              "copied through staging; asks the daemon",
                                              0},
                                             {0}};
    const struct argp argp = {
        .options = own,
        .parser = parse_explain,
        .doc =
            "Say which algorithm and protocol are chosen for a size, against which "
            "others, from which sizes on others are, and what limits the rate. --bytes is 64M unless given. "
            "Without --topology it is about the running daemon's topology.",
        .children = children};
    explain_options_t options = {.common = common, .request = request_default};
    options.request.common = common;
    options.request.bytes = DEFAULT_BYTES;
    command_line_parse(&argp, argc, argv, 0, &options);
    if (options.comm > 0)
        return explain_comm(common, options.comm);

    request_case_t opened;
    BLINK_TRY(request_open(&options.request, &opened));
    explanation_t e = {.topo = opened.topo,
                       .request = &opened.plan,
                       .line_rates = options.request.topology && topo_is_machine(options.request.topology) &&
                                     !options.request.gpus};
    blink_result_t result = explain(&e);
    if (result == BLINK_OK)
        result = common->json ? print_json(&e) : print_text(&e);
    explanation_fini(&e);
    plan_thread_release();
    request_close(&opened);
    return result;
}

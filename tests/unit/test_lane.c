/*
 * Compiled lane programs: every plan of real topologies is proved right, single random mutations of them are
 * proved wrong, and the split of payloads is exact.
 */
#include "error.h"
#include "plan/lane.h"
#include "plan/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GPUS = 8, ALL = 0xff };

typedef struct request {
    const char *topology; /* for texts */
    uint32_t gpu_mask;
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root;
} request_t;

/* Plan and compile; NULL if these ranks cannot be joined in this way. */
static lane_program_t *compile(const topo_t *topo, const request_t *request)
{
    uint32_t nodes[GPUS], count = 0;
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        if (request->gpu_mask >> gpu & 1)
            nodes[count++] = topo->gpus[gpu];
    plan_request_t wanted = {.collective = request->collective,
                             .algorithm = request->algorithm,
                             .rank_node = nodes,
                             .rank_count = count,
                             .root = request->root};
    plan_t *plan;
    lane_program_t *program;
    blink_result_t result = plan_create(topo, &wanted, &plan);
    if (result == BLINK_ERR_UNREACHABLE)
        return NULL;
    if (result != BLINK_OK)
        fail_msg("%s, gpus %#x: %s", request->topology, request->gpu_mask, blink_error_text());
    assert_int_equal(lane_compile(topo, plan, &program), BLINK_OK);
    plan_destroy(plan);
    return program;
}

/* Prove at one and two slots, in place and not, with every slot used again. */
static void assert_right(const lane_program_t *program, const request_t *request)
{
    for (uint32_t bits = 0; bits < 4; bits++) {
        uint32_t slots = 1 + (bits & 1);
        lane_verify_options_t options = {request->root, 2 * slots + 1, slots, bits & 2};
        if (lane_verify(program, &options) != BLINK_OK)
            fail_msg("%s, gpus %#x, collective %d, algorithm %d, root %u, %u slots%s: %s", request->topology,
                     request->gpu_mask, (int)request->collective, (int)request->algorithm, request->root,
                     slots, options.in_place ? ", in place" : "", blink_error_text());
    }
}

/* All collectives over one set of gpus. Returns how many of them could be planned: 3 or 0. */
static uint32_t prove(const topo_t *topo, const char *topology, uint32_t gpu_mask,
                      blink_algorithm_t algorithm)
{
    uint32_t last = (uint32_t)__builtin_popcount(gpu_mask) - 1;
    const request_t requests[] = {
        {topology, gpu_mask, BLINK_ALLREDUCE, algorithm, 0},
        {topology, gpu_mask, BLINK_BROADCAST, algorithm, 0},
        {topology, gpu_mask, BLINK_BROADCAST, algorithm, last},
    };
    uint32_t planned = 0;
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        lane_program_t *program = compile(topo, &requests[i]);
        if (!program)
            continue;
        assert_right(program, &requests[i]);
        lane_program_destroy(program);
        planned++;
    }
    return planned;
}

static topo_t *load(const char *name)
{
    topo_t *topo;
    if (topo_load(name, &topo) != BLINK_OK)
        fail_msg("%s", blink_error_text());
    return topo;
}

/* Whether links from gpu to gpu alone join the set. */
static bool is_connected(const topo_t *topo, uint32_t gpu_mask)
{
    uint32_t seen = gpu_mask & (~gpu_mask + 1), before = 0;
    while (seen != before) {
        before = seen;
        for (uint32_t from = 0; from < GPUS; from++)
            for (uint32_t to = 0; to < GPUS; to++)
                if ((seen >> from & 1) && (gpu_mask >> to & 1) &&
                    topo_find_link(topo, topo->gpus[from], topo->gpus[to]) != TOPO_NONE)
                    seen |= 1u << to;
    }
    return seen == gpu_mask;
}

/* ---- what is compiled is right ---- */

static void test_plans_of_demo_allocations_are_right(void **state)
{
    (void)state;
    /* {0…7}, {0,1,2,3,4,5}, {1,4,5,6}, {0,1,4}, {0,1} and one gpu */
    static const uint32_t masks[] = {ALL, 0x3f, 0x72, 0x13, 0x03, 0x08};
    topo_t *hybrid = load("dgx1v_hybrid");
    topo_t *nvlink = load("dgx1v");
    for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
        assert_int_equal(prove(hybrid, "dgx1v_hybrid", masks[i], BLINK_ALGORITHM_TREES), 3);
        assert_int_equal(prove(hybrid, "dgx1v_hybrid", masks[i], BLINK_ALGORITHM_RING), 3);
        assert_int_equal(prove(nvlink, "dgx1v", masks[i], BLINK_ALGORITHM_TREES), 3);
    }
    assert_int_equal(prove(nvlink, "dgx1v", ALL, BLINK_ALGORITHM_RING), 3);
    topo_destroy(hybrid);
    topo_destroy(nvlink);
}

static void test_plans_of_every_connected_allocation_are_right(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    uint32_t rings = 0;
    for (uint32_t mask = 0; mask <= ALL; mask++) {
        if (__builtin_popcount(mask) < 3)
            continue;
        assert_int_equal(prove(topo, "dgx1v", mask, BLINK_ALGORITHM_TREES), is_connected(topo, mask) ? 3 : 0);
        rings += prove(topo, "dgx1v", mask, BLINK_ALGORITHM_RING) > 0;
    }
    assert_true(rings > 0);
    topo_destroy(topo);
}

/* ---- what is mutated is wrong ---- */

typedef struct mutant {
    lane_program_t program; /* borrows the original's tables but for the pools below */
    uint64_t random;
} mutant_t;

static uint32_t draw(mutant_t *mutant, uint32_t below)
{
    mutant->random = mutant->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((mutant->random >> 33) % below);
}

static void *copy(const void *pool, size_t bytes)
{
    void *copied = malloc(bytes ? bytes : 1);
    assert_non_null(copied);
    return bytes ? memcpy(copied, pool, bytes) : copied;
}

static void mutant_begin(mutant_t *mutant, const lane_program_t *original)
{
    lane_program_t *program = &mutant->program;
    *program = *original;
    program->steps = copy(original->steps, original->step_count * sizeof(*original->steps));
    program->operands = copy(original->operands, original->operand_count * sizeof(*original->operands));
    program->waits = copy(original->waits, original->wait_count * sizeof(*original->waits));
    program->signals = copy(original->signals, original->signal_count * sizeof(*original->signals));
}

static void mutant_end(mutant_t *mutant)
{
    free(mutant->program.steps);
    free(mutant->program.operands);
    free(mutant->program.waits);
    free(mutant->program.signals);
}

static lane_step_t *step_of_wait(lane_program_t *program, uint32_t wait)
{
    lane_step_t *step = program->steps;
    while (wait - step->wait_first >= step->wait_count)
        step++;
    return step;
}

static lane_step_t *step_of_signal(lane_program_t *program, uint32_t signal)
{
    lane_step_t *step = program->steps;
    while (signal - step->signal_first >= step->signal_count)
        step++;
    return step;
}

static lane_step_t *step_of_operand(lane_program_t *program, uint32_t operand)
{
    lane_step_t *step = program->steps;
    while (operand - step->src_first >= step->src_count && operand - step->dst_first >= step->dst_count)
        step++;
    return step;
}

static const lane_step_t *signaller(lane_program_t *program, uint32_t semaphore)
{
    uint32_t signal = 0;
    while (program->signals[signal].semaphore != semaphore)
        signal++;
    return step_of_signal(program, signal);
}

static uint32_t channel_of(const lane_program_t *program, const lane_step_t *step)
{
    const lane_t *lane = program->lanes;
    while ((uint32_t)(step - program->steps) - lane->step_first >= lane->step_count)
        lane++;
    return lane->channel;
}

static void remove_wait(lane_program_t *program, uint32_t wait)
{
    lane_step_t *step = step_of_wait(program, wait);
    program->waits[wait] = program->waits[step->wait_first + --step->wait_count];
}

static void remove_signal(lane_program_t *program, uint32_t signal)
{
    lane_step_t *step = step_of_signal(program, signal);
    program->signals[signal] = program->signals[step->signal_first + --step->signal_count];
}

/* Each mutation returns whether it leaves the meaning as it was. */
typedef bool (*mutation_t)(mutant_t *mutant);

static bool drop_wait(mutant_t *mutant)
{
    remove_wait(&mutant->program, draw(mutant, mutant->program.wait_count));
    return false;
}

static bool drop_signal(mutant_t *mutant)
{
    remove_signal(&mutant->program, draw(mutant, mutant->program.signal_count));
    return false;
}

/* A release of a slot also travels round a ring with the data, so single `free` semaphores of rings may be
 * missed by nobody. */
static uint32_t draw_needed_wait(mutant_t *mutant)
{
    const lane_program_t *program = &mutant->program;
    bool ring = program->channels[0].part_count > 1;
    uint32_t wait = draw(mutant, program->wait_count);
    while (ring && program->waits[wait].kind == LANE_FREE)
        wait = draw(mutant, program->wait_count);
    return wait;
}

/* Both ends go and the last semaphore takes the number, so that only the clocks can tell. */
static bool drop_semaphore(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t wait = draw_needed_wait(mutant), signal = 0;
    uint32_t dropped = program->waits[wait].semaphore, last = --program->semaphore_count;
    while (program->signals[signal].semaphore != dropped)
        signal++;
    for (uint32_t i = 0; i < program->wait_count; i++)
        if (program->waits[i].semaphore == last)
            program->waits[i].semaphore = dropped;
    for (uint32_t i = 0; i < program->signal_count; i++)
        if (program->signals[i].semaphore == last)
            program->signals[i].semaphore = dropped;
    remove_wait(program, wait);
    remove_signal(program, signal);
    return false;
}

static bool turn_wait(mutant_t *mutant)
{
    lane_wait_t *wait = &mutant->program.waits[draw(mutant, mutant->program.wait_count)];
    wait->kind = wait->kind == LANE_FULL ? LANE_FREE : LANE_FULL;
    return false;
}

static bool is_src(const lane_step_t *step, uint32_t operand)
{
    return operand - step->src_first < step->src_count;
}

/* The step that reads an operand's scratch edge; NULL if the operand is not a write to one. */
static const lane_step_t *reader(lane_program_t *program, uint32_t operand)
{
    uint32_t at = 0, edge = program->operands[operand].edge;
    if (edge == PLAN_NONE || is_src(step_of_operand(program, operand), operand))
        return NULL;
    while (program->operands[at].edge != edge || !is_src(step_of_operand(program, at), at))
        at++;
    return step_of_operand(program, at);
}

/* Whether a reduce step's data comes through another. */
static bool leads_through(lane_program_t *program, const lane_step_t *step, const lane_step_t *through)
{
    do
        step = reader(program, step->dst_first);
    while (step && step != through);
    return step != NULL;
}

/* Whether waits may change semaphores. In one step, if they are alike. Releases of slots also if one parent
 * signals both; or if one child's data comes through the other: what the upper one needs to know then comes
 * up to it with the data of the lower one, which waited for it. */
static bool waits_are_exchangeable(lane_program_t *program, uint32_t a, uint32_t b)
{
    const lane_wait_t *at_a = &program->waits[a], *at_b = &program->waits[b];
    const lane_step_t *step_a = step_of_wait(program, a), *step_b = step_of_wait(program, b);
    if (at_a->kind != at_b->kind || step_a == step_b || at_a->kind == LANE_FULL)
        return at_a->kind == at_b->kind && step_a == step_b;
    return signaller(program, at_a->semaphore) == signaller(program, at_b->semaphore) ||
           leads_through(program, step_a, step_b) || leads_through(program, step_b, step_a);
}

static bool swap_waits(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t a = draw_needed_wait(mutant), b = draw_needed_wait(mutant);
    bool same = waits_are_exchangeable(program, a, b);
    uint32_t kept = program->waits[a].semaphore;
    program->waits[a].semaphore = program->waits[b].semaphore;
    program->waits[b].semaphore = kept;
    return same;
}

/* Same if it announced no arrival, or announces the same one still. */
static bool turn_signal(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t at = draw(mutant, program->signal_count);
    uint32_t before = program->signals[at].dst;
    program->signals[at].dst = draw(mutant, step_of_signal(program, at)->dst_count);
    return before == PLAN_NONE || before == program->signals[at].dst;
}

/* A destination that its step announces to nobody: its own output, or a leaf's. */
static bool is_unannounced(const lane_program_t *program, const lane_step_t *step, uint32_t operand)
{
    for (uint32_t i = 0; i < step->signal_count; i++)
        if (program->signals[step->signal_first + i].dst == operand - step->dst_first)
            return false;
    return !is_src(step, operand);
}

static bool is_leaf_output(const lane_program_t *program, const lane_step_t *step, uint32_t operand)
{
    const lane_operand_t *dst = &program->operands[operand];
    return dst->buffer == LANE_OUTPUT && dst->path != PLAN_NONE && is_unannounced(program, step, operand);
}

/* Whether two operands may change places: they differ in the path at most; or the order within their step is
 * all that changes; or leaves of one broadcast tree change parents; or children of one parent change slots.
 */
static bool are_exchangeable(lane_program_t *program, uint32_t a, uint32_t b)
{
    const lane_operand_t *at_a = &program->operands[a], *at_b = &program->operands[b];
    const lane_step_t *step_a = step_of_operand(program, a), *step_b = step_of_operand(program, b);
    if (a == b || (at_a->buffer != LANE_SCRATCH && at_a->buffer == at_b->buffer && at_a->rank == at_b->rank &&
                   (at_a->path == PLAN_NONE) == (at_b->path == PLAN_NONE)))
        return true;
    if (step_a == step_b)
        return (is_src(step_a, a) && is_src(step_a, b)) ||
               (is_unannounced(program, step_a, a) && is_unannounced(program, step_a, b));
    if (is_leaf_output(program, step_a, a) && is_leaf_output(program, step_b, b))
        return step_a->part == step_b->part && channel_of(program, step_a) == channel_of(program, step_b);
    return reader(program, a) && reader(program, a) == reader(program, b);
}

static bool swap_operands(mutant_t *mutant)
{
    lane_program_t *program = &mutant->program;
    uint32_t a = draw(mutant, program->operand_count), b = draw(mutant, program->operand_count);
    bool same = are_exchangeable(program, a, b);
    lane_operand_t kept = program->operands[a];
    program->operands[a] = program->operands[b];
    program->operands[b] = kept;
    return same;
}

static bool is_caught(const lane_program_t *program, uint32_t root)
{
    lane_verify_options_t apart = {root, 3, 1, false}, in_place = {root, 3, 1, true};
    return lane_verify(program, &apart) != BLINK_OK || lane_verify(program, &in_place) != BLINK_OK;
}

static void test_every_mutation_that_matters_is_caught(void **state)
{
    (void)state;
    static const mutation_t mutations[] = {drop_wait,  drop_signal, drop_semaphore, turn_wait,
                                           swap_waits, turn_signal, swap_operands,  swap_operands};
    static const request_t requests[] = {
        {"dgx1v_hybrid", ALL, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
        {"dgx1v_hybrid", ALL, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0},
        {"dgx1v_hybrid", ALL, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 3},
        {"dgx1v_hybrid", 0x72, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
    };
    enum { ROUNDS = 20, MUTATIONS = sizeof(mutations) / sizeof(*mutations) };
    topo_t *topo = load("dgx1v_hybrid");
    mutant_t mutant = {.random = 20240607};
    uint32_t caught = 0, same = 0;
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        lane_program_t *original = compile(topo, &requests[i]);
        assert_false(is_caught(original, requests[i].root));
        for (uint32_t round = 0; round < ROUNDS * MUTATIONS; round++) {
            mutant_begin(&mutant, original);
            bool means_same = mutations[round % MUTATIONS](&mutant);
            bool was_caught = is_caught(&mutant.program, requests[i].root);
            if (was_caught == means_same)
                fail_msg("request %zu, round %u, mutation %u: %s", i, round, round % MUTATIONS,
                         was_caught ? blink_error_text() : "not caught");
            caught += was_caught;
            same += means_same;
            mutant_end(&mutant);
        }
        lane_program_destroy(original);
    }
    print_message("%u mutants caught, %u mean the same\n", caught, same);
    topo_destroy(topo);
}

/* ---- geometry ---- */

static void assert_exact_cover(const lane_geometry_t *geometry)
{
    uint64_t covered_bytes = 0;
    for (uint32_t channel = 0; channel < geometry->program->channel_count; channel++) {
        assert_int_equal(geometry->channels[channel].offset_bytes, covered_bytes);
        for (uint32_t chunk = 0; chunk < geometry->channels[channel].chunks; chunk++) {
            for (uint32_t part = 0; part < geometry->program->channels[channel].part_count; part++) {
                lane_span_t span = lane_span(geometry, channel, part, chunk);
                uint64_t most_bytes = geometry->channels[channel].chunk_bytes;
                covered_bytes += span.bytes;
                if (span.offset_bytes + span.bytes != covered_bytes || span.bytes > most_bytes ||
                    (span.bytes % LANE_UNIT_BYTES != 0 && covered_bytes != geometry->bytes))
                    fail_msg("%llu bytes, chunks of %llu: channel %u chunk %u part %u is %llu bytes at %llu",
                             (unsigned long long)geometry->bytes, (unsigned long long)most_bytes, channel,
                             chunk, part, (unsigned long long)span.bytes,
                             (unsigned long long)span.offset_bytes);
            }
        }
    }
    assert_int_equal(covered_bytes, geometry->bytes);
}

typedef struct split {
    lane_channel_t channels[7];
    uint32_t count;
} split_t;

static void test_payload_is_split_exactly(void **state)
{
    (void)state;
    static const uint64_t payloads_bytes[] = {
        0,      1,      3,       4,       8,        15,       16,          17,
        31,     32,     33,      127,     255,      256,      257,         1009,
        4093,   4096,   8191,    65537,   104729,   262144,   99991,       99992,
        524287, 524288, 1048573, 1299709, 8u << 20, 15485863, (64u << 20), (64u << 20) + 4};
    static const uint64_t chunks_bytes[] = {0, 1, 16, 17, 48, 1000, 4096, 65536, LANE_CHUNK_MAX_BYTES};
    static const split_t splits[] = {
        {{{.share = 1.0, .part_count = 1}}, 1},
        {{{.share = 1.0, .part_count = 8}}, 1},
        {{{.share = 1.0 / 3, .part_count = 3},
          {.share = 1.0 / 3, .part_count = 3},
          {.share = 1.0 / 3, .part_count = 3}},
         3},
        {{{.share = 0.1, .part_count = 1},
          {.share = 0.2, .part_count = 5},
          {.share = 0.3, .part_count = 1},
          {.share = 0.05, .part_count = 2},
          {.share = 0.15, .part_count = 7},
          {.share = 0.1, .part_count = 1},
          {.share = 0.1, .part_count = 1}},
         7},
        {{{.share = 0.999999, .part_count = 1},
          {.share = 0.0000005, .part_count = 4},
          {.share = 0.0000005, .part_count = 1}},
         3},
    };
    for (size_t i = 0; i < sizeof(splits) / sizeof(*splits); i++) {
        lane_channel_t channels[7];
        memcpy(channels, splits[i].channels, sizeof(channels));
        lane_program_t program = {.depth = 4, .channel_count = splits[i].count, .channels = channels};
        for (size_t p = 0; p < sizeof(payloads_bytes) / sizeof(*payloads_bytes); p++) {
            for (size_t c = 0; c < sizeof(chunks_bytes) / sizeof(*chunks_bytes); c++) {
                if (chunks_bytes[c] > 0 && payloads_bytes[p] / chunks_bytes[c] > 100000 / 16)
                    continue;
                lane_geometry_t geometry;
                assert_int_equal(
                    lane_geometry_init(&program, payloads_bytes[p], chunks_bytes[c], 2, &geometry), BLINK_OK);
                assert_exact_cover(&geometry);
                lane_geometry_fini(&geometry);
            }
        }
    }
}

static void test_chunk_is_rounded_up_to_whole_units(void **state)
{
    (void)state;
    lane_channel_t channel = {.share = 1.0, .part_count = 1};
    lane_program_t program = {.depth = 2, .channel_count = 1, .channels = &channel};
    lane_geometry_t geometry;
    assert_int_equal(lane_geometry_init(&program, 100, 17, 2, &geometry), BLINK_OK);
    assert_int_equal(geometry.channels[0].chunk_bytes, 32);
    assert_int_equal(geometry.channels[0].chunks, 4);
    lane_geometry_fini(&geometry);
}

static void test_chosen_chunk_is_whole_units_and_bounded(void **state)
{
    (void)state;
    static const uint64_t bdps_bytes[] = {0, 1001, 50000, 10u << 20};
    lane_channel_t channels[2] = {{.share = 0.7, .part_count = 1}, {.share = 0.3, .part_count = 8}};
    for (size_t i = 0; i < sizeof(bdps_bytes) / sizeof(*bdps_bytes); i++) {
        lane_program_t program = {
            .depth = 6, .bdp_bytes = bdps_bytes[i], .channel_count = 2, .channels = channels};
        for (uint64_t bytes = 0; bytes < 1u << 30; bytes = bytes * 3 + 7) {
            uint64_t chunk_bytes = lane_choose_chunk(&program, bytes);
            assert_int_equal(chunk_bytes % LANE_UNIT_BYTES, 0);
            assert_in_range(chunk_bytes, LANE_UNIT_BYTES, LANE_CHUNK_MAX_BYTES);
            assert_true(chunk_bytes >= bdps_bytes[i] || chunk_bytes == LANE_CHUNK_MAX_BYTES);
        }
    }
}

static void test_channels_have_about_as_many_chunks_whatever_their_shares(void **state)
{
    (void)state;
    lane_channel_t channels[3] = {
        {.share = 0.75, .part_count = 1}, {.share = 0.05, .part_count = 1}, {.share = 0.2, .part_count = 4}};
    lane_program_t program = {.depth = 2, .channel_count = 3, .channels = channels};
    lane_geometry_t geometry;
    assert_int_equal(lane_geometry_init(&program, 64u << 20, 64u << 10, 4, &geometry), BLINK_OK);
    for (uint32_t channel = 1; channel < 3; channel++)
        assert_in_range(geometry.channels[channel].chunks, geometry.channels[0].chunks - 3,
                        geometry.channels[0].chunks + 3);
    assert_int_equal(geometry.channels[0].chunk_bytes, 64u << 10);
    lane_geometry_fini(&geometry);
}

static void test_scratch_slots_lie_apart(void **state)
{
    (void)state;
    lane_channel_t channels[2] = {{.share = 0.9, .part_count = 1, .edge_first = 0, .edge_count = 3},
                                  {.share = 0.1, .part_count = 1, .edge_first = 3, .edge_count = 2}};
    lane_program_t program = {.depth = 2, .channel_count = 2, .channels = channels};
    lane_geometry_t geometry;
    uint64_t end = 0;
    assert_int_equal(lane_geometry_init(&program, 1u << 20, 4096, 3, &geometry), BLINK_OK);
    for (uint32_t channel = 0; channel < 2; channel++) {
        for (uint32_t edge = 0; edge < channels[channel].edge_count; edge++) {
            for (uint32_t slot = 0; slot < 3; slot++) {
                uint32_t number = channels[channel].edge_first + edge;
                assert_int_equal(lane_scratch_offset(&geometry, channel, number, slot), end);
                assert_int_equal(lane_scratch_offset(&geometry, channel, number, slot + 3), end);
                end += geometry.channels[channel].chunk_bytes;
            }
        }
    }
    assert_int_equal(end, geometry.scratch_bytes);
    lane_geometry_fini(&geometry);
}

static void test_slots_cover_the_latency_of_the_longest_path(void **state)
{
    (void)state;
    /* 100 GB/s over half of the payload is 50 kB per µs: 8 µs hold 400 kB. */
    lane_channel_t channels[2] = {{.share = 0.5, .part_count = 1}, {.share = 0.5, .part_count = 1}};
    lane_program_t program = {
        .depth = 2, .channel_count = 2, .channels = channels, .rate_GBps = 100, .latency_us = 8};
    assert_int_equal(lane_choose_slots(&program, 50000), 4 + 8);
    assert_int_equal(lane_choose_slots(&program, 400000), 4 + 1);
    assert_int_equal(lane_choose_slots(&program, 16), 4 + 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_of_demo_allocations_are_right),
        cmocka_unit_test(test_plans_of_every_connected_allocation_are_right),
        cmocka_unit_test(test_every_mutation_that_matters_is_caught),
        cmocka_unit_test(test_payload_is_split_exactly),
        cmocka_unit_test(test_chunk_is_rounded_up_to_whole_units),
        cmocka_unit_test(test_chosen_chunk_is_whole_units_and_bounded),
        cmocka_unit_test(test_channels_have_about_as_many_chunks_whatever_their_shares),
        cmocka_unit_test(test_scratch_slots_lie_apart),
        cmocka_unit_test(test_slots_cover_the_latency_of_the_longest_path),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}

/*
 * Compiled lane programs: every plan of real topologies and plans made by hand for every collective are
 * proved right, and single random mutations of them are proved wrong.
 */
#include "error.h"
#include "hand_plan.h"
#include "names.h"
#include "plan/lane/lane.h"
#include "prove/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GPUS = 8, ALL = 0xff };

/* Plans that prove() makes with an algorithm. */
enum { BY_RING = 3, BY_TREES = 6 };

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
        lane_verify_options_t options = {2 * slots + 1, slots, bits & 2};
        if (lane_verify(program, &options) != BLINK_OK)
            fail_msg("%s, gpus %#x, collective %d, algorithm %d, root %u, %u slots%s: %s", request->topology,
                     request->gpu_mask, (int)request->collective, (int)request->algorithm, request->root,
                     slots, options.in_place ? ", in place" : "", blink_error_text());
    }
}

/* All collectives that the algorithm does over one set of gpus. Returns how many of them could be planned:
 * all or none. */
static uint32_t prove(const topo_t *topo, const char *topology, uint32_t gpu_mask,
                      blink_algorithm_t algorithm)
{
    uint32_t last = (uint32_t)__builtin_popcount(gpu_mask) - 1;
    const request_t requests[] = {
        {topology, gpu_mask, BLINK_ALLREDUCE, algorithm, 0},
        {topology, gpu_mask, BLINK_BROADCAST, algorithm, 0},
        {topology, gpu_mask, BLINK_BROADCAST, algorithm, last},
        {topology, gpu_mask, BLINK_REDUCE, algorithm, last},
        {topology, gpu_mask, BLINK_ALLGATHER, algorithm, 0},
        {topology, gpu_mask, BLINK_REDUCESCATTER, algorithm, 0},
    };
    uint32_t planned = 0;
    for (size_t i = 0; i < (algorithm == BLINK_ALGORITHM_RING ? BY_RING : BY_TREES); i++) {
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

/* The link's image if gpus 0, 1 and 2 change places in a circle. */
static uint32_t turned_link(const topo_t *topo, uint32_t link)
{
    uint32_t ends[2] = {topo->links[link].from, topo->links[link].to};
    for (uint32_t end = 0; end < 2; end++) {
        for (uint32_t gpu = 0; gpu < 3; gpu++) {
            if (ends[end] == topo->gpus[gpu]) {
                ends[end] = topo->gpus[(gpu + 1) % 3];
                break;
            }
        }
    }
    return topo_find_link(topo, ends[0], ends[1]);
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
        assert_int_equal(prove(hybrid, "dgx1v_hybrid", masks[i], BLINK_ALGORITHM_TREES), BY_TREES);
        assert_int_equal(prove(hybrid, "dgx1v_hybrid", masks[i], BLINK_ALGORITHM_RING), BY_RING);
        assert_int_equal(prove(nvlink, "dgx1v", masks[i], BLINK_ALGORITHM_TREES), BY_TREES);
    }
    assert_int_equal(prove(nvlink, "dgx1v", ALL, BLINK_ALGORITHM_RING), BY_RING);
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
        assert_int_equal(prove(topo, "dgx1v", mask, BLINK_ALGORITHM_TREES),
                         is_connected(topo, mask) ? BY_TREES : 0);
        rings += prove(topo, "dgx1v", mask, BLINK_ALGORITHM_RING) > 0;
    }
    assert_true(rings > 0);
    topo_destroy(topo);
}

static bool has_in_place(blink_collective_t collective)
{
    return collective != BLINK_ALLTOALL && collective != BLINK_SENDRECV;
}

/* At one slot and at several, with every slot used again. */
static void assert_hand_plan_is_right(const topo_t *topo, uint32_t ranks, blink_collective_t collective,
                                      hand_shape_t shape)
{
    lane_program_t *program = hand_compile(topo, ranks, collective, shape, BLINK_PROTOCOL_SIMPLE);
    for (uint32_t slots = 1; slots <= 3; slots++) {
        for (int in_place = 0; in_place <= has_in_place(collective); in_place++) {
            lane_verify_options_t options = {2 * slots + 1, slots, in_place == 1};
            if (lane_verify(program, &options) != BLINK_OK)
                fail_msg("%s of %u ranks, shape %d, %u slots, in place %d: %s",
                         blink_name_collective(collective), ranks, (int)shape, slots, in_place,
                         blink_error_text());
        }
    }
    lane_program_destroy(program);
}

static void test_every_collective_is_right(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        for (uint32_t ranks = 1; ranks <= GPUS; ranks++) {
            assert_hand_plan_is_right(topo, ranks, hand_collectives[i], APART);
            assert_hand_plan_is_right(topo, ranks, hand_collectives[i], TOGETHER);
        }
    }
    topo_destroy(topo);
}

static bool sends_before_it_relays(const lane_program_t *program, const lane_t *lane)
{
    bool relayed = false;
    for (uint32_t i = lane->step_first; i < lane->step_first + lane->step_count; i++) {
        bool relays = program->operands[program->steps[i].src_first].buffer == LANE_SCRATCH;
        if (relayed && !relays)
            return false;
        relayed = relays;
    }
    return true;
}

static void test_parts_of_a_channel_share_one_lane_per_rank(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    lane_program_t *allgather = hand_compile(topo, GPUS, BLINK_ALLGATHER, TOGETHER, BLINK_PROTOCOL_SIMPLE);
    lane_program_t *alltoall = hand_compile(topo, GPUS, BLINK_ALLTOALL, TOGETHER, BLINK_PROTOCOL_SIMPLE);
    assert_int_equal(allgather->lane_count, GPUS);
    assert_int_equal(alltoall->lane_count, GPUS);
    assert_int_equal(alltoall->part_count, 2 * GPUS * GPUS);
    assert_int_equal(alltoall->depth, 3);
    for (uint32_t i = 0; i < alltoall->lane_count; i++)
        assert_true(sends_before_it_relays(alltoall, &alltoall->lanes[i]));
    lane_program_destroy(allgather);
    lane_program_destroy(alltoall);
    topo_destroy(topo);
}

static void test_what_has_no_form_in_place_is_refused(void **state)
{
    (void)state;
    const lane_verify_options_t in_place = {2, 1, true};
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        lane_program_t *program = hand_compile(topo, 3, hand_collectives[i], APART, BLINK_PROTOCOL_SIMPLE);
        assert_int_equal(lane_verify(program, &in_place),
                         has_in_place(hand_collectives[i]) ? BLINK_OK : BLINK_ERR_INVALID_ARGUMENT);
        lane_program_destroy(program);
    }
    topo_destroy(topo);
}

/* A symmetry of three ranks stands for the channels of all three roots. */
static void test_plan_with_symmetries_compiles_to_all_its_images(void **state)
{
    (void)state;
    topo_t *topo = load("dgx_a100");
    plan_t *plan = hand_plan(topo, 3, BLINK_ALLGATHER, TOGETHER);
    lane_program_t *program = NULL;
    plan->channels[0].part_count = WAYS; /* those of root 0 */
    plan->symmetries = calloc(1, sizeof(*plan->symmetries));
    plan->symmetry_count = 1;
    plan->symmetries[0] =
        (plan_symmetry_t){3, malloc(3 * sizeof(uint32_t)), malloc(topo->link_count * sizeof(uint32_t))};
    for (uint32_t rank = 0; rank < 3; rank++)
        plan->symmetries[0].rank_image[rank] = (rank + 1) % 3;
    for (uint32_t i = 0; i < topo->link_count; i++)
        plan->symmetries[0].link_image[i] = turned_link(topo, i);
    assert_int_equal(lane_compile(topo, plan, &program), BLINK_OK);
    assert_int_equal(program->channel_count, 3);
    assert_int_equal(lane_verify(program, &(lane_verify_options_t){3, 1, false}), BLINK_OK);
    plan->channels[0].part_count = 3 * WAYS;
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
}

static void test_plan_that_leaves_a_block_behind_is_refused(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    plan_t *plan = hand_plan(topo, 3, BLINK_GATHER, TOGETHER);
    lane_program_t *program = NULL;
    plan->channels[0].part_count -= WAYS;
    assert_int_equal(lane_compile(topo, plan, &program), BLINK_ERR_INTERNAL);
    assert_string_equal(blink_error_text(), "no channel carries block 2 of 3");
    plan->channels[0].part_count += WAYS;
    plan_destroy(plan);
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

/* A destination that its step announces to nobody: its own output, a leaf's, or the end of a route. */
static bool is_unannounced(const lane_program_t *program, const lane_step_t *step, uint32_t operand)
{
    for (uint32_t i = 0; i < step->signal_count; i++)
        if (program->signals[step->signal_first + i].dst == operand - step->dst_first)
            return false;
    return !is_src(step, operand);
}

/* Neither crosses a path, or both cross ways between the same two ranks. */
static bool are_paths_alike(const lane_program_t *program, uint32_t a, uint32_t b)
{
    if (a == PLAN_NONE || b == PLAN_NONE)
        return a == b;
    return program->paths[a].from_rank == program->paths[b].from_rank &&
           program->paths[a].to_rank == program->paths[b].to_rank;
}

/* Whether two operands may change places: they are the same place, reached by ways with the same ends; or the
 * order within their step is all that changes. */
static bool are_exchangeable(lane_program_t *program, uint32_t a, uint32_t b)
{
    const lane_operand_t *at_a = &program->operands[a], *at_b = &program->operands[b];
    const lane_step_t *step_a = step_of_operand(program, a), *step_b = step_of_operand(program, b);
    if (a == b || (at_a->buffer != LANE_SCRATCH && at_a->buffer == at_b->buffer && at_a->rank == at_b->rank &&
                   are_paths_alike(program, at_a->path, at_b->path)))
        return true;
    return step_a == step_b && ((is_src(step_a, a) && is_src(step_a, b)) ||
                                (is_unannounced(program, step_a, a) && is_unannounced(program, step_a, b)));
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

static bool is_caught(const lane_program_t *program)
{
    lane_verify_options_t apart = {3, 1, false}, in_place = {3, 1, true};
    return lane_verify(program, &apart) != BLINK_OK ||
           (has_in_place(program->collective) && lane_verify(program, &in_place) != BLINK_OK);
}

/* Most mutations matter, and all that do are caught. */
static void mutate(const lane_program_t *original, const char *name, uint32_t rounds)
{
    static const mutation_t mutations[] = {drop_wait,  drop_signal, drop_semaphore, turn_wait,
                                           swap_waits, turn_signal, swap_operands,  swap_operands};
    enum { MUTATIONS = sizeof(mutations) / sizeof(*mutations) };
    mutant_t mutant = {.random = 20240607};
    uint32_t caught = 0;
    assert_false(is_caught(original));
    for (uint32_t round = 0; round < rounds * MUTATIONS; round++) {
        mutant_begin(&mutant, original);
        bool means_same = mutations[round % MUTATIONS](&mutant);
        bool was_caught = is_caught(&mutant.program);
        if (was_caught == means_same)
            fail_msg("%s, round %u, mutation %u: %s", name, round, round % MUTATIONS,
                     was_caught ? blink_error_text() : "not caught");
        caught += was_caught;
        mutant_end(&mutant);
    }
    assert_true(2 * caught > rounds * MUTATIONS);
}

static void test_every_mutation_that_matters_is_caught(void **state)
{
    (void)state;
    static const request_t requests[] = {
        {"dgx1v_hybrid", ALL, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
        {"dgx1v_hybrid", ALL, BLINK_ALLREDUCE, BLINK_ALGORITHM_RING, 0},
        {"dgx1v_hybrid", ALL, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, 3},
        {"dgx1v_hybrid", 0x72, BLINK_ALLREDUCE, BLINK_ALGORITHM_TREES, 0},
    };
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        lane_program_t *original = compile(topo, &requests[i]);
        mutate(original, requests[i].topology, 20);
        lane_program_destroy(original);
    }
    topo_destroy(topo);
}

static void test_every_mutation_of_every_collective_is_caught(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v_hybrid");
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        for (hand_shape_t shape = APART; shape <= TOGETHER; shape++) {
            lane_program_t *original =
                hand_compile(topo, 5, hand_collectives[i], shape, BLINK_PROTOCOL_SIMPLE);
            mutate(original, blink_name_collective(hand_collectives[i]), 20);
            lane_program_destroy(original);
        }
    }
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_of_demo_allocations_are_right),
        cmocka_unit_test(test_plans_of_every_connected_allocation_are_right),
        cmocka_unit_test(test_every_collective_is_right),
        cmocka_unit_test(test_parts_of_a_channel_share_one_lane_per_rank),
        cmocka_unit_test(test_what_has_no_form_in_place_is_refused),
        cmocka_unit_test(test_plan_with_symmetries_compiles_to_all_its_images),
        cmocka_unit_test(test_plan_that_leaves_a_block_behind_is_refused),
        cmocka_unit_test(test_every_mutation_that_matters_is_caught),
        cmocka_unit_test(test_every_mutation_of_every_collective_is_caught),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    plan_thread_release();
    return failed;
}

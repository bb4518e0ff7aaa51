/* The programs: built by hand as daemon/exec/cuda lays them out, with 64 words of memory for each rank. */
#include "lane_platform.h"

#include "lane.cuh"

#include "lane_world.h"

#include <string.h>

static uint64_t awaited_epoch(void)
{
    return frame.epoch;
}

#define RANKS_MAX 3u
#define STEPS_MAX 5u
#define LIST_MAX  12u
#define SLOTS_MAX 2u

#define NUMBER         7u
#define SEMAPHORE_BASE 100u
#define EPOCH_BASE     500u

/* Words of a rank's memory. */
#define INPUT_AT     0u
#define OUTPUT_AT    12u
#define SCRATCH_AT   24u
#define SEMAPHORE_AT 48u /* two for each rank */
#define RANK_WORDS   64u

/* In the words behind the ranks. */
#define CONTROL_AT (RANKS_MAX * RANK_WORDS)
#define COUNTER_AT (CONTROL_AT + 8u)

static struct flat_program {
    lane_abi_program_t program;
    lane_abi_lane_t lanes[RANKS_MAX];
    lane_abi_step_t steps[STEPS_MAX];
    lane_abi_operand_t operands[LIST_MAX];
    lane_abi_wait_t waits[LIST_MAX];
    lane_abi_signal_t signals[LIST_MAX];
} flat;

static struct flat_binding {
    lane_abi_binding_t binding;
    lane_abi_channel_t channel;
    lane_abi_part_t part;
    lane_abi_edge_t edges[RANKS_MAX];
} bound;

static lane_abi_run_t run;
static lane_world_t world;

static uint32_t lane_count(void)
{
    return world.shape == LANE_SWITCHED ? 3 : world.ranks;
}

static uint64_t address_of(uint32_t word)
{
    return (uint64_t)&views_memory[word];
}

static uint64_t word_of_rank(uint32_t rank, uint32_t at)
{
    return address_of(rank * RANK_WORDS + at);
}

/* Of payload, in a chunk. */
static uint32_t chunk_words(void)
{
    return world.protocol == BLINK_PROTOCOL_SIMPLE ? 4 : world.protocol == BLINK_PROTOCOL_LL ? 2 : 3;
}

/* Each word of 32 bits of every input is another, so that each place of a result has a value of its own. */
static uint64_t input_of(uint32_t rank, uint32_t word)
{
    uint64_t value = 0x1000u + 0x100u * rank + word;
    return value << 32 | (value + 0x10000u);
}

/* ---- programs ---- */

static void step_begin(uint32_t lane)
{
    lane_abi_step_t *step = &flat.steps[flat.program.step_count++];
    if (flat.lanes[lane].step_count++ == 0)
        flat.lanes[lane].step_first = flat.program.step_count - 1;
    *step = lane_abi_step_t{};
    step->src_first = flat.program.operand_count;
    step->wait_first = flat.program.wait_count;
    step->signal_first = flat.program.signal_count;
    step->completes = 1;
}

static lane_abi_step_t *step_now(void)
{
    return &flat.steps[flat.program.step_count - 1];
}

/* All sources first. */
static void step_src(uint32_t buffer, uint32_t rank, uint32_t edge)
{
    flat.operands[flat.program.operand_count++] = lane_abi_operand_t{buffer, rank, edge};
    step_now()->src_count++;
    step_now()->dst_first = flat.program.operand_count;
}

static void step_dst(uint32_t buffer, uint32_t rank, uint32_t edge)
{
    flat.operands[flat.program.operand_count++] = lane_abi_operand_t{buffer, rank, edge};
    step_now()->dst_count++;
}

static void step_awaits(uint32_t kind, uint32_t rank, uint32_t semaphore)
{
    flat.waits[flat.program.wait_count++] = lane_abi_wait_t{semaphore, rank, kind};
    step_now()->wait_count++;
}

static void step_signals(uint32_t kind, uint32_t rank, uint32_t semaphore)
{
    uint32_t announces_data = kind == LANE_ABI_FULL;
    flat.signals[flat.program.signal_count++] = lane_abi_signal_t{semaphore, rank, announces_data};
    step_now()->signal_count++;
}

/* A rank's semaphore 0 says that something has come, and semaphore 1 that what it sent was taken; but the
 * last rank of a meeting has one of either kind for each of the others, as has each of those. */
static void build_chain(void)
{
    uint32_t last = world.ranks - 1;
    for (uint32_t rank = 0; rank <= last; rank++) {
        step_begin(rank);
        step_src(rank == 0 ? LANE_ABI_INPUT : LANE_ABI_SCRATCH, rank, rank == 0 ? 0 : rank - 1);
        if (rank > 0) {
            step_dst(LANE_ABI_OUTPUT, rank, 0);
            step_awaits(LANE_ABI_FULL, rank, 0);
            step_signals(LANE_ABI_FREE, rank - 1, 1);
        }
        if (rank < last) {
            step_dst(LANE_ABI_SCRATCH, rank + 1, rank);
            step_awaits(LANE_ABI_FREE, rank, 1);
            step_signals(LANE_ABI_FULL, rank + 1, 0);
        }
    }
}

static void build_meeting(void)
{
    uint32_t last = world.ranks - 1;
    for (uint32_t rank = 0; rank < last; rank++) {
        step_begin(rank);
        step_src(LANE_ABI_INPUT, rank, 0);
        step_dst(LANE_ABI_SCRATCH, last, rank);
        step_awaits(LANE_ABI_FREE, rank, 1);
        step_signals(LANE_ABI_FULL, last, rank);
    }
    step_begin(last);
    for (uint32_t rank = 0; rank < last; rank++) {
        step_src(LANE_ABI_SCRATCH, last, rank);
        step_awaits(LANE_ABI_FULL, last, rank);
        step_signals(LANE_ABI_FREE, rank, 1);
    }
    step_src(LANE_ABI_INPUT, last, 0);
    step_dst(LANE_ABI_OUTPUT, last, 0);
}

static void build_exchange(void)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        step_begin(rank);
        step_src(LANE_ABI_INPUT, rank, 0);
        step_dst(LANE_ABI_SCRATCH, 1 - rank, rank);
        step_awaits(LANE_ABI_FREE, rank, 1);
        step_signals(LANE_ABI_FULL, 1 - rank, 0);
        step_begin(rank);
        step_src(LANE_ABI_SCRATCH, rank, 1 - rank);
        step_src(LANE_ABI_INPUT, rank, 0);
        step_dst(LANE_ABI_OUTPUT, rank, 0);
        step_awaits(LANE_ABI_FULL, rank, 0);
        step_signals(LANE_ABI_FREE, 1 - rank, 1);
    }
}

/* Inputs are at edge 0 of each rank, and sums at edge 1. Rank 0 has the step of the switch, in the lane that
 * copies to and from its own slots; rank 1 has a lane for either. */
static void build_switched(void)
{
    step_begin(0);
    step_src(LANE_ABI_INPUT, 0, 0);
    step_dst(LANE_ABI_SCRATCH, 0, 0);
    step_begin(0);
    step_src(LANE_ABI_SWITCH, 0, 0);
    step_src(LANE_ABI_SWITCH, 1, 0);
    step_dst(LANE_ABI_SWITCH, 0, 1);
    step_dst(LANE_ABI_SWITCH, 1, 1);
    step_awaits(LANE_ABI_FULL, 0, 0);
    step_awaits(LANE_ABI_FREE, 0, 1);
    step_signals(LANE_ABI_FULL, 1, 0);
    step_signals(LANE_ABI_FREE, 1, 1);
    step_begin(0);
    step_src(LANE_ABI_SCRATCH, 0, 1);
    step_dst(LANE_ABI_OUTPUT, 0, 0);
    step_begin(1);
    step_src(LANE_ABI_INPUT, 1, 0);
    step_dst(LANE_ABI_SCRATCH, 1, 0);
    step_awaits(LANE_ABI_FREE, 1, 1);
    step_signals(LANE_ABI_FULL, 0, 0);
    step_begin(2);
    step_src(LANE_ABI_SCRATCH, 1, 1);
    step_dst(LANE_ABI_OUTPUT, 1, 0);
    step_awaits(LANE_ABI_FULL, 1, 0);
    step_signals(LANE_ABI_FREE, 0, 1);
}

static bool is_of_result(uint32_t rank)
{
    return world.shape == LANE_CHAIN     ? rank > 0
           : world.shape == LANE_MEETING ? rank == world.ranks - 1
                                         : true;
}

static uint64_t result_of(uint32_t word)
{
    uint64_t sum = input_of(0, word);
    for (uint32_t rank = 1; world.shape != LANE_CHAIN && rank < world.ranks; rank++)
        sum += input_of(rank, word);
    return sum;
}

/* ---- the switch ---- */

/* Where it finds the scratch of all ranks: nothing else is there. */
#define SWITCH_ADDRESS (UINT64_C(5) << 40)

static uint32_t find_places(uint64_t address, uint64_t *places)
{
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        places[rank] = word_of_rank(rank, SCRATCH_AT) + address - SWITCH_ADDRESS;
    return world.ranks;
}

uint32_t (*host_switch_places)(uint64_t address, uint64_t *places) = find_places;

/* ---- their binding, and the run ---- */

template <class item_t> static uint32_t offset_in(const void *block, const item_t *item)
{
    return (uint32_t)((const char *)item - (const char *)block);
}

static void build(void)
{
    flat = flat_program{};
    flat.program.protocol = world.protocol;
    flat.program.lane_count = lane_count();
    flat.program.lanes_offset = offset_in(&flat, flat.lanes);
    flat.program.steps_offset = offset_in(&flat, flat.steps);
    flat.program.operands_offset = offset_in(&flat, flat.operands);
    flat.program.waits_offset = offset_in(&flat, flat.waits);
    flat.program.signals_offset = offset_in(&flat, flat.signals);
    for (uint32_t lane = 0; lane < lane_count(); lane++)
        flat.lanes[lane].rank = lane < world.ranks ? lane : world.ranks - 1;
    static void (*const builders[])(void) = {build_chain, build_meeting, build_exchange, build_switched};
    builders[world.shape]();
}

static void bind(void)
{
    uint64_t bytes = 8u * chunk_words();
    bound = flat_binding{};
    bound.binding.slots = world.slots;
    bound.binding.channel_count = bound.binding.part_count = 1;
    bound.binding.edge_count = RANKS_MAX;
    bound.binding.channels_offset = offset_in(&bound, &bound.channel);
    bound.binding.parts_offset = offset_in(&bound, &bound.part);
    bound.binding.edges_offset = offset_in(&bound, bound.edges);
    bound.channel.chunk_bytes = bytes;
    bound.channel.chunks = world.chunks;
    bound.part.extent_bytes = bytes * world.chunks;
    bound.part.siblings = 1;
    for (uint32_t edge = 0; edge < RANKS_MAX; edge++) {
        bound.edges[edge].slot_bytes = 8u * VIEWS_LINE_WORDS;
        bound.edges[edge].scratch_offset = edge * SLOTS_MAX * bound.edges[edge].slot_bytes;
    }
}

static void begin_run(void)
{
    run = lane_abi_run_t{};
    run.program = (uint64_t)&flat;
    run.binding = (uint64_t)&bound;
    run.control = address_of(CONTROL_AT);
    run.blocks_left = address_of(COUNTER_AT);
    run.number = NUMBER;
    run.semaphore_base = SEMAPHORE_BASE;
    run.epoch_base = EPOCH_BASE;
    run.wait_limit_ns = UINT64_MAX;
    run.lane_count = lane_count();
    run.divisor = 1;
    run.rank_count = world.ranks;
    run.by_switch = world.shape == LANE_SWITCHED ? SWITCH_ADDRESS : 0;
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        run.sent_ranks[rank].input = word_of_rank(rank, INPUT_AT);
        run.sent_ranks[rank].output = word_of_rank(rank, OUTPUT_AT);
        run.sent_ranks[rank].scratch = word_of_rank(rank, SCRATCH_AT);
        run.sent_ranks[rank].semaphores = word_of_rank(rank, SEMAPHORE_AT);
    }
}

/* ---- memory ---- */

static lane_abi_control_t *control(void)
{
    return (lane_abi_control_t *)address_of(CONTROL_AT);
}

static void set_up_output(uint32_t rank)
{
    for (uint32_t i = 0; is_of_result(rank) && i < world.chunks * chunk_words(); i++) {
        views_word("output", 100 * rank + i, word_of_rank(rank, OUTPUT_AT + i), 8, 1);
        views_expect(word_of_rank(rank, OUTPUT_AT + i), result_of(i));
    }
}

static void set_up_rank(uint32_t rank)
{
    for (uint32_t i = 0; i < world.chunks * chunk_words(); i++) {
        *(uint64_t *)word_of_rank(rank, INPUT_AT + i) = input_of(rank, i);
        if (world.shape != LANE_CHAIN || rank == 0)
            views_word("input", 100 * rank + i, word_of_rank(rank, INPUT_AT + i), 8, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        *(uint64_t *)word_of_rank(rank, SEMAPHORE_AT + 8 * i) = SEMAPHORE_BASE - 1;
        bool is_full = world.shape == LANE_MEETING ? rank == world.ranks - 1 : i == 0;
        views_word(is_full ? "full" : "free", 100 * rank + i, word_of_rank(rank, SEMAPHORE_AT + 8 * i), 8,
                   world.chunks);
    }
}

/* The slots of an edge at a rank, in which an earlier run has left something. */
static void set_up_slots(uint32_t edge, uint32_t rank)
{
    static const uint32_t LINE = VIEWS_LINE_WORDS;
    uint32_t first = SCRATCH_AT + edge * SLOTS_MAX * LINE;
    for (uint32_t i = 0; i < world.slots * LINE; i++) {
        uint64_t address = word_of_rank(rank, first + i);
        *(uint64_t *)address = (uint64_t)EPOCH_BASE << 32 | 0xbadu;
        views_word("slot", 100 * edge + 20 * rank + i, address, 8,
                   (world.chunks - i / LINE + world.slots - 1) / world.slots);
    }
}

static void set_up_edges(void)
{
    for (uint32_t edge = 0; world.shape == LANE_CHAIN && edge < world.ranks - 1; edge++)
        set_up_slots(edge, edge + 1);
    for (uint32_t edge = 0; world.shape == LANE_MEETING && edge < world.ranks - 1; edge++)
        set_up_slots(edge, world.ranks - 1);
    for (uint32_t edge = 0; world.shape == LANE_EXCHANGE && edge < 2; edge++)
        set_up_slots(edge, 1 - edge);
    for (uint32_t place = 0; world.shape == LANE_SWITCHED && place < 4; place++)
        set_up_slots(place / 2, place % 2);
}

static void set_up(void)
{
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        set_up_output(rank);
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        set_up_rank(rank);
    set_up_edges();
    views_word("abort", 0, (uint64_t)&control()->abort, 4, 0);
    views_word("failed", 0, (uint64_t)&control()->failed, 4, 1);
    views_word("finished", 0, (uint64_t)&control()->finished, 8, 1);
    views_word("ended blocks", 0, address_of(COUNTER_AT), 4, lane_count());
    if (world.may_abort)
        views_may_become((uint64_t)&control()->abort, 1);
}

/* ---- threads ---- */

static void block_main(uint32_t block)
{
    if (world.lacks_last && block == world.ranks - 1)
        block_end(run, block_t{block, lane_count()});
    else if (world.shape == LANE_CHAIN)
        block_run<copying>(run, block_t{block, lane_count()});
    else
        block_run<reduction<uint64_type, sum_operator>>(run, block_t{block, lane_count()});
}

/* All that any block wrote comes before. */
static void host_looks_at(uint32_t rank)
{
    for (uint32_t i = 0; is_of_result(rank) && i < world.chunks * chunk_words(); i++) {
        if (views_load_weak(word_of_rank(rank, OUTPUT_AT + i)) != result_of(i) && !world.may_abort)
            views_fail("the run is over, and a result is not there");
    }
    for (uint32_t i = 0; i < 2; i++)
        views_load_weak(word_of_rank(rank, SEMAPHORE_AT + 8 * i));
}

static void host_main(void)
{
    bool waits_long = false;
    while (views_load_acquire((uint64_t)&control()->finished) != NUMBER) {
        views_pause(!waits_long);
        waits_long = true;
    }
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        host_looks_at(rank);
}

void lane_world_walk(const lane_world_t *what, views_result_t *result)
{
    world = *what;
    frame = frame_t{};
    build();
    bind();
    begin_run();
    views_scenario_t scenario = {};
    scenario.set_up = set_up;
    scenario.block_count = lane_count();
    scenario.block_threads = BLOCK_THREADS;
    scenario.block_main = block_main;
    scenario.host_main = host_main;
    scenario.block_memory = &frame;
    scenario.block_bytes = sizeof(frame);
    scenario.robbery = world.robbery;
    scenario.robbed = world.robbed;
    views_walk(&scenario, result);
}

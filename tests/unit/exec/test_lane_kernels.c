/*
 * The kernels of the lane interpreter, compiled for the host, against the host executor: the same program,
 * cut the same way, gives the same bits in all memory.
 */
#include "exec/host/slot_format.h"
#include "exec/instance.h"
#include "exec_fixture.h"
#include "lane_image.h"

#include <stdio.h>
#include <time.h>

#define WAIT_LIMIT_NS UINT64_C(60000000000)
#define PAD_BYTES     64u
#define TYPES         12

#define FOR_EACH_TYPE(datatype)  for (blink_datatype_t datatype = 0; datatype < TYPES; datatype++)
#define FOR_EACH_OPERATOR(redop) for (blink_redop_t redop = 0; redop <= BLINK_PRE_MUL_SUM; redop++)
#define FOR_EACH_PROTOCOL(protocol)                                                                          \
    for (blink_protocol_t protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++)

/* What is asked for. */
typedef struct shot {
    uint64_t count; /* elements of a block */
    blink_datatype_t datatype;
    blink_redop_t redop;
    uint32_t misalignment; /* of inputs, in elements; outputs are twice as far off */
    bool in_place;
} shot_t;

/* A program with everything that stays from run to run, on either side. */
typedef struct bench {
    const lane_program_t *program;
    exec_instance_t *instance;
    char *scratch[RANKS], *semaphores[RANKS];
    lane_abi_rank_t ranks[RANKS]; /* of the latest run */
    uint64_t base;                /* of semaphores and epochs */
    uint64_t number;
    uint32_t block_count; /* of an independent program */
    bool in_turns;        /* ranks run one after the other, and leave when they would have to wait */
} bench_t;

/* Scratch that is enough for all sizes here. */
#define SCRATCH_BYTES (8u << 20)

static void bench_init(bench_t *bench, const fixture_t *fixture, const lane_program_t *program)
{
    *bench = (bench_t){.program = program, .block_count = 1};
    bench->instance = make_instance(fixture, program);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        bench->scratch[rank] = image_alloc(SCRATCH_BYTES);
        bench->semaphores[rank] = image_alloc(program->semaphore_count * LANE_ABI_SEMAPHORE_BYTES);
    }
}

static void bench_fini(bench_t *bench)
{
    exec_instance_destroy(bench->instance);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(bench->scratch[rank]);
        free(bench->semaphores[rank]);
    }
}

/* ---- memory ---- */

/* Of every rank: room for the largest input, then for the largest output. Twice: for the executor and for
 * kernels. */
typedef struct memory {
    shot_t shot;
    size_t bytes, half_bytes;
    char *bases[2][RANKS];
    const void *inputs[2][RANKS];
    void *outputs[2][RANKS];
    uint64_t scalars[RANKS];
} memory_t;

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random ^ *random >> 29;
}

/* Any bits, for floats also NaN, infinities, subnormals; those of a float32 are often near 1. */
static void fill_random(char *bytes, size_t count, uint64_t seed)
{
    for (size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t bits = next_random(&seed);
        if (bits >> 62)
            bits = (bits & 0x80ffffff80ffffffu) | 0x3f0000003f000000u;
        memcpy(bytes + i, &bits, 8);
    }
}

static void memory_init(memory_t *memory, const shot_t *shot, uint64_t seed)
{
    *memory = (memory_t){.shot = *shot};
    uint32_t element_bytes = blink_datatype_bytes(shot->datatype);
    memory->half_bytes = (RANKS * shot->count * element_bytes + 127) / 64 * 64 + PAD_BYTES;
    memory->bytes = 2 * memory->half_bytes;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t side = 0; side < 2; side++) {
            char *base = image_alloc(memory->bytes);
            fill_random(base, memory->bytes, seed + rank);
            memory->bases[side][rank] = base;
            memory->inputs[side][rank] = base + shot->misalignment * element_bytes;
            memory->outputs[side][rank] =
                base + (shot->in_place ? shot->misalignment * element_bytes
                                       : memory->half_bytes + 2 * shot->misalignment * element_bytes);
        }
        fill_random((char *)&memory->scalars[rank], 8, seed * 7 + rank);
    }
}

static void memory_fini(memory_t *memory)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(memory->bases[0][rank]);
        free(memory->bases[1][rank]);
    }
}

static void assert_same_memory(const memory_t *memory, const lane_program_t *program)
{
    const shot_t *shot = &memory->shot;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const char *expected = memory->bases[0][rank], *got = memory->bases[1][rank];
        if (memcmp(expected, got, memory->bytes) == 0)
            continue;
        size_t at = 0;
        while (expected[at] == got[at])
            at++;
        fail_msg("%s of %llu × %s, %s, protocol %d, in place %d, misaligned %u: rank %u holds %#x at byte "
                 "%zu of its %s, not %#x",
                 blink_name_collective(program->collective), (unsigned long long)shot->count,
                 blink_name_datatype(shot->datatype), blink_name_redop(shot->redop), (int)program->protocol,
                 shot->in_place, shot->misalignment, rank, (uint8_t)got[at],
                 at < memory->half_bytes ? at : at - memory->half_bytes,
                 at < memory->half_bytes ? "input" : "output", (uint8_t)expected[at]);
    }
}

/* ---- runs ---- */

static void run_expected(const bench_t *bench, memory_t *memory)
{
    outcome_t outcome;
    outcome_init(&outcome);
    bool scales = memory->shot.redop == BLINK_PRE_MUL_SUM;
    exec_run_t run = {.inputs = memory->inputs[0],
                      .outputs = memory->outputs[0],
                      .count = memory->shot.count,
                      .datatype = memory->shot.datatype,
                      .redop = memory->shot.redop,
                      .scalars = scales ? memory->scalars : NULL,
                      .done = on_end,
                      .context = &outcome};
    start_run(bench->instance, &run);
    assert_int_equal(wait_done(&outcome, 1), BLINK_OK);
    outcome_fini(&outcome);
}

static bool is_move(const lane_program_t *program)
{
    for (uint32_t s = 0; s < program->step_count; s++)
        if (program->steps[s].src_count > 1)
            return false;
    return true;
}

static host_kernel_t *find_kernel(const lane_program_t *program, const shot_t *shot)
{
    static const char *const operators[] = {"sum", "prod", "max", "min", "sum", "sum"};
    char name[LANE_ABI_KERNEL_NAME_BYTES] = "blink_lanes_move";
    if (!is_move(program))
        snprintf(name, sizeof(name), "blink_lanes_%s_%s", blink_name_datatype(shot->datatype),
                 operators[shot->redop]);
    host_kernel_t *kernel = host_kernel_find(name);
    if (!kernel)
        fail_msg("no kernel %s", name);
    return kernel;
}

static lane_abi_rank_t rank_at(const bench_t *bench, const memory_t *memory, uint32_t rank)
{
    uint64_t block_bytes = memory->shot.count * blink_datatype_bytes(memory->shot.datatype);
    return (lane_abi_rank_t){.input = (uint64_t)(uintptr_t)memory->inputs[1][rank],
                             .output = (uint64_t)(uintptr_t)memory->outputs[1][rank],
                             .input_stride_bytes = block_bytes,
                             .output_stride_bytes = block_bytes,
                             .scratch = (uint64_t)(uintptr_t)bench->scratch[rank],
                             .semaphores = (uint64_t)(uintptr_t)bench->semaphores[rank],
                             .scalar = memory->scalars[rank]};
}

static void fill_ranks(bench_t *bench, const memory_t *memory)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        bench->ranks[rank] = rank_at(bench, memory, rank);
}

/* For the GPU of one rank, after fill_ranks(). */
static launch_t make_launch(const bench_t *bench, const memory_t *memory, const lane_image_t *image,
                            uint32_t rank)
{
    uint32_t lane_count = image->lane_first[rank + 1] - image->lane_first[rank];
    bool averages = memory->shot.redop == BLINK_AVG;
    launch_t launch = {.kernel = find_kernel(bench->program, &memory->shot),
                       .block_count =
                           bench->program->independent || !lane_count ? bench->block_count : lane_count,
                       .run = {.program = (uint64_t)(uintptr_t)image->program.bytes,
                               .binding = (uint64_t)(uintptr_t)image->binding.bytes,
                               .number = bench->number,
                               .semaphore_base = bench->base,
                               .epoch_base = bench->base,
                               .wait_limit_ns = WAIT_LIMIT_NS,
                               .lane_first = image->lane_first[rank],
                               .lane_count = lane_count,
                               .divisor = averages ? bench->program->rank_count : 1,
                               .scaled = memory->shot.redop == BLINK_PRE_MUL_SUM}};
    launch.run.rank_count = RANKS;
    if (bench->number % 2 == 0) /* every other run has its ranks elsewhere, as if they were many */
        launch.run.ranks = (uint64_t)(uintptr_t)bench->ranks;
    else
        memcpy(launch.run.sent_ranks, bench->ranks, sizeof(bench->ranks));
    return launch;
}

static void run_at_once(const bench_t *bench, const memory_t *memory, const lane_image_t *image)
{
    launch_t launches[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        launches[rank] = make_launch(bench, memory, image, rank);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        launch_begin(&launches[rank]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_false(launch_end(&launches[rank]));
}

static bool have_ended(const lane_image_t *image, const lane_geometry_t *geometry,
                       const lane_abi_progress_t *progress)
{
    const lane_abi_program_t *program = image->program.bytes;
    const lane_abi_lane_t *lanes = (const void *)((const char *)image->program.bytes + program->lanes_offset);
    uint32_t lane = 0;
    while (lane < image->lane_first[RANKS] &&
           progress[lane].chunk == geometry->channels[lanes[lane].channel].chunks)
        lane++;
    return lane == image->lane_first[RANKS];
}

/* As if there was room for the lanes of one rank only: each leaves as soon as it would have to wait. In every
 * round some lane gets further. */
static void run_in_turns(const bench_t *bench, const memory_t *memory, const lane_image_t *image,
                         const lane_geometry_t *geometry)
{
    size_t bytes = (image->lane_first[RANKS] + 1) * sizeof(lane_abi_progress_t);
    lane_abi_progress_t *progress = image_alloc(bytes), *before = image_alloc(bytes);
    while (!have_ended(image, geometry, progress)) {
        memcpy(before, progress, bytes);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            launch_t launch = make_launch(bench, memory, image, rank);
            launch.run.progress = (uint64_t)(uintptr_t)progress;
            launch.run.wait_limit_ns = 1;
            launch_begin(&launch);
            assert_false(launch_end(&launch));
        }
        assert_memory_not_equal(before, progress, bytes);
    }
    free(progress);
    free(before);
}

static void run_kernels(bench_t *bench, const memory_t *memory, const lane_geometry_t *geometry)
{
    lane_image_t image;
    image_init(geometry, &image);
    assert_true(geometry->scratch_bytes <= SCRATCH_BYTES);
    bench->number++;
    fill_ranks(bench, memory);
    if (bench->in_turns)
        run_in_turns(bench, memory, &image, geometry);
    else
        run_at_once(bench, memory, &image);
    for (uint32_t c = 0; c < geometry->program->channel_count; c++)
        bench->base += geometry->channels[c].chunks;
    image_fini(&image);
}

/* Cut as by the executor, or in chunks of chunk_bytes through two slots: then of a reduction that does not
 * depend on who carries what. */
static void check_cut(bench_t *bench, shot_t shot, uint64_t chunk_bytes)
{
    memory_t memory;
    memory_init(&memory, &shot, bench->number * 1000 + 17);
    run_expected(bench, &memory);
    if (chunk_bytes > 0) {
        lane_geometry_t geometry;
        uint64_t block_bytes = shot.count * blink_datatype_bytes(shot.datatype);
        assert_int_equal(lane_geometry_init(bench->program, block_bytes, chunk_bytes, 2, &geometry),
                         BLINK_OK);
        run_kernels(bench, &memory, &geometry);
        lane_geometry_fini(&geometry);
    } else {
        run_kernels(bench, &memory, &bench->instance->geometry);
    }
    assert_same_memory(&memory, bench->program);
    memory_fini(&memory);
}

static void check_shot(bench_t *bench, shot_t shot)
{
    check_cut(bench, shot, shot.count > 0 ? 0 : 1024);
}

/* ---- programs ---- */

/* An allreduce in memory that all ranks share: two channels, in each of which a root pulls. */
static lane_program_t *make_independent(fixture_t *fixture)
{
    for (uint32_t i = 0; i < LINKS; i++)
        fixture->links[i].kind = TOPO_SHM;
    plan_t *plan = hand_plan(&fixture->topo, RANKS, BLINK_ALLREDUCE, APART);
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        plan_part_t *part = &plan->channels[c].parts[0];
        part->root = c;
        hand_fill_tree(&fixture->topo, plan, &part->reduce, c, SHORT_WAY, true);
        hand_fill_tree(&fixture->topo, plan, &part->broadcast, c, SHORT_WAY, false);
    }
    lane_program_t *program = NULL;
    assert_int_equal(lane_compile(&fixture->topo, plan, NULL, &program), BLINK_OK);
    assert_true(program->independent);
    plan_destroy(plan);
    return program;
}

typedef struct independent {
    fixture_t fixture;
    lane_program_t *program;
    bench_t bench;
} independent_t;

static void independent_init(independent_t *independent)
{
    fixture_init(&independent->fixture, 1, 0.0);
    independent->program = make_independent(&independent->fixture);
    bench_init(&independent->bench, &independent->fixture, independent->program);
}

static void independent_fini(independent_t *independent)
{
    bench_fini(&independent->bench);
    lane_program_destroy(independent->program);
    fixture_fini(&independent->fixture);
}

/* ---- the tests ---- */

static void test_every_collective_in_every_protocol(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 17, 1021, 30011, 4};
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    FOR_EACH_PROTOCOL(protocol)
    {
        for (size_t i = 0; i < 2 * HAND_COLLECTIVES; i++) {
            hand_shape_t shape = i % 2 ? TOGETHER : APART;
            lane_program_t *program = make_program(&fixture, hand_collectives[i / 2], shape, protocol);
            bench_t bench;
            bench_init(&bench, &fixture, program);
            for (size_t c = 0; c < LENGTH(counts); c++) {
                check_shot(&bench, (shot_t){.count = counts[c], .datatype = BLINK_FLOAT32});
                check_shot(&bench, (shot_t){counts[c], BLINK_FLOAT16, BLINK_SUM, (uint32_t)c % 3, false});
            }
            check_cut(&bench, (shot_t){.count = 20011, .datatype = BLINK_INT32}, 1024);
            bench_fini(&bench);
            lane_program_destroy(program);
        }
    }
    fixture_fini(&fixture);
}

static void test_lanes_that_leave_are_taken_up_again(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    for (size_t i = 0; i < 2 * HAND_COLLECTIVES; i++) {
        hand_shape_t shape = i % 2 ? TOGETHER : APART;
        blink_collective_t collective = hand_collectives[i / 2];
        lane_program_t *program = make_program(&fixture, collective, shape, BLINK_PROTOCOL_SIMPLE);
        bench_t bench;
        bench_init(&bench, &fixture, program);
        bench.in_turns = true;
        check_shot(&bench, (shot_t){.count = 0, .datatype = BLINK_FLOAT32});
        check_shot(&bench, (shot_t){.count = 30011, .datatype = BLINK_FLOAT32});
        check_cut(&bench, (shot_t){.count = 5003, .datatype = BLINK_INT32}, 1024);
        if (collective == BLINK_ALLREDUCE)
            check_cut(&bench, (shot_t){.count = 5003, .datatype = BLINK_INT32, .in_place = true}, 1024);
        bench_fini(&bench);
        lane_program_destroy(program);
    }
    fixture_fini(&fixture);
}

static void test_every_type_and_operator_in_every_protocol(void **state)
{
    (void)state;
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    FOR_EACH_PROTOCOL(protocol)
    {
        lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, APART, protocol);
        bench_t bench;
        bench_init(&bench, &fixture, program);
        FOR_EACH_TYPE(datatype)
        {
            FOR_EACH_OPERATOR(redop)
            {
                check_shot(&bench, (shot_t){999, datatype, redop, 0, false});
                check_shot(&bench, (shot_t){131, datatype, redop, 1, true});
            }
        }
        bench_fini(&bench);
        lane_program_destroy(program);
    }
    fixture_fini(&fixture);
}

static void test_independent_programs_on_any_number_of_blocks(void **state)
{
    (void)state;
    independent_t independent;
    independent_init(&independent);
    bench_t *bench = &independent.bench;
    for (bench->block_count = 1; bench->block_count <= 5; bench->block_count += 2) {
        check_shot(bench, (shot_t){100003, BLINK_BFLOAT16, BLINK_AVG, 0, false});
        check_cut(bench, (shot_t){5001, BLINK_INT8, BLINK_SUM, 1, true}, 1024);
    }
    independent_fini(&independent);
}

static void test_every_length_and_misalignment(void **state)
{
    (void)state;
    independent_t independent;
    independent_init(&independent);
    FOR_EACH_TYPE(datatype)
    {
        for (uint32_t count = 0; count < 90; count++)
            check_shot(&independent.bench, (shot_t){count, datatype, count % 6, count % 7, count % 2});
    }
    independent_fini(&independent);
}

/* All encodings of the small floats meet many others, in every operator. */
static void test_many_small_floats(void **state)
{
    (void)state;
    static const blink_datatype_t small[] = {BLINK_FLOAT16, BLINK_BFLOAT16, BLINK_FLOAT8_E4M3,
                                             BLINK_FLOAT8_E5M2};
    independent_t independent;
    independent_init(&independent);
    for (size_t i = 0; i < LENGTH(small); i++)
        FOR_EACH_OPERATOR(redop)
    check_shot(&independent.bench, (shot_t){.count = 200000, .datatype = small[i], .redop = redop});
    independent_fini(&independent);
}

/* ---- what never comes ---- */

static void sleep_ms(long ms)
{
    struct timespec span = {.tv_nsec = ms * 1000000};
    nanosleep(&span, NULL);
}

/* The launch of one rank, whose neighbours never do their part. Whether it says that a wait met its deadline.
 */
static bool run_alone(blink_protocol_t protocol, uint64_t limit_ns, bool aborts)
{
    fixture_t fixture;
    fixture_init(&fixture, 1, 0.0);
    lane_program_t *program = make_program(&fixture, BLINK_ALLREDUCE, TOGETHER, protocol);
    bench_t bench;
    memory_t memory;
    lane_geometry_t geometry;
    lane_image_t image;
    bench_init(&bench, &fixture, program);
    bench.number = 7;
    memory_init(&memory, &(shot_t){.count = 3000, .datatype = BLINK_FLOAT64}, 3);
    assert_int_equal(lane_geometry_init(program, 24000, 1024, 2, &geometry), BLINK_OK);
    image_init(&geometry, &image);
    fill_ranks(&bench, &memory);
    launch_t launch = make_launch(&bench, &memory, &image, 1);
    launch.run.wait_limit_ns = limit_ns;
    launch_begin(&launch);
    if (aborts) {
        sleep_ms(20);
        __atomic_store_n(&launch.control.abort, 1, __ATOMIC_RELAXED);
    }
    bool failed = launch_end(&launch);
    image_fini(&image);
    lane_geometry_fini(&geometry);
    memory_fini(&memory);
    bench_fini(&bench);
    lane_program_destroy(program);
    fixture_fini(&fixture);
    return failed;
}

static void test_aborted_run_ends(void **state)
{
    (void)state;
    FOR_EACH_PROTOCOL(protocol)
    assert_false(run_alone(protocol, WAIT_LIMIT_NS, true));
}

/* What this process has used of processors while one rank waited so long for the others. */
static uint64_t waiting_costs_ns(uint64_t limit_ns)
{
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    assert_true(run_alone(BLINK_PROTOCOL_SIMPLE, limit_ns, false));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return (uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u + (uint64_t)after.tv_nsec -
           (uint64_t)before.tv_nsec;
}

/* Beside what a run costs however short its wait. */
static void test_a_long_wait_leaves_the_processors_to_others(void **state)
{
    (void)state;
    const uint64_t short_ns = 10000000, long_ns = 3000000000;
    uint64_t run_ns = waiting_costs_ns(short_ns);
    assert_true(waiting_costs_ns(long_ns) < run_ns + long_ns / 2);
}

static void test_wait_that_meets_its_deadline_ends_the_run(void **state)
{
    (void)state;
    FOR_EACH_PROTOCOL(protocol)
    assert_true(run_alone(protocol, 10000000, false));
}

/* ---- slots with flags ---- */

/* A program of one step: rank 0 passes on what is in its slot to rank 1 and to its output. */
typedef struct relay {
    lane_channel_t channel;
    lane_part_t part;
    lane_t lane;
    lane_step_t step;
    lane_operand_t operands[3];
    lane_program_t program;
} relay_t;

static void relay_init(relay_t *relay, blink_protocol_t protocol)
{
    *relay = (relay_t){
        .channel = {.share = 1.0, .part_count = 1, .edge_count = 2},
        .part = {.siblings = 1, .end = 1.0},
        .lane = {.to_rank = PLAN_NONE, .step_count = 1},
        .step = {.src_count = 1, .dst_first = 1, .dst_count = 2},
        .operands = {{LANE_SCRATCH, 0, 0, PLAN_NONE},
                     {LANE_SCRATCH, 1, 1, PLAN_NONE},
                     {LANE_OUTPUT, 0, PLAN_NONE, PLAN_NONE}},
    };
    relay->program = (lane_program_t){.collective = BLINK_BROADCAST,
                                      .rank_count = 2,
                                      .block_count = 1,
                                      .protocol = protocol,
                                      .edge_count = 2,
                                      .channel_count = 1,
                                      .part_count = 1,
                                      .lane_count = 1,
                                      .step_count = 1,
                                      .operand_count = 3,
                                      .channels = &relay->channel,
                                      .parts = &relay->part,
                                      .lanes = &relay->lane,
                                      .steps = &relay->step,
                                      .operands = relay->operands};
}

/* With so much of the chunk in the slot. True: a wait met its deadline. */
static bool run_relay(blink_protocol_t protocol, const char *data, uint64_t bytes, uint64_t arrived,
                      char *output, char *passed_on)
{
    enum { EPOCH_BASE = 41 };
    relay_t relay;
    lane_geometry_t geometry;
    lane_image_t image;
    relay_init(&relay, protocol);
    assert_int_equal(lane_geometry_init(&relay.program, bytes, bytes, 1, &geometry), BLINK_OK);
    image_init(&geometry, &image);
    char *slots[2] = {image_alloc(geometry.scratch_bytes), image_alloc(geometry.scratch_bytes)};
    slot_store(protocol, slots[0], data, arrived, EPOCH_BASE + 1);
    launch_t launch = {.kernel = host_kernel_find("blink_lanes_move"),
                       .block_count = 1,
                       .run = {.program = (uint64_t)(uintptr_t)image.program.bytes,
                               .binding = (uint64_t)(uintptr_t)image.binding.bytes,
                               .number = 1,
                               .epoch_base = EPOCH_BASE,
                               .wait_limit_ns = 1000000,
                               .lane_count = 1,
                               .divisor = 1,
                               .rank_count = 2}};
    launch.run.sent_ranks[0].output = (uint64_t)(uintptr_t)output;
    for (uint32_t rank = 0; rank < 2; rank++)
        launch.run.sent_ranks[rank].scratch = (uint64_t)(uintptr_t)slots[rank];
    launch_begin(&launch);
    bool failed = launch_end(&launch);
    char *end = slots[1] + image_edge_offset(&image, 1);
    if (!failed) {
        assert_true(slot_arrived(protocol, end, bytes, EPOCH_BASE + 1));
        slot_load(protocol, end, passed_on, bytes);
    }
    free(slots[0]);
    free(slots[1]);
    image_fini(&image);
    lane_geometry_fini(&geometry);
    return failed;
}

static void test_slots_are_those_of_the_host_executor(void **state)
{
    (void)state;
    char data[1000], output[1001], passed_on[1001];
    fill_random(data, sizeof(data), 5);
    for (blink_protocol_t protocol = BLINK_PROTOCOL_LL; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        for (uint64_t bytes = 1; bytes <= sizeof(data); bytes += bytes < 260 ? 1 : 37) {
            memset(output, 0x55, sizeof(output));
            memset(passed_on, 0x55, sizeof(passed_on));
            assert_false(run_relay(protocol, data, bytes, bytes, output, passed_on));
            assert_memory_equal(output, data, bytes);
            assert_memory_equal(passed_on, data, bytes);
            assert_true(output[bytes] == 0x55);
        }
    }
}

/* One word, or line, less than all. */
static void test_nothing_is_taken_before_its_flag(void **state)
{
    (void)state;
    char data[1000], output[1001], passed_on[1001];
    fill_random(data, sizeof(data), 5);
    for (uint64_t bytes = 1; bytes <= 24; bytes++)
        assert_true(run_relay(BLINK_PROTOCOL_LL, data, bytes, (bytes - 1) / 4 * 4, output, passed_on));
    for (uint64_t bytes = 100; bytes <= 500; bytes += 100)
        assert_true(run_relay(BLINK_PROTOCOL_LL128, data, bytes, (bytes - 1) / 120 * 120, output, passed_on));
}

static void test_kernels_are_found_by_name(void **state)
{
    (void)state;
    assert_non_null(host_kernel_find("blink_lanes_move"));
    assert_non_null(host_kernel_find("blink_lanes_float8_e5m2_min"));
    assert_null(host_kernel_find("blink_lanes_float32_avg"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_found_by_name),
        cmocka_unit_test(test_every_length_and_misalignment),
        cmocka_unit_test(test_many_small_floats),
        cmocka_unit_test(test_independent_programs_on_any_number_of_blocks),
        cmocka_unit_test(test_every_type_and_operator_in_every_protocol),
        cmocka_unit_test(test_every_collective_in_every_protocol),
        cmocka_unit_test(test_lanes_that_leave_are_taken_up_again),
        cmocka_unit_test(test_slots_are_those_of_the_host_executor),
        cmocka_unit_test(test_nothing_is_taken_before_its_flag),
        cmocka_unit_test(test_aborted_run_ends),
        cmocka_unit_test(test_wait_that_meets_its_deadline_ends_the_run),
        cmocka_unit_test(test_a_long_wait_leaves_the_processors_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

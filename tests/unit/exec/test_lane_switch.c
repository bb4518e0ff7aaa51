/*
 * Plans by multicast on the kernels, compiled for the host: a switch that reduces and copies where it can,
 * which here is a function, and the memory of every rank where it cannot.
 */
#include "element.h"
#include "lane_image.h"
#include "names.h"
#include "plan/plan.h"

#include <stdio.h>

#define RANKS         4u
#define TYPES         12
#define SCRATCH_BYTES (1u << 20)
#define WAIT_LIMIT_NS UINT64_C(60000000000)
#define WEIGHT        2 /* of every rank, where inputs are multiplied */

/* Where the switch finds the scratch of all ranks: nothing else is there. */
#define SWITCH_ADDRESS (UINT64_C(5) << 40)

static char *scratch[RANKS];
static _Atomic uint64_t switched; /* how often the switch was asked */

static uint32_t find_places(uint64_t address, uint64_t *places)
{
    assert_true(address >= SWITCH_ADDRESS && address - SWITCH_ADDRESS < SCRATCH_BYTES);
    switched++;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        places[rank] = (uint64_t)(uintptr_t)scratch[rank] + address - SWITCH_ADDRESS;
    return RANKS;
}

typedef struct bench {
    topo_t *topo;
    lane_program_t *program;
    char *semaphores[RANKS], *inputs[RANKS], *outputs[RANKS];
    uint64_t base, number;
} bench_t;

static void bench_init(bench_t *bench)
{
    uint32_t nodes[RANKS];
    plan_t *plan = NULL;
    *bench = (bench_t){0};
    assert_int_equal(topo_load("dgx_h100", &bench->topo), BLINK_OK);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        nodes[rank] = bench->topo->gpus[rank];
    const plan_request_t request = {.collective = BLINK_ALLREDUCE,
                                    .algorithm = BLINK_ALGORITHM_MULTICAST,
                                    .rank_node = nodes,
                                    .rank_count = RANKS,
                                    .multicast = true};
    assert_int_equal(plan_create(bench->topo, &request, &plan), BLINK_OK);
    assert_int_equal(lane_compile(bench->topo, plan, NULL, &bench->program), BLINK_OK);
    plan_destroy(plan);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        scratch[rank] = image_alloc(SCRATCH_BYTES);
        bench->semaphores[rank] = image_alloc(bench->program->semaphore_count * LANE_ABI_SEMAPHORE_BYTES);
    }
}

static void bench_fini(bench_t *bench)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(scratch[rank]);
        free(bench->semaphores[rank]);
    }
    lane_program_destroy(bench->program);
    topo_destroy(bench->topo);
}

/* ---- one run ---- */

typedef struct shot {
    uint64_t count;
    blink_datatype_t datatype;
    blink_redop_t redop;
    bool in_place, by_switch;
} shot_t;

/* Small enough for sums and products of all ranks to be exact in every type. */
static double value_of(uint32_t rank, uint64_t i)
{
    return (double)((i * 7 + rank * 3) % 3);
}

static double expected_of(const shot_t *shot, uint64_t i)
{
    double result = value_of(0, i) * (shot->redop == BLINK_PRE_MUL_SUM ? WEIGHT : 1);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        double x = value_of(rank, i);
        if (shot->redop == BLINK_PROD)
            result *= x;
        else if (shot->redop == BLINK_MAX)
            result = x > result ? x : result;
        else if (shot->redop == BLINK_MIN)
            result = x < result ? x : result;
        else
            result += shot->redop == BLINK_PRE_MUL_SUM ? x * WEIGHT : x;
    }
    return shot->redop == BLINK_AVG ? result / RANKS : result;
}

static bool is_float(blink_datatype_t datatype)
{
    return datatype >= BLINK_FLOAT16;
}

/* As docs/gpu.md lists what switches do. */
static bool is_switched(const shot_t *shot)
{
    bool compares = shot->redop == BLINK_MIN || shot->redop == BLINK_MAX;
    switch (shot->datatype) {
    case BLINK_FLOAT16:
    case BLINK_BFLOAT16:
    case BLINK_FLOAT32:
    case BLINK_FLOAT64:
        return shot->redop != BLINK_PROD && !compares;
    case BLINK_INT32:
    case BLINK_UINT32:
    case BLINK_INT64:
    case BLINK_UINT64:
        return shot->redop != BLINK_PROD;
    default:
        return false;
    }
}

static void fill_memory(bench_t *bench, const shot_t *shot)
{
    uint32_t bytes = blink_datatype_bytes(shot->datatype);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        bench->inputs[rank] = image_alloc(shot->count * bytes + 1);
        bench->outputs[rank] = shot->in_place ? bench->inputs[rank] : image_alloc(shot->count * bytes + 1);
        bench->outputs[rank][shot->count * bytes] = 'x'; /* nothing is written beyond the end */
        for (uint64_t i = 0; i < shot->count; i++)
            element_store(shot->datatype, value_of(rank, i), bench->inputs[rank] + i * bytes);
    }
}

static void check_memory(bench_t *bench, const shot_t *shot)
{
    uint32_t bytes = blink_datatype_bytes(shot->datatype);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(bench->outputs[rank][shot->count * bytes], 'x');
        for (uint64_t i = 0; i < shot->count; i++) {
            double got = element_load(shot->datatype, bench->outputs[rank] + i * bytes);
            double expected = expected_of(shot, i);
            if (!is_float(shot->datatype))
                expected = (double)(int64_t)expected;
            if (got != expected)
                fail_msg("%s %s, rank %u, element %llu of %llu: %g, not %g",
                         blink_name_datatype(shot->datatype), blink_name_redop(shot->redop), rank,
                         (unsigned long long)i, (unsigned long long)shot->count, got, expected);
        }
        free(bench->inputs[rank]);
        if (!shot->in_place)
            free(bench->outputs[rank]);
    }
}

static launch_t make_launch(const bench_t *bench, const shot_t *shot, const lane_image_t *image, uint32_t gpu)
{
    static const char *const operators[] = {"sum", "prod", "max", "min", "sum", "sum"};
    char name[LANE_ABI_KERNEL_NAME_BYTES];
    snprintf(name, sizeof(name), "blink_lanes_%s_%s", blink_name_datatype(shot->datatype),
             operators[shot->redop]);
    uint32_t lane_count = image->lane_first[gpu + 1] - image->lane_first[gpu];
    launch_t launch = {.kernel = host_kernel_find(name),
                       .block_count = lane_count,
                       .run = {.program = (uint64_t)(uintptr_t)image->program.bytes,
                               .binding = (uint64_t)(uintptr_t)image->binding.bytes,
                               .number = bench->number,
                               .semaphore_base = bench->base,
                               .wait_limit_ns = WAIT_LIMIT_NS,
                               .by_switch = shot->by_switch ? SWITCH_ADDRESS : 0,
                               .lane_first = image->lane_first[gpu],
                               .lane_count = lane_count,
                               .divisor = shot->redop == BLINK_AVG ? RANKS : 1,
                               .scaled = shot->redop == BLINK_PRE_MUL_SUM,
                               .rank_count = RANKS}};
    assert_non_null(launch.kernel);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        launch.run.sent_ranks[rank] =
            (lane_abi_rank_t){.input = (uint64_t)(uintptr_t)bench->inputs[rank],
                              .output = (uint64_t)(uintptr_t)bench->outputs[rank],
                              .scratch = (uint64_t)(uintptr_t)scratch[rank],
                              .semaphores = (uint64_t)(uintptr_t)bench->semaphores[rank]};
        element_store(shot->datatype, WEIGHT, &launch.run.sent_ranks[rank].scalar);
    }
    return launch;
}

/* What a switch touches at once is at the same place in everybody's scratch. */
static void check_places(const lane_program_t *program, const lane_image_t *image)
{
    for (uint32_t i = 1; i < program->operand_count; i++) {
        const lane_operand_t *before = &program->operands[i - 1], *operand = &program->operands[i];
        bool is_next = operand->buffer == LANE_SHARED && before->buffer == LANE_SHARED &&
                       operand->path != PLAN_NONE && before->path != PLAN_NONE &&
                       operand->rank == before->rank + 1;
        if (is_next)
            assert_int_equal(image_edge_offset(image, operand->edge), image_edge_offset(image, before->edge));
    }
}

static void check(bench_t *bench, shot_t shot)
{
    lane_geometry_t geometry;
    lane_image_t image;
    launch_t launches[RANKS];
    uint64_t bytes = shot.count * blink_datatype_bytes(shot.datatype);
    assert_int_equal(lane_geometry_init(bench->program, bytes, 1024, 2, &geometry), BLINK_OK);
    assert_true(geometry.scratch_bytes <= SCRATCH_BYTES);
    image_init(&geometry, &image);
    check_places(bench->program, &image);
    fill_memory(bench, &shot);
    switched = 0;
    bench->number++;
    for (uint32_t gpu = 0; gpu < RANKS; gpu++)
        launches[gpu] = make_launch(bench, &shot, &image, gpu);
    for (uint32_t gpu = 0; gpu < RANKS; gpu++)
        launch_begin(&launches[gpu]);
    for (uint32_t gpu = 0; gpu < RANKS; gpu++)
        assert_false(launch_end(&launches[gpu]));
    assert_int_equal(switched > 0, shot.by_switch && is_switched(&shot) && shot.count > 0);
    check_memory(bench, &shot);
    for (uint32_t c = 0; c < bench->program->channel_count; c++)
        bench->base += geometry.channels[c].chunks;
    image_fini(&image);
    lane_geometry_fini(&geometry);
}

/* ---- the tests ---- */

static void test_every_type_and_operator(void **state)
{
    static const uint64_t counts[] = {0, 1, 999, 6000};
    bench_t bench;
    (void)state;
    bench_init(&bench);
    for (blink_datatype_t datatype = 0; datatype < TYPES; datatype++)
        for (blink_redop_t redop = 0; redop <= BLINK_PRE_MUL_SUM; redop++)
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
                check(&bench, (shot_t){counts[c], datatype, redop, c % 2, true});
    bench_fini(&bench);
}

static void test_without_the_switch_each_ranks_memory_is_used(void **state)
{
    bench_t bench;
    (void)state;
    bench_init(&bench);
    check(&bench, (shot_t){6001, BLINK_FLOAT32, BLINK_SUM, false, false});
    check(&bench, (shot_t){6001, BLINK_FLOAT32, BLINK_SUM, false, true});
    check(&bench, (shot_t){6001, BLINK_INT64, BLINK_MIN, true, false});
    bench_fini(&bench);
}

int main(void)
{
    host_switch_places = find_places;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_and_operator),
        cmocka_unit_test(test_without_the_switch_each_ranks_memory_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

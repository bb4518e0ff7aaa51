/*
 * Every collective through the host executor with real bytes: each output is what the collective says, and
 * not a byte besides is touched.
 */
#include "exec_fixture.h"

enum { ROOT = RANKS - 1, PEER = 2 }; /* as hand_plan() has them */

/* Buffers of one run. The memory of a rank is room for its input, then for its output. */
typedef struct buffers {
    blink_collective_t collective;
    uint64_t count; /* elements of a block */
    bool in_place;
    int32_t *memory[RANKS];
    int32_t *image[RANKS]; /* what the memory shall be in the end */
    const void *inputs[RANKS];
    void *outputs[RANKS];
} buffers_t;

static size_t memory_elements(const buffers_t *buffers)
{
    return 2 * RANKS * buffers->count + 1;
}

/* ---- what the collectives say ---- */

static uint32_t input_blocks(blink_collective_t collective, uint32_t rank)
{
    switch (collective) {
    case BLINK_ALLREDUCE:
    case BLINK_REDUCE:
    case BLINK_ALLGATHER:
    case BLINK_GATHER:
        return 1;
    case BLINK_REDUCESCATTER:
    case BLINK_ALLTOALL:
        return RANKS;
    case BLINK_BROADCAST:
    case BLINK_SENDRECV:
        return rank == ROOT ? 1 : 0;
    case BLINK_SCATTER:
        return rank == ROOT ? RANKS : 0;
    }
    return 0;
}

static uint32_t output_blocks(blink_collective_t collective, uint32_t rank)
{
    switch (collective) {
    case BLINK_ALLREDUCE:
    case BLINK_BROADCAST:
    case BLINK_REDUCESCATTER:
    case BLINK_SCATTER:
        return 1;
    case BLINK_ALLGATHER:
    case BLINK_ALLTOALL:
        return RANKS;
    case BLINK_REDUCE:
        return rank == ROOT ? 1 : 0;
    case BLINK_GATHER:
        return rank == ROOT ? RANKS : 0;
    case BLINK_SENDRECV:
        return rank == PEER ? 1 : 0;
    }
    return 0;
}

static int32_t input_value(uint32_t rank, uint32_t block, uint64_t i)
{
    return (int32_t)(1000 * rank + 100 * block + i * 7 % 97 + 1);
}

static int32_t sum_of_block(uint32_t block, uint64_t i)
{
    int32_t sum = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        sum += input_value(rank, block, i);
    return sum;
}

static int32_t output_value(blink_collective_t collective, uint32_t rank, uint32_t block, uint64_t i)
{
    switch (collective) {
    case BLINK_ALLREDUCE:
    case BLINK_REDUCE:
        return sum_of_block(0, i);
    case BLINK_REDUCESCATTER:
        return sum_of_block(rank, i);
    case BLINK_BROADCAST:
    case BLINK_SENDRECV:
        return input_value(ROOT, 0, i);
    case BLINK_ALLGATHER:
    case BLINK_GATHER:
        return input_value(block, 0, i);
    case BLINK_SCATTER:
        return input_value(ROOT, rank, i);
    case BLINK_ALLTOALL:
        return input_value(block, rank, i);
    }
    return 0;
}

/* ---- buffers ---- */

/* In place the smaller of input and output is this rank's block of the larger. */
static void place_buffers(buffers_t *buffers, uint32_t rank)
{
    uint32_t in_blocks = input_blocks(buffers->collective, rank);
    uint32_t out_blocks = output_blocks(buffers->collective, rank);
    int32_t *memory = buffers->memory[rank];
    int32_t *input = memory, *output = memory + RANKS * buffers->count;
    if (buffers->in_place)
        output = memory;
    if (buffers->in_place && in_blocks < out_blocks)
        input += rank * buffers->count;
    if (buffers->in_place && out_blocks < in_blocks)
        output += rank * buffers->count;
    buffers->inputs[rank] = in_blocks > 0 ? input : NULL;
    buffers->outputs[rank] = out_blocks > 0 ? output : NULL;
    for (uint64_t i = 0; i < in_blocks * buffers->count; i++)
        input[i] = input_value(rank, (uint32_t)(i / buffers->count), i % buffers->count);
    memcpy(buffers->image[rank], memory, memory_elements(buffers) * sizeof(*memory));
    for (uint64_t i = 0; i < out_blocks * buffers->count; i++)
        buffers->image[rank][output - memory + (ptrdiff_t)i] =
            output_value(buffers->collective, rank, (uint32_t)(i / buffers->count), i % buffers->count);
}

static void buffers_init(buffers_t *buffers, blink_collective_t collective, uint64_t count, bool in_place)
{
    *buffers = (buffers_t){.collective = collective, .count = count, .in_place = in_place};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        size_t bytes = memory_elements(buffers) * sizeof(int32_t);
        buffers->memory[rank] = malloc(bytes);
        buffers->image[rank] = malloc(bytes);
        assert_non_null(buffers->memory[rank]);
        assert_non_null(buffers->image[rank]);
        memset(buffers->memory[rank], 0xee, bytes);
        place_buffers(buffers, rank);
    }
}

static void assert_memory_is_image(const buffers_t *buffers, hand_shape_t shape)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (memcmp(buffers->memory[rank], buffers->image[rank], memory_elements(buffers) * sizeof(int32_t)) ==
            0)
            continue;
        for (size_t i = 0; i < memory_elements(buffers); i++)
            if (buffers->memory[rank][i] != buffers->image[rank][i])
                fail_msg("%s, shape %d, %llu elements, in place %d: rank %u holds %d at %zu, not %d",
                         blink_name_collective(buffers->collective), (int)shape,
                         (unsigned long long)buffers->count, buffers->in_place, rank,
                         buffers->memory[rank][i], i, buffers->image[rank][i]);
    }
}

static void buffers_fini(buffers_t *buffers)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(buffers->memory[rank]);
        free(buffers->image[rank]);
    }
}

/* ---- runs ---- */

static void check_run(exec_instance_t *instance, blink_collective_t collective, hand_shape_t shape,
                      uint64_t count, bool in_place)
{
    buffers_t buffers;
    outcome_t outcome;
    buffers_init(&buffers, collective, count, in_place);
    outcome_init(&outcome);
    exec_run_t run = {.inputs = buffers.inputs,
                      .outputs = buffers.outputs,
                      .count = count,
                      .datatype = BLINK_INT32,
                      .redop = BLINK_SUM,
                      .done = on_end,
                      .context = &outcome};
    start_run(instance, &run);
    assert_int_equal(wait_done(&outcome, 1), BLINK_OK);
    assert_memory_is_image(&buffers, shape);
    outcome_fini(&outcome);
    buffers_fini(&buffers);
}

/* One instance runs all sizes, as a communicator would. */
static void check_collective(fixture_t *fixture, blink_collective_t collective, hand_shape_t shape,
                             blink_protocol_t protocol, const uint64_t *counts, size_t count_count)
{
    lane_program_t *program = make_program(fixture, collective, shape, protocol);
    exec_instance_t *instance = make_instance(fixture, program);
    bool has_in_place = collective != BLINK_ALLTOALL && collective != BLINK_SENDRECV;
    for (size_t i = 0; i < count_count; i++) {
        check_run(instance, collective, shape, counts[i], false);
        if (has_in_place)
            check_run(instance, collective, shape, counts[i], true);
    }
    exec_instance_destroy(instance);
    lane_program_destroy(program);
}

static void check_all(uint32_t workers, double scale, blink_protocol_t protocol, const uint64_t *counts,
                      size_t count_count)
{
    fixture_t fixture;
    fixture_init(&fixture, workers, scale);
    for (size_t i = 0; i < HAND_COLLECTIVES; i++) {
        check_collective(&fixture, hand_collectives[i], APART, protocol, counts, count_count);
        check_collective(&fixture, hand_collectives[i], TOGETHER, protocol, counts, count_count);
    }
    fixture_fini(&fixture);
}

static void test_every_collective_equals_its_reference_for_all_sizes(void **state)
{
    (void)state;
    const uint64_t counts[] = {0, 1, 3, 4, 17, 1021, 70001};
    check_all(1, 0.0, BLINK_PROTOCOL_SIMPLE, counts, LENGTH(counts));
    check_all(3, 0.0, BLINK_PROTOCOL_SIMPLE, counts, LENGTH(counts));
}

/* No semaphore says that data have arrived: their flags do. */
static void test_every_collective_equals_its_reference_with_flags_in_the_data(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 4, 1021, 17, 70001, 1021};
    for (int protocol = BLINK_PROTOCOL_LL; protocol <= BLINK_PROTOCOL_LL128; protocol++) {
        check_all(1, 0.0, (blink_protocol_t)protocol, counts, LENGTH(counts));
        check_all(3, 0.0, (blink_protocol_t)protocol, counts, LENGTH(counts));
    }
}

static void test_every_collective_equals_its_reference_when_paced(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 40009};
    for (int protocol = BLINK_PROTOCOL_SIMPLE; protocol <= BLINK_PROTOCOL_LL128; protocol++)
        check_all(2, 1.0, (blink_protocol_t)protocol, counts, LENGTH(counts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_equals_its_reference_for_all_sizes),
        cmocka_unit_test(test_every_collective_equals_its_reference_with_flags_in_the_data),
        cmocka_unit_test(test_every_collective_equals_its_reference_when_paced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

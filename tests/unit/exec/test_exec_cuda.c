/* The way to the GPU worker and back, with the test for a worker; and images of programs. */
#include "exec/cuda/image.h"
#include "exec/cuda/request.h"
#include "exec/cuda/switch_pause.h"
#include "wire_buffers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES     8u
#define ARENA_BYTES 4096u

static exec_cuda_t *start_on(const exec_cuda_config_t *config, uint64_t arena_bytes, ring_t *worker)
{
    exec_cuda_t *exec;
    gpu_channel_t channel = {.doorbell_fd = eventfd(0, EFD_NONBLOCK), .event_fd = ring_create_event()};
    assert_int_equal(ring_create(ENTRIES, ENTRIES, worker, &channel.ring_fd), BLINK_OK);
    channel.arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    channel.arena_bytes = arena_bytes;
    assert_int_equal(exec_cuda_create(config, &exec), BLINK_OK);
    assert_int_equal(exec_cuda_attach(exec, &channel), BLINK_OK);
    return exec;
}

static exec_cuda_t *start(ring_t *worker)
{
    return start_on(&(exec_cuda_config_t){0}, ARENA_BYTES, worker);
}

static void stop(exec_cuda_t *exec, ring_t *worker)
{
    exec_cuda_destroy(exec);
    ring_unmap(worker);
}

static void send_entries(exec_cuda_t *exec, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cuda_request_t *request;
        assert_int_equal(cuda_request_make(exec, GPU_FREE, 0, &request), BLINK_OK);
        cuda_request_send(exec, request);
    }
}

/* As the worker's run thread does; how many that were. */
static uint32_t take_all(ring_t *worker, uint64_t user_data[ENTRIES])
{
    ring_sqe_t sqe;
    uint32_t count = 0;
    while (ring_take(worker, &sqe))
        user_data[count++] = sqe.user_data;
    return count;
}

/* A worker that has completed as many entries as there is room to complete takes no more, and sleeps: there
 * must be none that it sleeps over once the service has reaped. */
static void test_more_entries_than_completions(void **state)
{
    (void)state;
    ring_t worker;
    exec_cuda_t *exec = start(&worker);
    uint64_t user_data[ENTRIES], rings;
    exec_end_t end;
    uint32_t taken = 0, count;
    send_entries(exec, ENTRIES);
    count = take_all(&worker, user_data);
    send_entries(exec, ENTRIES); /* while these are under way */
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < count; i++)
            ring_complete(&worker, user_data[i], BLINK_OK, NULL);
        taken += count;
        assert_int_equal(take_all(&worker, user_data), 0);
        ring_set_engine_sleeping(&worker, true);
        assert_false(exec_poll(exec_of_cuda(exec), &end)); /* none of them is a run */
        ring_set_engine_sleeping(&worker, false);
        count = take_all(&worker, user_data);
        if (count > 0)
            assert_int_equal(read(exec->channel.doorbell_fd, &rings, sizeof(rings)), sizeof(rings));
    }
    assert_int_equal(taken, 2 * ENTRIES);
    assert_true(list_is_empty(&exec->requests));
    stop(exec, &worker);
}

/* What waits to be sent, or to run, must not fail for want of room that others have only for a while. */
static void test_more_bytes_than_the_arena_has(void **state)
{
    (void)state;
    ring_t worker;
    exec_cuda_t *exec = start(&worker);
    uint64_t user_data[ENTRIES];
    cuda_request_t *request;
    exec_end_t end;
    for (uint32_t i = 0; i < 2 * ENTRIES; i++) {
        assert_int_equal(cuda_request_make(exec, GPU_FREE, ARENA_BYTES / 3, &request), BLINK_OK);
        cuda_request_send(exec, request);
    }
    while (!list_is_empty(&exec->requests)) {
        uint32_t count = take_all(&worker, user_data);
        assert_in_range(count, 1, 3);
        for (uint32_t i = 0; i < count; i++)
            ring_complete(&worker, user_data[i], BLINK_OK, NULL);
        exec_poll(exec_of_cuda(exec), &end);
    }
    assert_int_equal(cuda_request_make(exec, GPU_FREE, ARENA_BYTES + 1, &request), BLINK_ERR_NO_MEMORY);
    stop(exec, &worker);
}

/* ---- images ---- */

enum { MANY = LANE_ABI_RANKS_MAX + 6, FEW = 2, HOSTS = 2 };

/* Of one host's part of a broadcast that goes to all ranks, those of each host on a GPU of their own host. */
static blink_result_t make_image(uint32_t host, image_block_t *image)
{
    static const uint32_t devices[HOSTS] = {MANY, FEW};
    uint32_t host_of[MANY + FEW], rank_gpu[MANY + FEW], lane_first, lane_count;
    const gpu_facts_t gpu = {.peers = 1};
    lane_program_t *program = NULL;
    image_wires_t wires;
    cuda_reach_t reach;
    topo_t *topo = hand_hosts(devices, HOSTS);
    plan_t *plan = make_plan(topo, BLINK_BROADCAST, BLINK_ALGORITHM_TREES, BLINK_PROTOCOL_SIMPLE);
    hand_number_hosts(topo, plan, host_of);
    const lane_hosts_t hosts = {.of_rank = host_of, .keeps_to_slots = true};
    assert_int_equal(lane_compile_part(topo, plan, &hosts, host, &program), BLINK_OK);
    for (uint32_t rank = 0; rank < MANY + FEW; rank++)
        rank_gpu[rank] = host_of[rank] == host ? 0 : GPU_NONE;
    assert_int_equal(image_wires_init(program, &wires), BLINK_OK);
    assert_int_equal(cuda_reach_init(program, &gpu, rank_gpu, &reach), BLINK_OK);
    blink_result_t result =
        image_program(program, &wires, &reach, rank_gpu, 1, &lane_first, &lane_count, image);
    cuda_reach_fini(&reach);
    image_wires_fini(&wires);
    lane_program_destroy(program);
    plan_destroy(plan);
    topo_destroy(topo);
    return result;
}

static const void *list_of(const image_block_t *image, uint32_t offset)
{
    return (const char *)image->bytes + offset;
}

static void test_ranks_are_numbered_on_their_host(void **state)
{
    (void)state;
    image_block_t image = {0};
    uint32_t seen = 0;
    assert_int_equal(make_image(1, &image), BLINK_OK);
    const lane_abi_program_t *program = image.bytes;
    const lane_abi_lane_t *lanes = list_of(&image, program->lanes_offset);
    const lane_abi_step_t *steps = list_of(&image, program->steps_offset);
    const lane_abi_operand_t *operands = list_of(&image, program->operands_offset);
    for (uint32_t l = 0; l < program->lane_count && lanes[l].step_count > 0; l++) { /* no wire lanes */
        assert_true(lanes[l].rank < FEW);
        for (uint32_t s = lanes[l].step_first; s < lanes[l].step_first + lanes[l].step_count; s++)
            for (uint32_t i = steps[s].dst_first; i < steps[s].dst_first + steps[s].dst_count; i++)
                seen |= operands[i].buffer == LANE_ABI_OUTPUT ? 1u << operands[i].rank : 0;
    }
    assert_int_equal(seen, (1 << FEW) - 1);
    free(image.bytes);
}

static void test_more_ranks_than_a_host_can_have(void **state)
{
    (void)state;
    image_block_t image = {0};
    assert_int_equal(make_image(0, &image), BLINK_ERR_UNSUPPORTED);
    assert_string_equal(blink_error_text(), "70 ranks on one host: a collective on GPUs can have 64 there");
}

/* ---- switches ---- */

#define REFUSED_GPUS  0xfu
#define REFUSED_BYTES (UINT64_C(4) << 20)

static void refuse(switch_pause_t *pause, uint64_t now_us)
{
    switch_pause_begin(pause, now_us, REFUSED_GPUS, REFUSED_BYTES);
}

static void test_switches_are_tried_again_more_and_more_seldom(void **state)
{
    (void)state;
    switch_pause_t pause = {0};
    uint64_t now_us = 5;
    assert_false(switch_pause_holds(&pause, now_us));
    for (uint64_t us = SWITCH_PAUSE_LEAST_US; us < SWITCH_PAUSE_MOST_US; us *= 2) {
        refuse(&pause, now_us);
        refuse(&pause, now_us + 1); /* of what was asked for at the same time */
        assert_true(switch_pause_holds(&pause, now_us + us - 1));
        now_us += us;
        assert_false(switch_pause_holds(&pause, now_us));
    }
    for (int i = 0; i < 3; i++) {
        refuse(&pause, now_us);
        now_us += SWITCH_PAUSE_MOST_US;
        assert_false(switch_pause_holds(&pause, now_us));
    }
    switch_pause_note_success(&pause, now_us, REFUSED_GPUS, REFUSED_BYTES);
    refuse(&pause, now_us);
    assert_false(switch_pause_holds(&pause, now_us + SWITCH_PAUSE_LEAST_US));
}

/* What could be had must be as much, on the GPUs that were refused it, and since the pause has passed. */
static void test_only_what_was_refused_shortens_the_pause(void **state)
{
    (void)state;
    const struct {
        uint64_t after_us, bytes;
        uint32_t gpus;
        bool shortens;
    } cases[] = {{SWITCH_PAUSE_LEAST_US - 1, REFUSED_BYTES, REFUSED_GPUS, false},
                 {SWITCH_PAUSE_LEAST_US, REFUSED_BYTES, 0xf0, false},
                 {SWITCH_PAUSE_LEAST_US, REFUSED_BYTES, 0x7, false},
                 {SWITCH_PAUSE_LEAST_US, REFUSED_BYTES - 1, REFUSED_GPUS, false},
                 {SWITCH_PAUSE_LEAST_US, REFUSED_BYTES, REFUSED_GPUS, true},
                 {SWITCH_PAUSE_LEAST_US, 2 * REFUSED_BYTES, 0xff, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        switch_pause_t pause = {0};
        refuse(&pause, 5);
        switch_pause_note_success(&pause, 5 + cases[i].after_us, cases[i].gpus, cases[i].bytes);
        assert_int_equal(switch_pause_holds(&pause, 5 + cases[i].after_us),
                         cases[i].after_us < SWITCH_PAUSE_LEAST_US);
        refuse(&pause, 5 + SWITCH_PAUSE_LEAST_US);
        assert_int_equal(switch_pause_holds(&pause, 5 + 2 * SWITCH_PAUSE_LEAST_US), !cases[i].shortens);
    }
}

enum { SWITCHED = 4, SWITCHED_ELEMENTS = 100000 };

typedef struct switched {
    topo_t *topo;
    lane_program_t *program;
    uint32_t nodes[SWITCHED], gpu_of_node[64];
    gpu_facts_t gpus[SWITCHED];
    exec_cuda_t *exec;
    ring_t worker;
    exec_instance_t *instance;
} switched_t;

/* A worker that refuses what a switch is to reach. Of a run: how much it was asked for, as which object; and
 * nothing is freed. Returns how many entries there were. */
static uint32_t work(switched_t *s, uint32_t *allocs, uint32_t *object)
{
    ring_sqe_t sqe;
    uint32_t count = 0;
    for (*allocs = 0; ring_take(&s->worker, &sqe); count++) {
        bool is_alloc = sqe.opcode == GPU_ALLOC;
        assert_int_not_equal(sqe.opcode, GPU_FREE);
        if (is_alloc) {
            assert_int_equal(sqe.flags, GPU_ALLOC_SWITCH);
            assert_int_equal(sqe.root, (1u << SWITCHED) - 1);
            *object = sqe.member;
            ++*allocs;
        }
        ring_complete(&s->worker, sqe.user_data, is_alloc ? BLINK_ERR_UNSUPPORTED : BLINK_OK, "no room");
    }
    return count;
}

/* Returns what the run took of the worker, but for itself and objects that are loaded. */
static uint32_t run_switched(switched_t *s, uint32_t *object)
{
    void *const places[SWITCHED] = {(void *)4096, (void *)8192, (void *)12288, (void *)16384};
    const void *const inputs[SWITCHED] = {places[0], places[1], places[2], places[3]};
    const exec_run_t run = {.inputs = inputs,
                            .outputs = places,
                            .count = SWITCHED_ELEMENTS,
                            .datatype = BLINK_INT32,
                            .redop = BLINK_SUM};
    exec_end_t end;
    uint32_t allocs;
    assert_false(exec_start(s->instance, &run, &end));
    assert_false(exec_poll(exec_of_cuda(s->exec), &end)); /* what waited for its grant is sent */
    assert_int_not_equal(work(s, &allocs, object), 0);
    assert_true(exec_poll(exec_of_cuda(s->exec), &end));
    assert_int_equal(end.result, BLINK_OK);
    assert_string_equal(exec_transport(s->instance), "local");
    return allocs;
}

static void switched_init(switched_t *s)
{
    plan_t *plan = NULL;
    exec_need_t need;
    assert_int_equal(topo_load("dgx_h100", &s->topo), BLINK_OK);
    for (uint32_t rank = 0; rank < SWITCHED; rank++) {
        s->nodes[rank] = s->topo->gpus[rank];
        s->gpu_of_node[s->nodes[rank]] = rank;
        s->gpus[rank] = (gpu_facts_t){.resident_blocks = 64, .peers = (1u << SWITCHED) - 1};
    }
    const plan_request_t request = {.collective = BLINK_ALLREDUCE,
                                    .algorithm = BLINK_ALGORITHM_MULTICAST,
                                    .rank_node = s->nodes,
                                    .rank_count = SWITCHED,
                                    .multicast = true};
    assert_int_equal(plan_create(s->topo, &request, &plan), BLINK_OK);
    assert_int_equal(lane_compile(s->topo, plan, NULL, &s->program), BLINK_OK);
    plan_destroy(plan);
    const exec_cuda_config_t config = {.gpu_count = SWITCHED, .gpus = s->gpus, .gpu_of_node = s->gpu_of_node};
    s->exec = start_on(&config, 1u << 20, &s->worker);
    assert_int_equal(exec_instance_create(exec_of_cuda(s->exec), s->program, s->nodes, &s->instance),
                     BLINK_OK);
    assert_int_equal(exec_bind(s->instance, SWITCHED_ELEMENTS * sizeof(int32_t), &need), BLINK_OK);
}

/* Memory that serves is not given back for what may be refused once more. */
static void test_memory_is_kept_while_a_switch_is_asked_again(void **state)
{
    (void)state;
    switched_t s = {0};
    uint32_t object = 0, first;
    switched_init(&s);
    assert_int_equal(run_switched(&s, &first), 1);
    assert_int_equal(run_switched(&s, &object), 0); /* the pause holds */
    for (int i = 0; i < 3; i++) {
        s.exec->switch_pause.until_us = 0;
        assert_int_equal(run_switched(&s, &object), 1);
        assert_int_equal(object, first);
    }
    exec_instance_destroy(s.instance);
    stop(s.exec, &s.worker);
    lane_program_destroy(s.program);
    topo_destroy(s.topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_entries_than_completions),
        cmocka_unit_test(test_more_bytes_than_the_arena_has),
        cmocka_unit_test(test_ranks_are_numbered_on_their_host),
        cmocka_unit_test(test_more_ranks_than_a_host_can_have),
        cmocka_unit_test(test_switches_are_tried_again_more_and_more_seldom),
        cmocka_unit_test(test_only_what_was_refused_shortens_the_pause),
        cmocka_unit_test(test_memory_is_kept_while_a_switch_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

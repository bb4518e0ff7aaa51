/*
 * Wire lanes beside GPUs: slots and credit, lanes that leave and return, what fails, and memory.
 */
#include "cuda_side.h"
#include "unit/harness/short_memory.h"

#include <fcntl.h>
#include <poll.h>

/* ---- slots and credit ---- */

static void test_a_move_is_ready_when_its_slot_is_filled(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    (void)look(&side);
    assert_int_equal(side.ready, 0);
    for (uint32_t chunks = 1; chunks <= SLOTS; chunks++) {
        assert_false(exec_cuda_has_news(side.exec));
        lanes_have_done(&side, chunks);
        assert_true(exec_cuda_has_news(side.exec));
        (void)look(&side);
        assert_int_equal(side.ready, chunks);
    }
    (void)look(&side); /* nothing is told twice: on_wire_ready() */
    finish(&side);
    side_fini(&side);
}

static void test_moves_take_the_send_slots_in_turn(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    uint64_t bytes = 0;
    for (uint32_t move = 0; move < moves(&side); move++) {
        wire_place_t place = exec_wire_place(side.instance, side.lane, move);
        wire_place_t first = exec_wire_place(side.instance, side.lane, move % SLOTS);
        assert_int_equal(place.buffer, LANE_SEND);
        assert_int_equal(place.landing, PLAN_NONE);
        assert_ptr_equal(place.address, first.address);
        assert_true(wire_memory_offset(side.memory, place.address) < GPU_WIRE_BYTES);
        bytes += place.bytes;
    }
    assert_int_equal(bytes, ELEMENTS * sizeof(float));
    wire_place_t one = exec_wire_place(side.instance, side.lane, 0);
    wire_place_t two = exec_wire_place(side.instance, side.lane, 1);
    assert_true((char *)two.address >= (char *)one.address + one.bytes ||
                (char *)one.address >= (char *)two.address + two.bytes);
    finish(&side);
    side_fini(&side);
}

static void test_a_slot_may_be_filled_again_once_its_move_is_sent(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    lanes_have_done(&side, SLOTS);
    (void)look(&side);
    assert_int_equal(lanes_see(&side), 0);
    exec_wire_sent(side.instance, side.lane, 1);
    assert_int_equal(lanes_see(&side), 1);
    exec_wire_sent(side.instance, side.lane, SLOTS);
    assert_int_equal(lanes_see(&side), SLOTS);
    finish(&side);
    side_fini(&side);
}

static void test_credit_is_the_slots_that_are_free(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    assert_int_equal(side.ready, SLOTS); /* by exec_start() */
    assert_null(exec_wire_arrived(side.instance, side.lane, SLOTS));
    assert_int_equal(lanes_see(&side), SLOTS);
    assert_int_equal(side.ready, SLOTS); /* they are full */
    (void)look(&side);
    assert_false(exec_cuda_has_news(side.exec));
    lanes_have_done(&side, 1);
    assert_true(exec_cuda_has_news(side.exec));
    (void)look(&side);
    assert_int_equal(side.ready, SLOTS + 1);
    finish(&side);
    side_fini(&side);
}

static void test_moves_come_to_the_landings_slots(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    for (uint32_t move = 0; move < moves(&side); move++) {
        wire_place_t place = exec_wire_place(side.instance, side.lane, move);
        assert_int_equal(place.buffer, LANE_LANDING);
        char *landing = side.landings[place.landing];
        uint64_t landing_bytes = side.instance->geometry.landing_bytes[place.landing];
        assert_true((char *)place.address >= landing &&
                    (char *)place.address + place.bytes <= landing + landing_bytes);
        assert_ptr_equal(place.address, exec_wire_place(side.instance, side.lane, move % SLOTS).address);
    }
    finish(&side);
    side_fini(&side);
}

/* The worker is told of all segments and semaphores, at the addresses of GPUs. */
static void test_the_worker_knows_what_is_shared(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    const cuda_wires_t *wires = &instance_of(&side)->wires;
    uint64_t block = WIRE_ADDRESS + wire_memory_offset(side.memory, wires->block);
    assert_int_equal(side.sent.run.wire_semaphores, block);
    assert_int_equal(side.sent.run.progress, block + wires->progress_offset);
    assert_int_equal(side.sent.watched_address, block);
    assert_int_equal(side.sent.watched_count, 1); /* that slots are free again */
    assert_true(side.sent.wire_segments[0] & 1);
    assert_false(side.sent.cooperative);
    finish(&side);
    side_fini(&side);
}

static void test_another_run_begins_at_the_beginning(void **state)
{
    (void)state;
    side_t side;
    for (uint32_t host = 0; host < 2; host++) {
        begin(&side, host);
        for (uint32_t round = 0; round < 3; round++) {
            finish(&side);
            assert_false(start(&side, ELEMENTS));
            assert_int_equal(side.ready, host == SENDER ? 0 : SLOTS);
            assert_int_equal(lanes_see(&side), 0);
        }
        finish(&side);
        side_fini(&side);
    }
}

/* The network may have done its part before lanes on the GPU have ended: then the worker's word ends it. */
static void test_the_last_to_end_tells_the_end(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    uint32_t all = moves(&side);
    lanes_have_done(&side, all);
    (void)look(&side);
    exec_wire_sent(side.instance, side.lane, all);
    assert_int_equal(side.dones, 0);
    lanes_have_come_to(&side, all);
    leave(&side, BLINK_OK, NULL);
    assert_int_equal(side.dones, 1);
    assert_int_equal(side.end.result, BLINK_OK);
    side_fini(&side);
}

/* ---- lanes that leave and return ---- */

/* Whether the engine's thread has been woken since this was asked last. */
static bool was_woken(side_t *side)
{
    struct pollfd event = {.fd = side->exec->channel.event_fd, .events = POLLIN};
    uint64_t count;
    bool woken = poll(&event, 1, 0) == 1;
    if (woken)
        assert_int_equal(read(event.fd, &count, sizeof(count)), sizeof(count));
    return woken;
}

static void test_lanes_that_have_got_further_are_launched_again(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    lanes_have_come_to(&side, 1);
    leave(&side, BLINK_OK, NULL);
    assert_int_equal(side.launches, 2);
    assert_int_equal(side.sent.run.semaphore_base, instance_of(&side)->rounds << CUDA_ROUND_SHIFT);
    finish(&side);
    side_fini(&side);
}

static void test_lanes_that_all_wait_are_parked_until_the_network_has_done_something(void **state)
{
    (void)state;
    for (uint32_t host = 0; host < 2; host++) {
        side_t side;
        begin(&side, host);
        lanes_have_done(&side, host == SENDER ? SLOTS : 0);
        lanes_have_come_to(&side, 1);
        leave(&side, BLINK_OK, NULL);
        leave(&side, BLINK_OK, NULL); /* no further than when it was launched again */
        assert_int_equal(side.launches, 2);
        assert_int_equal(side.running, 0);
        assert_int_equal(instance_of(&side)->stage, CUDA_RUN_PARKED);
        assert_int_equal(side.exec->granted[0].runs, 0); /* its multiprocessors are others' */
        (void)was_woken(&side);
        (void)look(&side);
        assert_int_equal(side.launches, 2);
        assert_false(exec_cuda_has_news(side.exec));
        if (host == SENDER)
            exec_wire_sent(side.instance, side.lane, 1);
        else
            (void)exec_wire_arrived(side.instance, side.lane, 1);
        assert_true(was_woken(&side)); /* and the event does not tell it twice */
        assert_true(exec_cuda_has_news(side.exec));
        (void)look(&side);
        assert_int_equal(side.launches, 3);
        assert_int_equal(side.exec->granted[0].runs, 1);
        finish(&side);
        side_fini(&side);
    }
}

/* It comes after the lanes have looked last, and before the worker has told that they have left. */
static void test_what_comes_as_lanes_leave_is_not_missed(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    (void)exec_wire_arrived(side.instance, side.lane, 1);
    leave(&side, BLINK_OK, NULL);
    assert_int_equal(side.launches, 2);
    leave(&side, BLINK_OK, NULL); /* of that no lane has made anything: now all wait for more */
    assert_int_equal(side.launches, 2);
    (void)exec_wire_arrived(side.instance, side.lane, SLOTS);
    (void)look(&side);
    assert_int_equal(side.launches, 3);
    finish(&side);
    side_fini(&side);
}

static void test_a_run_that_waits_leaves_its_gpu_to_others(void **state)
{
    (void)state;
    side_t side, *one = &side;
    begin(one, RECEIVER);
    leave(one, BLINK_OK, NULL);
    exec_instance_t *waiting = one->instance;
    void *landing = one->landings[0];
    assert_int_equal(make_instance(one, ELEMENTS), BLINK_OK); /* a second communicator's */
    one->landings[0] = NULL;
    take_landings(one);
    assert_false(start(one, ELEMENTS));
    assert_int_equal(one->launches, 1);
    finish(one);
    give_landings(one);
    exec_instance_destroy(one->instance);
    one->instance = waiting;
    one->landings[0] = landing;
    exec_abort(waiting, BLINK_ERR_ABORTED);
    exec_wire_settled(waiting);
    side_fini(one);
}

/* ---- what fails ---- */

static void assert_ended(const side_t *side, blink_result_t result, const char *text)
{
    assert_int_equal(side->dones, 1);
    assert_int_equal(side->aborts, 1);
    assert_int_equal(side->end.result, result);
    if (!strstr(side->text, text))
        fail_msg("\"%s\" does not say \"%s\"", side->text, text);
}

static void test_abort_while_lanes_run(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    lanes_have_done(&side, 1);
    (void)look(&side);
    exec_abort(side.instance, BLINK_ERR_PEER_LOST);
    exec_abort(side.instance, BLINK_ERR_ABORTED); /* the first reason counts */
    take_all(&side);
    assert_int_equal(side.abort_requests, 1);
    assert_int_equal(side.aborts, 1);
    lanes_have_done(&side, SLOTS);
    (void)look(&side);
    assert_int_equal(side.ready, 1); /* nothing more is sent */
    leave(&side, BLINK_ERR_ABORTED, "");
    assert_int_equal(side.dones, 0); /* what was sent is still under way */
    exec_wire_settled(side.instance);
    assert_ended(&side, BLINK_ERR_PEER_LOST, "the run was aborted");
    side_fini(&side);
}

static void test_abort_settled_before_lanes_have_ended(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    exec_abort(side.instance, BLINK_ERR_PEER_LOST);
    exec_wire_settled(side.instance);
    assert_int_equal(side.dones, 0);
    take_all(&side);
    leave(&side, BLINK_ERR_ABORTED, "");
    assert_ended(&side, BLINK_ERR_PEER_LOST, "the run was aborted");
    side_fini(&side);
}

static void test_abort_while_lanes_are_parked(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    leave(&side, BLINK_OK, NULL);
    assert_int_equal(instance_of(&side)->stage, CUDA_RUN_PARKED);
    exec_abort(side.instance, BLINK_ERR_TIMEOUT);
    take_all(&side);
    assert_int_equal(side.abort_requests, 0);
    exec_wire_settled(side.instance);
    assert_ended(&side, BLINK_ERR_TIMEOUT, "the run was aborted");
    (void)look(&side);
    assert_int_equal(side.launches, 1);
    assert_false(start(&side, ELEMENTS));
    finish(&side);
    side_fini(&side);
}

/* Lanes on the GPU have ended well, and what they have sent is under way. */
static void test_abort_after_lanes_have_ended(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    lanes_have_done(&side, moves(&side));
    lanes_have_come_to(&side, moves(&side));
    leave(&side, BLINK_OK, NULL);
    exec_abort(side.instance, BLINK_ERR_PEER_LOST);
    assert_int_equal(side.dones, 0);
    exec_wire_settled(side.instance);
    assert_ended(&side, BLINK_ERR_PEER_LOST, "the run was aborted");
    side_fini(&side);
}

/* Of an AllReduce one wire lane sends and one receives. What has been told to be done is not settled again.
 */
static void test_a_lane_that_has_ended_is_not_settled(void **state)
{
    (void)state;
    side_t side;
    side_init(&side, RECEIVER, BLINK_ALLREDUCE);
    assert_int_equal(side.program->wire_count, 2);
    assert_int_equal(make_instance(&side, ELEMENTS), BLINK_OK);
    take_landings(&side);
    assert_false(start(&side, ELEMENTS));
    exec_wire_sent(side.instance, side.lane, moves(&side));
    leave(&side, BLINK_ERR_SYSTEM, "the kernel has failed");
    assert_int_equal(side.dones, 0);
    exec_wire_settled(side.instance);
    assert_ended(&side, BLINK_ERR_SYSTEM, "the kernel has failed");
    side_fini(&side);
}

static void test_a_run_that_fails_on_its_gpu_tells_the_network_once(void **state)
{
    (void)state;
    side_t side;
    begin(&side, SENDER);
    leave(&side, BLINK_ERR_SYSTEM, "the kernel has failed");
    assert_int_equal(side.aborts, 1);
    exec_wire_settled(side.instance);
    assert_ended(&side, BLINK_ERR_SYSTEM, "the kernel has failed");
    side_fini(&side);
}

/* Of the run that the worker has, and of one that is parked. */
static void test_the_end_of_the_worker_ends_runs(void **state)
{
    (void)state;
    for (uint32_t parked = 0; parked < 2; parked++) {
        side_t side;
        begin(&side, RECEIVER);
        if (parked)
            leave(&side, BLINK_OK, NULL);
        exec_cuda_detach(side.exec, "the worker is gone");
        ring_unmap(&side.worker);
        side.running = 0;
        assert_int_equal(side.dones, 0);
        exec_wire_settled(side.instance);
        assert_ended(&side, BLINK_ERR_SYSTEM, "the worker is gone");
        assert_true(start(&side, ELEMENTS));
        assert_int_equal(side.end.result, BLINK_ERR_SYSTEM);
        attach(&side);
        assert_false(start(&side, ELEMENTS));
        finish(&side);
        side_fini(&side);
    }
}

/* ---- memory ---- */

static void test_another_payload_gives_memory_back_that_is_too_large(void **state)
{
    (void)state;
    side_t side;
    exec_need_t need;
    begin(&side, SENDER);
    finish(&side);
    assert_non_null(instance_of(&side)->wires.block);
    assert_int_equal(exec_bind(side.instance, 64, &need), BLINK_OK);
    assert_null(instance_of(&side)->wires.block);
    assert_no_memory_is_taken(&side);
    assert_false(start(&side, 16));
    assert_int_equal(moves(&side), 1);
    finish(&side);
    side_fini(&side);
}

/* Somebody who keeps something about the memory that has the send slots. */
typedef struct watcher {
    exec_keeper_t keeper;
    uint32_t gone;
} watcher_t;

static void on_gone(exec_keeper_t *keeper, exec_instance_t *instance)
{
    void *memory;
    uint64_t bytes;
    assert_true(exec_wire_memory(instance, &memory, &bytes)); /* it is still there */
    memset(memory, 1, bytes);
    CONTAINER_OF(keeper, watcher_t, keeper)->gone++;
}

static void test_devices_may_read_send_slots_until_their_memory_goes(void **state)
{
    (void)state;
    side_t side;
    watcher_t watcher = {.keeper = {on_gone}};
    exec_need_t need;
    void *memory;
    uint64_t bytes;
    begin(&side, SENDER);
    assert_true(exec_wire_memory(side.instance, &memory, &bytes));
    side.instance->keeper = &watcher.keeper;
    for (uint32_t move = 0; move < moves(&side); move++) {
        wire_place_t place = exec_wire_place(side.instance, side.lane, move);
        assert_true((char *)place.address >= (char *)memory &&
                    (char *)place.address + place.bytes <= (char *)memory + bytes);
    }
    /* What GPUs and the executor order steps by is not among it. */
    const cuda_wires_t *wires = &instance_of(&side)->wires;
    assert_true((char *)memory >= wires->block + wires->blanks_offset);
    finish(&side);
    assert_int_equal(exec_bind(side.instance, ELEMENTS * sizeof(float), &need), BLINK_OK);
    assert_int_equal(watcher.gone, 0);
    assert_int_equal(exec_bind(side.instance, 64, &need), BLINK_OK);
    assert_int_equal(watcher.gone, 1);
    assert_false(start(&side, 16));
    side.instance->keeper = &watcher.keeper;
    finish(&side);
    exec_instance_destroy(side.instance);
    side.instance = NULL;
    assert_int_equal(watcher.gone, 2);
    side_fini(&side);
}

static const uint64_t *areas_of(side_t *side)
{
    const cuda_wires_t *wires = &instance_of(side)->wires;
    return (const uint64_t *)(const void *)(wires->block + wires->areas_offset);
}

/* The GPU finds a landing in its own memory, if the network has it there; the network still calls it by its
 * place in the host's. */
static void test_landings_may_lie_in_memory_of_the_gpu(void **state)
{
    (void)state;
    side_t side;
    bool ordered;
    uint64_t device_landings[1] = {UINT64_C(5) << 40};
    begin(&side, RECEIVER);
    assert_int_equal(side.program->landing_count, 1);
    assert_null(exec_wire_device(side.instance, &ordered)); /* the worker exports none */
    assert_int_equal(areas_of(&side)[0], WIRE_ADDRESS + wire_memory_offset(side.memory, side.landings[0]));
    finish(&side);
    side.wires.device_landings = device_landings;
    assert_false(start(&side, ELEMENTS));
    assert_int_equal(areas_of(&side)[0], device_landings[0]);
    wire_place_t place = exec_wire_place(side.instance, side.lane, 0);
    assert_true(wire_memory_offset(side.memory, place.address) < GPU_WIRE_BYTES);
    finish(&side);
    side_fini(&side);
}

/* Of a worker that exports memory; it is gone with the worker for whoever asks, and not for who has some. */
static void test_exported_memory_is_the_workers_that_there_is(void **state)
{
    (void)state;
    side_t side;
    bool ordered;
    uint64_t offset;
    side_init(&side, RECEIVER, BLINK_BROADCAST);
    exec_cuda_detach(side.exec, "the worker is gone");
    ring_unmap(&side.worker);
    side.exports = true;
    attach(&side);
    assert_int_equal(make_instance(&side, ELEMENTS), BLINK_OK);
    device_memory_t *memory = exec_wire_device(side.instance, &ordered);
    assert_non_null(memory);
    assert_false(ordered);
    assert_int_equal(device_memory_address(memory), EXPORTED_ADDRESS);
    side.gpu.orders_for_itself = true; /* it alone reads */
    assert_ptr_equal(exec_wire_device(side.instance, &ordered), memory);
    assert_true(ordered);
    assert_true(device_memory_take(memory, 100, &offset));
    exec_cuda_detach(side.exec, "the worker is gone");
    ring_unmap(&side.worker);
    assert_null(exec_wire_device(side.instance, &ordered));
    assert_true(fcntl(device_memory_fd(memory), F_GETFD) >= 0);
    device_memory_give(memory, offset, 100);
    side.exports = false;
    attach(&side);
    take_landings(&side);
    assert_false(start(&side, ELEMENTS));
    finish(&side);
    side_fini(&side);
}

/* To load what a size takes is some calls of the driver for each GPU, and programs have their few sizes. */
static void test_sizes_that_take_turns_are_loaded_once(void **state)
{
    static const uint64_t sizes[] = {ELEMENTS, 16, ELEMENTS, 32, 48, 16, ELEMENTS, 64, 16};
    static const uint32_t loads[] = {0, 1, 0, 1, 1, 0, 0, 1, 0}; /* 64 takes the place of 32 */
    (void)state;
    side_t side;
    uint32_t bindings[sizeof(sizes) / sizeof(sizes[0])];
    begin(&side, SENDER);
    finish(&side);
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t loaded = side.loads, freed = side.frees;
        assert_false(start(&side, sizes[i]));
        bindings[i] = (uint32_t)side.sent.binding;
        finish(&side);
        assert_int_equal(side.loads - loaded, loads[i]);
        if (loads[i] == 0)
            assert_int_equal(side.frees, freed);
    }
    assert_int_equal(bindings[2], bindings[0]);
    assert_int_equal(bindings[5], bindings[1]);
    assert_int_equal(bindings[8], bindings[1]);
    assert_int_not_equal(bindings[0], bindings[1]);
    assert_int_equal(exec_bind(side.instance, 32 * sizeof(float), &(exec_need_t){0}), BLINK_OK);
    uint32_t loaded = side.loads;
    assert_false(start(&side, 32));
    finish(&side);
    assert_int_equal(side.loads - loaded, 1);
    side_fini(&side);
}

static void test_without_shared_memory_a_run_does_not_begin(void **state)
{
    (void)state;
    side_t side;
    side_init(&side, SENDER, BLINK_BROADCAST);
    void *all = wire_memory_take(side.memory, GPU_WIRE_BYTES);
    assert_int_equal(make_instance(&side, ELEMENTS), BLINK_OK);
    assert_true(start(&side, ELEMENTS));
    assert_int_equal(side.end.result, BLINK_ERR_NO_MEMORY);
    assert_non_null(strstr(side.text, "no memory that the network and GPUs share is left"));
    wire_memory_give(side.memory, all, GPU_WIRE_BYTES);
    assert_false(start(&side, ELEMENTS));
    finish(&side);
    side_fini(&side);
}

static void test_a_landing_that_gpus_do_not_reach_is_refused(void **state)
{
    (void)state;
    side_t side;
    static char elsewhere[1 << 20];
    side_init(&side, RECEIVER, BLINK_BROADCAST);
    assert_int_equal(make_instance(&side, ELEMENTS), BLINK_OK);
    side.landings[0] = elsewhere;
    assert_true(start(&side, ELEMENTS));
    assert_int_equal(side.end.result, BLINK_ERR_INTERNAL);
    assert_non_null(strstr(side.text, "landing 0"));
    side.landings[0] = NULL;
    take_landings(&side);
    assert_false(start(&side, ELEMENTS));
    finish(&side);
    side_fini(&side);
}

/* Make an instance, and run it, with one refusal of memory. Returns false once there was none. */
static bool live(side_t *side, uint32_t nth)
{
    short_memory_begin(pthread_self(), nth);
    blink_result_t result = make_instance(side, ELEMENTS);
    if (result == BLINK_OK) {
        take_landings(side);
        result = start(side, ELEMENTS) ? side->end.result : BLINK_OK;
    }
    bool was_short = short_memory_end();
    if (side->running != 0 && result == BLINK_OK)
        finish(side);
    else
        assert_int_equal(result, BLINK_ERR_NO_MEMORY);
    if (side->instance)
        give_landings(side);
    exec_instance_destroy(side->instance);
    side->instance = NULL;
    take_all(side);
    (void)look(side);
    assert_no_memory_is_taken(side);
    return was_short;
}

static void test_every_refusal_of_memory_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    for (uint32_t host = 0; host < 2; host++) {
        side_t side;
        uint32_t nth = 1;
        side_init(&side, host, BLINK_BROADCAST);
        while (live(&side, nth))
            nth++;
        assert_true(nth > 10);
        side_fini(&side);
    }
}

/* Lanes that have left cannot be launched again: the run fails, on all hosts. */
static void test_short_memory_when_lanes_are_to_return(void **state)
{
    (void)state;
    side_t side;
    begin(&side, RECEIVER);
    leave(&side, BLINK_OK, NULL);
    (void)exec_wire_arrived(side.instance, side.lane, 1);
    short_memory_begin(pthread_self(), 1);
    (void)look(&side);
    assert_true(short_memory_end());
    assert_int_equal(side.launches, 1);
    exec_wire_settled(side.instance);
    assert_ended(&side, BLINK_ERR_NO_MEMORY, "no memory");
    assert_false(start(&side, ELEMENTS));
    finish(&side);
    side_fini(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_move_is_ready_when_its_slot_is_filled),
        cmocka_unit_test(test_moves_take_the_send_slots_in_turn),
        cmocka_unit_test(test_a_slot_may_be_filled_again_once_its_move_is_sent),
        cmocka_unit_test(test_credit_is_the_slots_that_are_free),
        cmocka_unit_test(test_moves_come_to_the_landings_slots),
        cmocka_unit_test(test_the_worker_knows_what_is_shared),
        cmocka_unit_test(test_another_run_begins_at_the_beginning),
        cmocka_unit_test(test_the_last_to_end_tells_the_end),
        cmocka_unit_test(test_lanes_that_have_got_further_are_launched_again),
        cmocka_unit_test(test_lanes_that_all_wait_are_parked_until_the_network_has_done_something),
        cmocka_unit_test(test_what_comes_as_lanes_leave_is_not_missed),
        cmocka_unit_test(test_a_run_that_waits_leaves_its_gpu_to_others),
        cmocka_unit_test(test_abort_while_lanes_run),
        cmocka_unit_test(test_abort_settled_before_lanes_have_ended),
        cmocka_unit_test(test_abort_while_lanes_are_parked),
        cmocka_unit_test(test_abort_after_lanes_have_ended),
        cmocka_unit_test(test_a_lane_that_has_ended_is_not_settled),
        cmocka_unit_test(test_a_run_that_fails_on_its_gpu_tells_the_network_once),
        cmocka_unit_test(test_the_end_of_the_worker_ends_runs),
        cmocka_unit_test(test_another_payload_gives_memory_back_that_is_too_large),
        cmocka_unit_test(test_sizes_that_take_turns_are_loaded_once),
        cmocka_unit_test(test_devices_may_read_send_slots_until_their_memory_goes),
        cmocka_unit_test(test_landings_may_lie_in_memory_of_the_gpu),
        cmocka_unit_test(test_exported_memory_is_the_workers_that_there_is),
        cmocka_unit_test(test_without_shared_memory_a_run_does_not_begin),
        cmocka_unit_test(test_a_landing_that_gpus_do_not_reach_is_refused),
        cmocka_unit_test(test_every_refusal_of_memory_is_told_and_leaves_nothing),
        cmocka_unit_test(test_short_memory_when_lanes_are_to_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

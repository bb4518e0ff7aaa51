/* libblinkclient and streams: that ops start when their streams have come to them, that streams wait for
 * their ends, and that they go on whatever happens. */
#include "client.h"

#include <sys/wait.h>

enum { BYTES = 4096, MANY = 100 };

/* A test's streams and memory. `word` holds a stream up until it is 1. */
typedef struct scene {
    gpu_daemon_t *daemon;
    blink_comm_t *comm;
    CUstream streams[2];
    CUdeviceptr memory[2];
    uint64_t *words;
} scene_t;

/* What the daemon found in the watched word when it ran its ops. */
static _Atomic uint64_t *_Atomic watched;
static _Atomic uint64_t found[MANY];
static _Atomic uint32_t found_count;

static void look(gpu_daemon_t *daemon, const ring_sqe_t *sqe)
{
    (void)daemon;
    (void)sqe;
    atomic_store(&found[atomic_load(&found_count) % MANY], atomic_fetch_add(watched, 1));
    atomic_fetch_add(&found_count, 1);
}

static scene_t begin(void)
{
    scene_t scene = {.daemon = start(look)};
    scene.comm = join(scene.daemon->context, 1, 0);
    for (int i = 0; i < 2; i++) {
        CU(cuStreamCreate, &scene.streams[i], CU_STREAM_NON_BLOCKING);
        CU(cuMemAlloc, &scene.memory[i], BYTES);
    }
    CU(cuMemHostAlloc, (void **)&scene.words, BYTES, CU_MEMHOSTALLOC_DEVICEMAP);
    memset(scene.words, 0, BYTES);
    watched = pointer_to(scene.memory[0]);
    atomic_store(watched, 0);
    atomic_store(&found_count, 0);
    return scene;
}

static void end(scene_t *scene)
{
    finish(scene->daemon);
    for (int i = 0; i < 2; i++) {
        CU(cuStreamDestroy, scene->streams[i]);
        CU(cuMemFree, scene->memory[i]);
    }
    CU(cuMemFreeHost, scene->words);
}

static void hold_up(const scene_t *scene, int stream)
{
    CU(cuStreamWaitValue64, scene->streams[stream], (CUdeviceptr)(uintptr_t)&scene->words[stream], 1,
       CU_STREAM_WAIT_VALUE_GEQ);
}

static void let_go(const scene_t *scene, int stream)
{
    atomic_store((_Atomic uint64_t *)&scene->words[stream], 1);
}

static void reduce_on(const scene_t *scene, int memory, int stream)
{
    void *buffer = pointer_to(scene->memory[memory]);
    BLINK(blink_all_reduce_on(buffer, buffer, BYTES, BLINK_UINT8, BLINK_SUM, scene->comm,
                              scene->streams[stream]));
}

static bool is_idle(const scene_t *scene, int stream)
{
    CUresult result = cu->cuStreamQuery(scene->streams[stream]);
    assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
    return result == CUDA_SUCCESS;
}

static void nap(void)
{
    usleep(5000);
}

static void test_an_op_runs_between_what_is_before_and_behind_it(void **state)
{
    (void)state;
    scene_t scene = begin();
    hold_up(&scene, 0);
    for (int i = 0; i < 20; i++) {
        CU(cuStreamWriteValue64, scene.streams[0], scene.memory[0], 10 * (uint64_t)i, 0);
        reduce_on(&scene, 0, 0);
    }
    nap();
    assert_int_equal(atomic_load(&found_count), 0);
    let_go(&scene, 0);
    CU(cuStreamSynchronize, scene.streams[0]);
    assert_int_equal(atomic_load(&found_count), 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(atomic_load(&found[i]), 10 * i);
    assert_int_equal(atomic_load(watched), 191);
    const ring_sqe_t *sqe = fake_seen(&scene.daemon->fake, 19);
    assert_int_equal(sqe->flags, RING_SQE_STREAM);
    assert_int_equal(sqe->window, 0);
    end(&scene);
}

static void test_the_stream_waits_for_the_end(void **state)
{
    (void)state;
    scene_t scene = begin();
    atomic_store(&scene.daemon->hold, true);
    reduce_on(&scene, 0, 0);
    nap();
    assert_false(is_idle(&scene, 0));
    atomic_store(&scene.daemon->hold, false);
    CU(cuStreamSynchronize, scene.streams[0]);
    BLINK(blink_comm_destroy(scene.comm));
    end(&scene);
}

static void test_the_default_stream_is_one(void **state)
{
    (void)state;
    scene_t scene = begin();
    BLINK(blink_barrier_on(scene.comm, NULL));
    CU(cuStreamSynchronize, NULL);
    assert_int_equal(atomic_load(&found_count), 1);
    end(&scene);
}

static void test_streams_of_a_rank_have_windows_of_their_own(void **state)
{
    (void)state;
    scene_t scene = begin();
    hold_up(&scene, 0);
    reduce_on(&scene, 0, 0);
    reduce_on(&scene, 1, 1);
    blink_comm_t *other = join(scene.daemon->context, 1, 0);
    BLINK(blink_barrier_on(other, scene.streams[1]));
    nap();
    assert_int_equal(atomic_load(&found_count), 0); /* the rank's second op comes after its first */
    let_go(&scene, 0);
    CU(cuStreamSynchronize, scene.streams[0]);
    CU(cuStreamSynchronize, scene.streams[1]);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(fake_seen(&scene.daemon->fake, i)->window, i);
    end(&scene);
}

static void test_a_group_on_two_streams(void **state)
{
    (void)state;
    scene_t scene = begin();
    hold_up(&scene, 1);
    BLINK(blink_group_start());
    reduce_on(&scene, 0, 0);
    reduce_on(&scene, 1, 1);
    reduce_on(&scene, 0, 0);
    BLINK(blink_group_end(NULL));
    nap();
    assert_false(is_idle(&scene, 1));
    let_go(&scene, 1);
    for (int i = 0; i < 2; i++)
        CU(cuStreamSynchronize, scene.streams[i]);
    assert_int_equal(atomic_load(&found_count), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(fake_seen(&scene.daemon->fake, i)->flags,
                         RING_SQE_STREAM | (i < 2 ? RING_SQE_MORE : 0));
        assert_int_equal(fake_seen(&scene.daemon->fake, i)->window, i == 1);
    }
    end(&scene);
}

static void test_a_group_is_on_streams_or_not(void **state)
{
    (void)state;
    scene_t scene = begin();
    blink_op_t *op;
    BLINK(blink_group_start());
    BLINK(blink_barrier(scene.comm, NULL));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "calls that are on none",
                 blink_barrier_on(scene.comm, scene.streams[0]));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "calls that are on none", blink_group_end(&op));
    BLINK(blink_group_start());
    BLINK(blink_barrier_on(scene.comm, scene.streams[0]));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "op is not NULL", blink_group_end(&op));
    BLINK(blink_group_start());
    BLINK(blink_group_end(NULL));
    assert_int_equal(atomic_load(&scene.daemon->fake.taken), 0);
    end(&scene);
}

static void test_a_stream_of_another_gpu_is_refused(void **state)
{
    (void)state;
    scene_t scene = begin();
    CUcontext other;
    CUstream stream;
    CU(cuDevicePrimaryCtxRetain, &other, 1);
    CU(cuCtxPushCurrent, other);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuCtxPopCurrent, &other);
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "but rank 0 is on GPU-", blink_barrier_on(scene.comm, stream));
    end(&scene);
}

static void test_the_first_failure_is_the_communicators(void **state)
{
    (void)state;
    scene_t scene = begin();
    blink_result_t met = BLINK_OK;
    reduce_on(&scene, 0, 0);
    CU(cuStreamSynchronize, scene.streams[0]);
    BLINK(blink_comm_async_error(scene.comm, &met));
    assert_int_equal(met, BLINK_OK);
    scene.daemon->fake.fail_text = "rank 5 gave 3 elements";
    scene.daemon->fake.fail_with = BLINK_ERR_MISMATCH;
    reduce_on(&scene, 0, 0);
    CU(cuStreamSynchronize, scene.streams[0]);
    while (met == BLINK_OK) {
        nap();
        BLINK(blink_comm_async_error(scene.comm, &met));
    }
    assert_int_equal(met, BLINK_ERR_MISMATCH);
    assert_string_equal(blink_last_error(), "rank 5 gave 3 elements");
    scene.daemon->fake.fail_with = BLINK_ERR_ABORTED;
    reduce_on(&scene, 0, 0);
    assert_int_equal(blink_comm_finalize(scene.comm), BLINK_ERR_MISMATCH);
    end(&scene);
}

static void test_many_ops_and_many_streams(void **state)
{
    (void)state;
    scene_t scene = begin();
    for (int round = 0; round < 600; round++) { /* more streams than there are windows */
        CUstream stream;
        CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 3; i++)
            BLINK(blink_barrier_on(scene.comm, stream));
        CU(cuStreamSynchronize, stream);
        CU(cuStreamDestroy, stream);
    }
    assert_int_equal(atomic_load(&scene.daemon->runs), 1800);
    end(&scene);
}

static void *submit_many(void *argument)
{
    const scene_t *scene = argument;
    CUcontext context = scene->daemon->cuda;
    CU(cuCtxSetCurrent, context);
    for (int i = 0; i < 300; i++)
        BLINK(blink_barrier_on(scene->comm, scene->streams[i % 2]));
    return NULL;
}

static void test_threads_share_a_rank(void **state)
{
    (void)state;
    scene_t scene = begin();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &scene), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        CU(cuStreamSynchronize, scene.streams[i]);
    assert_int_equal(atomic_load(&scene.daemon->runs), 900);
    end(&scene);
}

/* The daemon always has an op that has not ended, behind those that have. */
static void test_ops_that_never_pause(void **state)
{
    (void)state;
    scene_t scene = begin();
    for (uint64_t i = 1; i <= 2 * OPS_MAX; i++) {
        uint64_t last = (i - 1) % 2;
        CU(cuStreamWaitValue64, scene.streams[i % 2], (CUdeviceptr)(uintptr_t)&scene.words[i % 2], i,
           CU_STREAM_WAIT_VALUE_GEQ);
        BLINK(blink_barrier_on(scene.comm, scene.streams[i % 2]));
        while (atomic_load(&scene.daemon->fake.taken) < i)
            usleep(20);
        atomic_store((_Atomic uint64_t *)&scene.words[last], i - 1);
        CU(cuStreamSynchronize, scene.streams[last]);
    }
    atomic_store((_Atomic uint64_t *)&scene.words[0], 2 * OPS_MAX);
    CU(cuStreamSynchronize, scene.streams[0]);
    assert_int_equal(atomic_load(&scene.daemon->runs), 2 * OPS_MAX);
    end(&scene);
}

/* ---- staged ---- */

enum { PIECES = 9, LARGE = (PIECES - 1) * STAGING_SLOT_BYTES + 4321 };

static void check_copies(const scene_t *scene, uint8_t *send, uint8_t *recv)
{
    CUdeviceptr pattern;
    CU(cuMemAlloc, &pattern, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        ((uint8_t *)pointer_to(pattern))[i] = (uint8_t)(i * 7 % 251);
    memset(send, 0, LARGE);
    memset(recv, 0, LARGE);
    hold_up(scene, 0);
    CU(cuMemcpyAsync, (CUdeviceptr)(uintptr_t)send, pattern, LARGE, scene->streams[0]);
    BLINK(blink_all_reduce_on(send, recv, LARGE, BLINK_UINT8, BLINK_SUM, scene->comm, scene->streams[0]));
    nap();
    assert_int_equal(recv[1], 0);
    let_go(scene, 0);
    CU(cuStreamSynchronize, scene->streams[0]);
    assert_memory_equal(recv, pointer_to(pattern), LARGE);
    CU(cuMemFree, pattern);
    scene->words[0] = 0;
}

static void test_the_stream_copies_what_is_staged(void **state)
{
    (void)state;
    scene_t scene = begin();
    CUdeviceptr memory;
    uint8_t *plain;
    CU(cuMemHostAlloc, (void **)&plain, 2 * LARGE, 0);
    CU(cuMemAlloc, &memory, 2 * LARGE);
    scene.daemon->fake.refuse_imports = BLINK_ERR_UNSUPPORTED;
    for (int round = 0; round < 3; round++) {
        check_copies(&scene, pointer_to(memory), pointer_to(memory + LARGE));
        check_copies(&scene, plain, pointer_to(memory));
        check_copies(&scene, pointer_to(memory), plain);
        check_copies(&scene, plain, plain + LARGE);
    }
    assert_int_equal(atomic_load(&scene.daemon->fake.arena_count), 2); /* windows, and one arena used again */
    BLINK(blink_comm_destroy(scene.comm));
    end(&scene);
    CU(cuMemFreeHost, plain);
    CU(cuMemFree, memory);
}

static void test_input_is_staged_where_output_is(void **state)
{
    (void)state;
    scene_t scene = begin();
    uint8_t plain[BYTES];
    hold_up(&scene, 0);
    CU(cuMemsetD8Async, scene.memory[0], 5, BYTES, scene.streams[0]);
    BLINK(blink_all_reduce_on(pointer_to(scene.memory[0]), plain, BYTES, BLINK_UINT8, BLINK_SUM, scene.comm,
                              scene.streams[0]));
    BLINK(blink_all_reduce_on(plain, pointer_to(scene.memory[1]), BYTES, BLINK_UINT8, BLINK_SUM, scene.comm,
                              scene.streams[0]));
    let_go(&scene, 0);
    CU(cuStreamSynchronize, scene.streams[0]);
    assert_int_equal(plain[77], 5);
    assert_int_equal(fake_seen(&scene.daemon->fake, 0)->flags, RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
    assert_int_equal(fake_seen(&scene.daemon->fake, 1)->flags, RING_SQE_IN_STAGED);
    BLINK(blink_comm_destroy(scene.comm));
    end(&scene);
}

static void test_staged_ops_of_a_group_take_turns(void **state)
{
    (void)state;
    scene_t scene = begin();
    uint8_t *send = calloc(2, LARGE), *recv = calloc(2, LARGE);
    for (size_t i = 0; i < 2 * LARGE; i++)
        send[i] = (uint8_t)(i % 253);
    BLINK(blink_group_start());
    for (int i = 0; i < 2; i++)
        BLINK(blink_all_reduce_on(send + i * LARGE, recv + i * LARGE, LARGE, BLINK_UINT8, BLINK_SUM,
                                  scene.comm, scene.streams[0]));
    reduce_on(&scene, 0, 0);
    BLINK(blink_group_end(NULL));
    CU(cuStreamSynchronize, scene.streams[0]);
    assert_memory_equal(send, recv, 2 * LARGE);
    assert_int_equal(atomic_load(&found_count), 1);
    BLINK(blink_comm_destroy(scene.comm));
    end(&scene);
    free(send);
    free(recv);
}

static void test_a_staged_op_that_fails_lets_the_stream_go_on(void **state)
{
    (void)state;
    scene_t scene = begin();
    uint8_t *plain = calloc(2, LARGE);
    scene.daemon->fake.fail_text = "no such luck";
    scene.daemon->fake.fail_with = BLINK_ERR_PEER_LOST;
    for (int i = 0; i < 5; i++) {
        BLINK(blink_all_reduce_on(plain, plain + LARGE, LARGE, BLINK_UINT8, BLINK_SUM, scene.comm,
                                  scene.streams[0]));
        CU(cuStreamSynchronize, scene.streams[0]);
    }
    assert_int_equal(blink_comm_finalize(scene.comm), BLINK_ERR_PEER_LOST);
    assert_int_equal(atomic_load(&scene.daemon->fake.arena_count), 2);
    end(&scene);
    free(plain);
}

/* ---- graphs ---- */

static CUgraphExec capture(const scene_t *scene)
{
    CUgraph graph;
    CUgraphExec executable;
    CU(cuStreamBeginCapture, scene->streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuStreamWriteValue64, scene->streams[0], scene->memory[0], 7, 0);
    reduce_on(scene, 0, 0);
    reduce_on(scene, 0, 0);
    BLINK(blink_group_start());
    reduce_on(scene, 0, 0);
    reduce_on(scene, 1, 0);
    BLINK(blink_group_end(NULL));
    CU(cuStreamEndCapture, scene->streams[0], &graph);
    CU(cuGraphInstantiateWithFlags, &executable, graph, 0);
    CU(cuGraphDestroy, graph);
    return executable;
}

static void test_replays_run_stored_ops_until_the_graph_is_destroyed(void **state)
{
    (void)state;
    scene_t scene = begin();
    for (int round = 0; round < 3; round++) {
        CUgraphExec executable = capture(&scene);
        assert_int_equal(atomic_load(&scene.daemon->runs), 30 * round);
        for (int replay = 0; replay < 10; replay++) {
            CU(cuGraphLaunch, executable, scene.streams[0]);
            CU(cuStreamSynchronize, scene.streams[0]);
            assert_int_equal(atomic_load(watched),
                             10); /* set to 7, and three ops: a group is one for this daemon */
        }
        CU(cuGraphExecDestroy, executable);
        while (atomic_load(&scene.daemon->forgotten) < 3u * ((unsigned)round + 1))
            nap();
        reduce_on(&scene, 0, 0);
        CU(cuStreamSynchronize, scene.streams[0]);
        atomic_fetch_sub(&scene.daemon->runs, 1);
    }
    const ring_sqe_t *grouped = fake_seen(&scene.daemon->fake, 2), *last = fake_seen(&scene.daemon->fake, 3);
    assert_int_equal(grouped->flags, RING_SQE_STREAM | RING_SQE_STORED | RING_SQE_MORE);
    assert_int_equal(last->flags, RING_SQE_STREAM | RING_SQE_STORED);
    assert_int_equal(last->window, grouped->window);
    assert_int_not_equal(fake_seen(&scene.daemon->fake, 0)->window,
                         fake_seen(&scene.daemon->fake, 1)->window);
    end(&scene);
}

static bool has_come(scene_t *scene, uint32_t op)
{
    window_t *windows = atomic_load(&scene->daemon->fake.windows);
    return atomic_load(&windows[fake_seen(&scene->daemon->fake, op)->window].graph.requested) == 1;
}

/* The daemon may wait for both before it runs either. */
static void test_a_group_of_two_communicators_comes_before_it_waits(void **state)
{
    (void)state;
    scene_t scene = begin();
    scene_t other = scene;
    CUgraph graph;
    CUgraphExec executable;
    other.comm = join(scene.daemon->context, 1, 0);
    CU(cuStreamBeginCapture, scene.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    BLINK(blink_group_start());
    reduce_on(&scene, 0, 0);
    reduce_on(&other, 0, 0);
    BLINK(blink_group_end(NULL));
    CU(cuStreamEndCapture, scene.streams[0], &graph);
    CU(cuGraphInstantiateWithFlags, &executable, graph, 0);
    CU(cuGraphDestroy, graph);
    atomic_store(&scene.daemon->hold, true);
    CU(cuGraphLaunch, executable, scene.streams[0]);
    while (!has_come(&scene, 0) || !has_come(&scene, 1))
        nap();
    assert_false(is_idle(&scene, 0));
    atomic_store(&scene.daemon->hold, false);
    CU(cuStreamSynchronize, scene.streams[0]);
    assert_int_equal(atomic_load(&scene.daemon->runs), 2);
    CU(cuGraphExecDestroy, executable);
    end(&scene);
}

static void test_ranks_gather_for_graphs_at_the_same_home(void **state)
{
    (void)state;
    scene_t scene = begin();
    const blink_unique_id_t before = scene.daemon->fake.joined.id;
    CUgraphExec executable = capture(&scene);
    const blink_unique_id_t *after = &scene.daemon->fake.joined.id;
    assert_memory_equal(after->bytes, before.bytes, UNIQUE_ID_HOME_BYTES);
    assert_memory_not_equal(after->bytes + UNIQUE_ID_HOME_BYTES, before.bytes + UNIQUE_ID_HOME_BYTES, 16);
    CU(cuGraphExecDestroy, executable);
    end(&scene);
}

static void test_what_a_graph_cannot_hold_is_refused(void **state)
{
    (void)state;
    scene_t scene = begin();
    uint8_t plain[64];
    CUgraph graph;
    CU(cuStreamBeginCapture, scene.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_fails(BLINK_ERR_UNSUPPORTED, "has to be staged",
                 blink_all_reduce_on(plain, plain, 64, BLINK_UINT8, BLINK_SUM, scene.comm, scene.streams[0]));
    BLINK(blink_group_start());
    BLINK(blink_barrier_on(scene.comm, scene.streams[0]));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "is being captured and",
                 blink_barrier_on(scene.comm, scene.streams[1]));
    assert_fails(BLINK_ERR_INVALID_ARGUMENT, "is being captured and", blink_group_end(NULL));
    CU(cuStreamEndCapture, scene.streams[0], &graph);
    CU(cuGraphDestroy, graph);
    assert_int_equal(atomic_load(&scene.daemon->fake.taken), 0);
    end(&scene);
}

static void test_an_op_that_cannot_be_stored_leaves_the_capture_as_it_was(void **state)
{
    (void)state;
    scene_t scene = begin();
    CUgraph graph;
    CU(cuStreamBeginCapture, scene.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    scene.daemon->fake.fail_text = "not this op";
    scene.daemon->fake.fail_with = BLINK_ERR_NOT_REGISTERED;
    assert_fails(BLINK_ERR_NOT_REGISTERED, "not this op", blink_barrier_on(scene.comm, scene.streams[0]));
    CU(cuStreamEndCapture, scene.streams[0], &graph);
    CU(cuGraphDestroy, graph);
    while (atomic_load(&scene.daemon->forgotten) < 1)
        nap();
    end(&scene);
}

static void test_a_graph_may_outlive_the_context(void **state)
{
    (void)state;
    scene_t scene = begin();
    CUgraphExec executable = capture(&scene);
    end(&scene);
    CU(cuGraphExecDestroy, executable);
}

/* ---- when things break ---- */

static void test_a_lost_daemon_lets_streams_go_on(void **state)
{
    (void)state;
    scene_t scene = begin();
    uint8_t *plain = calloc(1, LARGE);
    blink_result_t met;
    CUgraphExec executable = capture(&scene);
    atomic_store(&scene.daemon->hold, true);
    reduce_on(&scene, 0, 0);
    BLINK(blink_all_reduce_on(plain, plain, LARGE, BLINK_UINT8, BLINK_SUM, scene.comm, scene.streams[0]));
    CU(cuGraphLaunch, executable, scene.streams[1]);
    shutdown(scene.daemon->fake.socket_fd, SHUT_RDWR);
    CU(cuStreamSynchronize, scene.streams[0]);
    CU(cuStreamSynchronize, scene.streams[1]);
    BLINK(blink_comm_async_error(scene.comm, &met));
    assert_int_equal(met, BLINK_ERR_DAEMON_LOST);
    for (int replay = 0; replay < 10; replay++)
        CU(cuGraphLaunch, executable, scene.streams[1]);
    CU(cuStreamSynchronize, scene.streams[1]);
    assert_fails(BLINK_ERR_DAEMON_LOST, "closed", blink_barrier_on(scene.comm, scene.streams[0]));
    assert_int_equal(blink_comm_destroy(scene.comm), BLINK_ERR_DAEMON_LOST);
    CU(cuGraphExecDestroy, executable);
    end(&scene);
    free(plain);
}

static void test_closing_lets_streams_go_on(void **state)
{
    (void)state;
    scene_t scene = begin();
    atomic_store(&scene.daemon->hold, true);
    for (int i = 0; i < 2 * (int)RING_ENTRIES; i++) /* so many that some are parked */
        reduce_on(&scene, 0, i % 2);
    end(&scene);
}

/* A process of its own each, as the stand-in is told at its start what is to fail. */
static int run_with_failure(const char *test, const char *failure)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("STANDIN_CUDA_FAIL", failure, 1);
        setenv("CLIENT_TEST_FAILURE", test, 1);
        execl("/proc/self/exe", "test", (char *)NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_a_driver_that_fails_leaves_no_stream_waiting(void **state)
{
    (void)state;
    assert_int_equal(run_with_failure("eager", "cuStreamWriteValue64:2"), 0);
    assert_int_equal(run_with_failure("eager", "cuStreamWaitValue64:2"), 0);
    assert_int_equal(run_with_failure("eager", "cuLaunchHostFunc:1"), 0);
    assert_int_equal(run_with_failure("eager", "cuMemcpyAsync:3"), 0);
}

/* In that process: whatever fails, and wherever, streams and the communicator come to an end. */
static void test_failing_driver(void **state)
{
    (void)state;
    scene_t scene = begin();
    void *buffer = pointer_to(scene.memory[0]);
    uint8_t *plain = calloc(1, LARGE);
    uint32_t failures = 0;
    for (int i = 0; i < 4; i++) {
        failures += blink_all_reduce_on(buffer, buffer, BYTES, BLINK_UINT8, BLINK_SUM, scene.comm,
                                        scene.streams[0]) != BLINK_OK;
        failures += blink_all_reduce_on(pointer_to(scene.memory[1]), plain, BYTES, BLINK_UINT8, BLINK_SUM,
                                        scene.comm, scene.streams[1]) != BLINK_OK;
    }
    assert_int_equal(failures, 1);
    CU(cuStreamSynchronize, scene.streams[0]);
    CU(cuStreamSynchronize, scene.streams[1]);
    (void)blink_comm_destroy(scene.comm);
    end(&scene);
    free(plain);
}

/* Three ops: a call and a node for each, and no other word is written or awaited but the test's own. */
static void test_a_captured_op_is_one_node(void **state)
{
    (void)state;
    assert_int_equal(
        run_with_failure("captured", "cuStreamBatchMemOp:4,cuStreamWriteValue64:2,cuStreamWaitValue64:1"), 0);
}

static void test_captured(void **state)
{
    (void)state;
    scene_t scene = begin();
    CUgraphExec executable = capture(&scene);
    CU(cuGraphLaunch, executable, scene.streams[0]);
    CU(cuStreamSynchronize, scene.streams[0]);
    assert_int_equal(atomic_load(watched), 10);
    CU(cuGraphExecDestroy, executable);
    end(&scene);
}

static void test_an_op_that_cannot_be_captured_is_forgotten(void **state)
{
    (void)state;
    assert_int_equal(run_with_failure("refused", "cuStreamBatchMemOp:1"), 0);
}

static void test_refused(void **state)
{
    (void)state;
    scene_t scene = begin();
    CUgraph graph;
    CU(cuStreamBeginCapture, scene.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_fails(BLINK_ERR_SYSTEM, "cuStreamBatchMemOp", blink_barrier_on(scene.comm, scene.streams[0]));
    CU(cuStreamEndCapture, scene.streams[0], &graph);
    CU(cuGraphDestroy, graph);
    while (atomic_load(&scene.daemon->forgotten) < 1)
        nap();
    end(&scene);
}

/* In a process of its own. */
static int run_one(const char *name)
{
    const struct CMUnitTest eager[] = {cmocka_unit_test(test_failing_driver)};
    const struct CMUnitTest captured[] = {cmocka_unit_test(test_captured)};
    const struct CMUnitTest refused[] = {cmocka_unit_test(test_refused)};
    if (strcmp(name, "eager") == 0)
        return cmocka_run_group_tests(eager, find_driver, NULL);
    return strcmp(name, "captured") == 0 ? cmocka_run_group_tests(captured, find_driver, NULL)
                                         : cmocka_run_group_tests(refused, find_driver, NULL);
}

int main(void)
{
    const char *alone = getenv("CLIENT_TEST_FAILURE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_op_runs_between_what_is_before_and_behind_it),
        cmocka_unit_test(test_the_stream_waits_for_the_end),
        cmocka_unit_test(test_the_default_stream_is_one),
        cmocka_unit_test(test_streams_of_a_rank_have_windows_of_their_own),
        cmocka_unit_test(test_a_group_on_two_streams),
        cmocka_unit_test(test_a_group_is_on_streams_or_not),
        cmocka_unit_test(test_a_stream_of_another_gpu_is_refused),
        cmocka_unit_test(test_the_first_failure_is_the_communicators),
        cmocka_unit_test(test_many_ops_and_many_streams),
        cmocka_unit_test(test_threads_share_a_rank),
        cmocka_unit_test(test_ops_that_never_pause),
        cmocka_unit_test(test_the_stream_copies_what_is_staged),
        cmocka_unit_test(test_input_is_staged_where_output_is),
        cmocka_unit_test(test_staged_ops_of_a_group_take_turns),
        cmocka_unit_test(test_a_staged_op_that_fails_lets_the_stream_go_on),
        cmocka_unit_test(test_replays_run_stored_ops_until_the_graph_is_destroyed),
        cmocka_unit_test(test_a_group_of_two_communicators_comes_before_it_waits),
        cmocka_unit_test(test_ranks_gather_for_graphs_at_the_same_home),
        cmocka_unit_test(test_what_a_graph_cannot_hold_is_refused),
        cmocka_unit_test(test_an_op_that_cannot_be_stored_leaves_the_capture_as_it_was),
        cmocka_unit_test(test_a_graph_may_outlive_the_context),
        cmocka_unit_test(test_a_lost_daemon_lets_streams_go_on),
        cmocka_unit_test(test_closing_lets_streams_go_on),
        cmocka_unit_test(test_a_driver_that_fails_leaves_no_stream_waiting),
        cmocka_unit_test(test_a_captured_op_is_one_node),
        cmocka_unit_test(test_an_op_that_cannot_be_captured_is_forgotten),
    };
    return alone ? run_one(alone) : cmocka_run_group_tests(tests, find_driver, NULL);
}

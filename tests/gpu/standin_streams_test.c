/* The stand-in driver: streams, words, events, graphs and kernels. */
#include "standin/process.h"

#include <sys/mman.h>
#include <time.h>

enum { ROUNDS = 100, RESIDENT_BLOCKS = 64 };

/* A context, memory and two streams. */
typedef struct setup {
    CUstream first, second;
    CUdeviceptr words; /* all 0 */
    CUfunction increment, meet;
} setup_t;

static setup_t set_up(void)
{
    setup_t s;
    CUmodule module;
    process_use(0);
    CU(cuStreamCreate, &s.first, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate, &s.second, CU_STREAM_NON_BLOCKING);
    CU(cuMemAlloc, &s.words, 4096);
    CU(cuMemsetD8, s.words, 0, 4096);
    CU(cuModuleLoadData, &module, "any image");
    CU(cuModuleGetFunction, &s.increment, module, "standin_increment");
    CU(cuModuleGetFunction, &s.meet, module, "standin_meet");
    return s;
}

static void increment(const setup_t *s, CUdeviceptr words, uint64_t count, unsigned blocks, CUstream stream)
{
    CHECK(process_launch(s->increment, blocks, false, stream, (void *[]){&words, &count}) == CUDA_SUCCESS);
}

static void test_a_stream_keeps_its_order(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr gate = s.words, sum = s.words + 8, copy = s.words + 16;
    CU(cuStreamWaitValue64, s.first, gate, 7, CU_STREAM_WAIT_VALUE_GEQ);
    for (unsigned i = 0; i < ROUNDS; i++)
        increment(&s, sum, 1, 1, s.first);
    CU(cuMemcpyAsync, copy, sum, 8, s.first);
    CU(cuMemsetD8Async, sum, 0, 8, s.first);
    CHECK_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery, s.first);
    CHECK(process_word(sum) == 0);
    CU(cuStreamWriteValue64, s.second, gate, 8, 0);
    CU(cuStreamSynchronize, s.first);
    CU(cuStreamQuery, s.first);
    CHECK(process_word(copy) == ROUNDS && process_word(sum) == 0);
    CU(cuStreamDestroy, s.first);
    CHECK_RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery, s.first);
}

static void test_events_order_streams(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr gate = s.words, sum = s.words + 8, copy = s.words + 16;
    CUevent before, after;
    float milliseconds = -1;
    CU(cuEventCreate, &before, 0);
    CU(cuEventCreate, &after, 0);
    CU(cuEventRecord, before, s.first);
    CU(cuStreamWaitValue64, s.first, gate, 1, CU_STREAM_WAIT_VALUE_EQ);
    increment(&s, sum, 1, 1, s.first);
    CU(cuEventRecord, after, s.first);
    CU(cuStreamWaitEvent, s.second, after, 0);
    CU(cuMemcpyAsync, copy, sum, 8, s.second);
    CU(cuEventDestroy, after); /* the wait goes on */
    CHECK_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery, s.second);
    CU(cuEventCreate, &after, 0);
    CU(cuEventRecord, after, s.second);
    CHECK_RESULT(CUDA_ERROR_NOT_READY, cuEventQuery, after);
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* time for whoever does not wait */
    uint64_t one = 1;
    CU(cuMemcpyHtoD, gate, &one, 8);
    CU(cuCtxSynchronize, );
    CHECK(process_word(copy) == 1);
    CU(cuEventQuery, after);
    CU(cuEventElapsedTime, &milliseconds, before, after);
    CHECK(milliseconds >= 0);
}

static void *map_words(int file)
{
    void *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(words != MAP_FAILED);
    CU(cuMemHostRegister, words, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    return words;
}

/* Wait for 1, 2, … in one word, answer each in another, all queued beforehand. */
static void answer(int socket)
{
    process_use(0);
    char byte;
    CUdeviceptr words = (CUdeviceptr)(uintptr_t)map_words(process_receive(socket, &byte, 1));
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        CU(cuStreamWaitValue64, NULL, words, i, CU_STREAM_WAIT_VALUE_GEQ);
        CU(cuStreamWriteValue64, NULL, words + 64, i, 0);
    }
    CU(cuStreamSynchronize, NULL);
}

static void test_words_cross_processes(int socket)
{
    (void)socket;
    process_t answerer = process_start(answer);
    int file = memfd_create("words", MFD_CLOEXEC);
    CHECK(file >= 0 && !ftruncate(file, 4096));
    process_use(0);
    CUdeviceptr words = (CUdeviceptr)(uintptr_t)map_words(file);
    process_send(answerer.socket, "", 1, file);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        CU(cuStreamWriteValue64, NULL, words, i, 0);
        CU(cuStreamWaitValue64, NULL, words + 64, i, CU_STREAM_WAIT_VALUE_EQ);
    }
    CU(cuStreamSynchronize, NULL);
    CHECK(process_end(answerer) == 0);
}

static CUgraphExec end_capture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    CU(cuStreamEndCapture, stream, &graph);
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CU(cuGraphDestroy, graph);
    return exec;
}

static void test_a_capture_is_replayed(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr go = s.words, done = s.words + 8, sum = s.words + 16;
    CUstreamCaptureStatus status;
    CU(cuStreamBeginCapture, s.first, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuStreamIsCapturing, s.first, &status);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CU(cuStreamWriteValue64, s.first, go, 1, 0);
    CU(cuStreamWaitValue64, s.first, done, 1, CU_STREAM_WAIT_VALUE_EQ);
    CU(cuStreamWriteValue64, s.first, done, 0, 0);
    increment(&s, sum, 10, 3, s.first);
    CUgraphExec exec = end_capture(s.first);
    CHECK(process_word(sum) == 0 && process_word(go) == 0); /* nothing has run */
    for (unsigned i = 0; i < ROUNDS; i++) {
        CU(cuGraphLaunch, exec, s.first);
        CU(cuStreamWaitValue64, s.second, go, 1, CU_STREAM_WAIT_VALUE_EQ);
        CU(cuStreamWriteValue64, s.second, go, 0, 0);
        CU(cuStreamWriteValue64, s.second, done, 1, 0);
    }
    CU(cuGraphExecDestroy, exec); /* while it runs */
    CU(cuCtxSynchronize, );
    for (unsigned i = 0; i < 10; i++)
        CHECK(process_word(sum + 8 * i) == ROUNDS);
}

/* The branches wait for each other: one after the other they would never end. */
static void test_branches_of_a_graph_run_at_once(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr ping = s.words, pong = s.words + 8, sum = s.words + 16;
    CUevent fork_event, join_event;
    CU(cuEventCreate, &fork_event, CU_EVENT_DISABLE_TIMING);
    CU(cuEventCreate, &join_event, CU_EVENT_DISABLE_TIMING);
    CU(cuStreamBeginCapture, s.first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CU(cuEventRecord, fork_event, s.first);
    CU(cuStreamWaitEvent, s.second, fork_event, 0);
    CU(cuStreamWaitValue64, s.first, ping, 1, CU_STREAM_WAIT_VALUE_EQ);
    CU(cuStreamWriteValue64, s.first, pong, 1, 0);
    CU(cuStreamWriteValue64, s.second, ping, 1, 0);
    CU(cuStreamWaitValue64, s.second, pong, 1, CU_STREAM_WAIT_VALUE_EQ);
    CU(cuEventRecord, join_event, s.second);
    CU(cuStreamWaitEvent, s.first, join_event, 0);
    CU(cuMemsetD8Async, ping, 0, 16, s.first);
    increment(&s, sum, 1, 1, s.first);
    CUgraphExec exec = end_capture(s.first);
    for (unsigned i = 0; i < ROUNDS; i++)
        CU(cuGraphLaunch, exec, i % 2 ? s.first : s.second); /* in turn, also on different streams */
    CU(cuCtxSynchronize, );
    CHECK(process_word(sum) == ROUNDS);
    CU(cuGraphExecDestroy, exec);
}

static void test_what_a_capture_forbids(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUgraph graph;
    CUdeviceptr address;
    CUevent event;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU(cuEventCreate, &event, 0);
    CU(cuStreamBeginCapture, s.first, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuThreadExchangeStreamCaptureMode, &mode);
    CU(cuMemAlloc, &address, 8); /* allowed to this thread */
    CU(cuThreadExchangeStreamCaptureMode, &mode);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, &address, 8);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.first, &graph);
    CU(cuStreamBeginCapture, s.first, CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, s.first);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.first, &graph);
    CHECK(!graph);
    CU(cuStreamBeginCapture, s.first, CU_STREAM_CAPTURE_MODE_RELAXED);
    CU(cuEventRecord, event, s.first);
    CU(cuStreamWaitEvent, s.second, event, 0);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture, s.second, &graph);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture, s.first, &graph);
    CHECK_RESULT(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent, s.second, event, 0);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture, s.first, &graph);
    CHECK_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, NULL,
                 CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void count_call(void *counter)
{
    ++*(int *)counter;
}

static void test_a_user_object_lives_as_long_as_its_graphs(int socket)
{
    (void)socket;
    setup_t s = set_up();
    int calls = 0;
    CUuserObject object;
    CUstreamCaptureStatus status;
    cuuint64_t number;
    CUgraph graph, ended;
    CUgraphExec exec;
    CU(cuStreamBeginCapture, s.first, CU_STREAM_CAPTURE_MODE_RELAXED);
    CU(cuStreamGetCaptureInfo_v2, s.first, &status, &number, &graph, NULL, NULL);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && number);
    CU(cuUserObjectCreate, &object, &calls, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    CU(cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    CU(cuStreamEndCapture, s.first, &ended);
    CHECK(ended == graph);
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CU(cuGraphDestroy, graph);
    CU(cuGraphLaunch, exec, s.first);
    CU(cuStreamSynchronize, s.first);
    CHECK(calls == 0);
    CU(cuGraphExecDestroy, exec);
    CHECK(calls == 1);
}

static void test_cooperative_blocks_meet(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr word = s.words;
    void *parameters[] = {&word};
    int multiprocessors, blocks;
    CU(cuDeviceGetAttribute, &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, s.meet, 512, 0);
    CHECK(multiprocessors * blocks == RESIDENT_BLOCKS);
    CHECK(process_launch(s.meet, RESIDENT_BLOCKS + 1, true, s.first, parameters) ==
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    CHECK(process_launch(s.meet, RESIDENT_BLOCKS, true, s.first, parameters) == CUDA_SUCCESS);
    CU(cuStreamSynchronize, s.first);
    CHECK(process_word(word) == RESIDENT_BLOCKS);
    increment(&s, s.words, 100, 2 * RESIDENT_BLOCKS, s.first); /* others need not fit */
    CU(cuStreamSynchronize, s.first);
    CHECK(process_word(s.words + 8 * 99) == 1);
    CUmodule module;
    CUfunction function;
    CU(cuModuleLoadData, &module, "any image");
    CHECK_RESULT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "no_such_kernel");
}

static void test_launches_with_unknown_attributes_are_refused(int socket)
{
    (void)socket;
    setup_t s = set_up();
    uint64_t count = 1;
    CUlaunchAttribute attributes[] = {{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 0}},
                                      {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = 0}}};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s.first,
                             .attrs = attributes,
                             .numAttrs = 2};
    void *parameters[] = {&s.words, &count};
    CHECK_RESULT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx, &config, s.increment, parameters, NULL);
    attributes[1] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                        .value = {.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE}};
    CHECK_RESULT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx, &config, s.increment, parameters, NULL);
    config.numAttrs = 1;
    CU(cuLaunchKernelEx, &config, s.increment, parameters, NULL);
    CU(cuStreamSynchronize, s.first);
    CHECK(process_word(s.words) == 1);
}

static void test_a_lost_context_stays_lost(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr address;
    uint64_t *word;
    CU(cuMemHostAlloc, (void **)&word, 8, 0);
    *word = 0;
    CU(cuStreamWaitValue64, s.second, s.words + 8, 1, CU_STREAM_WAIT_VALUE_EQ); /* never ends by itself */
    increment(&s, (CUdeviceptr)(uintptr_t)word, 1, 1, s.first);
    increment(&s, (CUdeviceptr)(uintptr_t)word, 1, 1, s.first);
    CU(cuStreamSynchronize, s.first);
    increment(&s, (CUdeviceptr)(uintptr_t)word, 1, 1, s.first); /* the third */
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, s.second);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc, &address, 8);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize, );
    CHECK(*word == 2);
}

/* By what came from elsewhere: any call may be the first to tell. */
static void test_any_call_may_tell_that_a_context_is_lost(int socket)
{
    (void)socket;
    setenv("STANDIN_CUDA_GPUS", "2", 1);
    setenv("STANDIN_CUDA_LOST_ALONE", "1", 1);
    setup_t s = set_up();
    CUdeviceptr address;
    CU(cuStreamWaitValue64, s.second, s.words, 1, CU_STREAM_WAIT_VALUE_EQ); /* never ends by itself */
    CHECK_RESULT(CUDA_ERROR_MPS_CLIENT_TERMINATED, cuMemAlloc, &address, 8);
    CHECK_RESULT(CUDA_ERROR_MPS_CLIENT_TERMINATED, cuStreamQuery, s.first);
    CHECK_RESULT(CUDA_ERROR_MPS_CLIENT_TERMINATED, cuStreamSynchronize, s.second);
    process_use(1);
    CU(cuMemAlloc, &address, 8);
}

/* The context of one GPU is lost; the other's goes on. */
static void test_another_context_is_not_lost(int socket)
{
    (void)socket;
    setenv("STANDIN_CUDA_GPUS", "2", 1);
    setenv("STANDIN_CUDA_LOST", "1", 1);
    setup_t s = set_up();
    CUstream other_stream;
    CUdeviceptr address;
    increment(&s, s.words, 1, 1, s.first);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, s.first);
    process_use(1);
    CU(cuMemAlloc, &address, 8);
    CU(cuStreamCreate, &other_stream, CU_STREAM_NON_BLOCKING);
    CU(cuMemsetD8Async, address, 3, 8, other_stream);
    CU(cuStreamSynchronize, other_stream);
    CHECK(process_word(address) == UINT64_C(0x0303030303030303));
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery, s.first); /* whatever is current */
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, s.first);
    process_use(0);
    CHECK_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc, &address, 8);
}

/* A kernel has all the room until it is told to stop; the next one waits for it. */
static void test_a_launch_waits_for_multiprocessors(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CUdeviceptr word = s.words;
    void *parameters[] = {&word};
    CUmodule module;
    CUfunction spin;
    CU(cuModuleLoadData, &module, "any image");
    CU(cuModuleGetFunction, &spin, module, "probe_spin");
    CUdeviceptr started = s.words + 64, stop = s.words + 128;
    uint64_t limit_ns = UINT64_C(1000000000) * limit_s();
    void *spins[] = {&started, &stop, &limit_ns};
    CHECK(process_launch(spin, RESIDENT_BLOCKS, true, s.first, spins) == CUDA_SUCCESS);
    while (!(uint32_t)process_word(started))
        usleep(1000);
    CHECK(process_launch(s.meet, 2, true, s.second, parameters) == CUDA_SUCCESS);
    usleep(100000);
    CHECK_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery, s.second);
    CHECK(process_word(word) == 0);
    uint64_t one = 1;
    CU(cuMemcpyHtoD, stop, &one, sizeof(one));
    CU(cuStreamSynchronize, s.second);
    CHECK(process_word(word) == 2);
}

static void test_a_process_ends_while_its_streams_are_blocked(int socket)
{
    (void)socket;
    setup_t s = set_up();
    CU(cuStreamWaitValue64, s.first, s.words, 1, CU_STREAM_WAIT_VALUE_EQ);
    CU(cuStreamWaitValue64, NULL, s.words, 1, CU_STREAM_WAIT_VALUE_EQ);
}

#define TEST(name, environment)                                                                              \
    {                                                                                                        \
#name, name, environment                                                                             \
    }

int main(void)
{
    static const process_test_t tests[] = {
        TEST(test_a_stream_keeps_its_order, NULL),
        TEST(test_events_order_streams, NULL),
        TEST(test_words_cross_processes, NULL),
        TEST(test_a_capture_is_replayed, NULL),
        TEST(test_branches_of_a_graph_run_at_once, NULL),
        TEST(test_what_a_capture_forbids, NULL),
        TEST(test_a_user_object_lives_as_long_as_its_graphs, NULL),
        TEST(test_cooperative_blocks_meet, NULL),
        TEST(test_launches_with_unknown_attributes_are_refused, NULL),
        TEST(test_a_lost_context_stays_lost, "STANDIN_CUDA_LOST=3"),
        TEST(test_any_call_may_tell_that_a_context_is_lost, "STANDIN_CUDA_FAIL=cuMemAlloc:2:810"),
        TEST(test_another_context_is_not_lost, "STANDIN_CUDA_LOST_ALONE=1"),
        TEST(test_a_launch_waits_for_multiprocessors, "STANDIN_CUDA_RESIDENCY=32"),
        TEST(test_a_process_ends_while_its_streams_are_blocked, NULL),
    };
    return process_run_all(tests, sizeof(tests) / sizeof(tests[0]));
}

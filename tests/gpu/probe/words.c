/* Questions 1, 2 and 9: words in host memory between CPUs and streams. Stream order across processes
 * rests on them: a captured op is write go=1; wait done==1; write done=0, replayed any number of
 * times; ready and done words lie in memory that both processes map; a gate that the CPU opens starts a
 * kernel fast enough for an 8-byte AllReduce. */
#include "probe.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REPLAYS = 1000, ROUNDS = 1000, SHARED_BYTES = 4096 };
enum { STAGE_MAPPED = 4, STAGE_GO, STAGE_DONE }; /* 0 to 3 are the neighbour's */

/* Sealed as the rings are, which must not keep CUDA from registering it. */
static uint32_t *map_memfd(probe_t *p)
{
    const int fd = memfd_create("gpu-probe", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, SHARED_BYTES) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        probe_note_error(p, "memfd: %m");
        return NULL;
    }
    void *memory = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static bool register_words(probe_t *p, uint32_t *words, CUdeviceptr *device)
{
    PROBE_CU(cuMemHostRegister(words, SHARED_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    PROBE_CU(cuMemHostGetDevicePointer(device, words, 0));
    return true;
}

/* ---- 1: captured memory operations ---- */

enum { GO = 0, DONE = 16, STOP = 32 }; /* words of the pair, a cache line each */
typedef enum replay_way { REPLAY_THREAD, REPLAY_PROCESS, REPLAY_BATCH } replay_way_t;

/* The daemon's part: sees go, clears it, writes done. It ends with the question at the latest. */
static void answer(uint32_t *words)
{
    while (!probe_fetch(&words[STOP])) {
        if (!probe_fetch(&words[GO]))
            continue;
        probe_store(&words[GO], 0);
        probe_store(&words[DONE], 1);
    }
}

static void *answer_in_thread(void *words)
{
    answer(words);
    return NULL;
}

static bool capture(probe_t *p, CUdeviceptr words, CUdeviceptr counter, CUgraph *graph)
{
    CUstream stream;
    const CUdeviceptr go = words + GO * sizeof(uint32_t), done = words + DONE * sizeof(uint32_t);
    PROBE_TRY(probe_stream(p, &stream));
    PROBE_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    PROBE_CU(cuStreamWriteValue32(stream, go, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    PROBE_CU(cuStreamWaitValue32(stream, done, 1, CU_STREAM_WAIT_VALUE_EQ));
    PROBE_CU(cuStreamWriteValue32(stream, done, 0, CU_STREAM_WRITE_VALUE_DEFAULT));
    PROBE_TRY(probe_launch(p, PROBE_COUNT, 1, 1, stream, (void *[]){&counter}));
    PROBE_CU(cuStreamEndCapture(stream, graph));
    return true;
}

/* As the library does: the three in one call, which is one node. */
static bool capture_batch(probe_t *p, CUdeviceptr words, CUdeviceptr counter, CUgraph *graph)
{
    CUstream stream;
    const CUdeviceptr go = words + GO * sizeof(uint32_t), done = words + DONE * sizeof(uint32_t);
    CUstreamBatchMemOpParams operation[3];
    memset(operation, 0, sizeof(operation));
    operation[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation[0].writeValue.address = go;
    operation[0].writeValue.value = 1;
    operation[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation[1].waitValue.address = done;
    operation[1].waitValue.value = 1;
    operation[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    operation[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation[2].writeValue.address = done;
    operation[2].writeValue.value = 0;
    PROBE_TRY(probe_stream(p, &stream));
    PROBE_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    PROBE_CU(cuStreamBatchMemOp(stream, 3, operation, 0));
    PROBE_TRY(probe_launch(p, PROBE_COUNT, 1, 1, stream, (void *[]){&counter}));
    PROBE_CU(cuStreamEndCapture(stream, graph));
    return true;
}

static bool replay(probe_t *p, CUgraph graph, uint32_t *words, CUdeviceptr counter)
{
    CUgraphExec executable;
    CUstream stream;
    static double us[REPLAYS];
    uint32_t counted = 0;
    PROBE_CU(cuGraphInstantiate(&executable, graph, 0));
    PROBE_TRY(probe_stream(p, &stream));
    for (unsigned i = 0; i < REPLAYS; i++) {
        const uint64_t start_ns = probe_now_ns();
        PROBE_CU(cuGraphLaunch(executable, stream));
        PROBE_TRY(probe_sync(p, stream, 5000));
        us[i] = (double)(probe_now_ns() - start_ns) * 1e-3;
    }
    const double median_us = probe_numbers(p, "us per replay, launch to completion", us, REPLAYS);
    const uint64_t start_ns = probe_now_ns();
    for (unsigned i = 0; i < REPLAYS; i++)
        PROBE_CU(cuGraphLaunch(executable, stream));
    PROBE_TRY(probe_sync(p, stream, 30000)); /* the deadline, where few cores have much else to do */
    probe_number(p, "us per replay, %d in a row: %.3g", REPLAYS,
                 (double)(probe_now_ns() - start_ns) * 1e-3 / REPLAYS);
    probe_store(&words[STOP], 1);
    PROBE_CU(cuMemcpyDtoH(&counted, counter, sizeof(counted)));
    const bool is_right = counted == 2 * REPLAYS && !probe_fetch(&words[GO]) && !probe_fetch(&words[DONE]);
    probe_answer(p, is_right ? PROBE_PASS : PROBE_FAIL,
                 "%u of %d replays ran to their end, %.3g us each; go and done were left %u and %u", counted,
                 2 * REPLAYS, median_us, probe_fetch(&words[GO]), probe_fetch(&words[DONE]));
    return true;
}

static bool ask_replay(probe_t *p)
{
    const replay_way_t way = (replay_way_t)p->question->variant;
    uint32_t *words = NULL;
    CUdeviceptr device_words, counter;
    CUgraph graph;
    if (way == REPLAY_PROCESS) {
        PROBE_TRY((words = map_memfd(p)) != NULL);
        const pid_t child = fork(); /* after the mapping, which both keep */
        if (child == 0) {
            answer(words);
            _exit(0);
        }
        PROBE_TRY(probe_open(p, p->question->mode) && register_words(p, words, &device_words));
    } else {
        pthread_t thread;
        PROBE_TRY(probe_open(p, p->question->mode) && probe_host_words(p, 64, &words, &device_words));
        PROBE_TRY(pthread_create(&thread, NULL, answer_in_thread, words) == 0);
    }
    PROBE_CU(cuMemAlloc(&counter, sizeof(uint32_t)));
    PROBE_CU(cuMemsetD32(counter, 0, 1));
    PROBE_TRY((way == REPLAY_BATCH ? capture_batch : capture)(p, device_words, counter, &graph));
    return replay(p, graph, words, counter);
}

/* ---- 2: a memfd in two processes ---- */

enum { WORD = 0, ACK = 16, TURN = 32 };
typedef enum writer { WRITER_CPU, WRITER_STREAM } writer_t;

/* Lets the waiting process enqueue a few rounds ahead and then stores one value after the other. */
static bool write_rounds(probe_t *p, uint32_t *words, CUdeviceptr device_words, CUstream stream)
{
    static double us[ROUNDS];
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (!probe_spin_until(&words[TURN], i, 2000))
            return false;
        if (probe_fetch(&words[ACK]) >= i) {
            probe_note_error(p, "the stream did not wait for value %u", i);
            return false;
        }
        const uint64_t start_ns = probe_now_ns();
        if (p->question->variant == WRITER_CPU)
            probe_store(&words[WORD], i);
        else
            PROBE_CU(cuStreamWriteValue32(stream, device_words + WORD * sizeof(uint32_t), i,
                                          CU_STREAM_WRITE_VALUE_DEFAULT));
        if (!probe_spin_until(&words[ACK], i, 2000)) {
            probe_note_error(p, "value %u was never seen by the other process's stream", i);
            return false;
        }
        us[i - 1] = (double)(probe_now_ns() - start_ns) * 1e-3;
    }
    probe_numbers(p, "us from the write to the waiting stream's answer seen by this CPU", us, ROUNDS);
    probe_reach(p, STAGE_DONE);
    return true;
}

static uint32_t *shared_words; /* mapped before the fork; the question's processes inherit it */

static bool write_from_other_process(probe_t *p)
{
    CUdeviceptr device_words = 0;
    CUstream stream = NULL;
    if (p->question->variant == WRITER_STREAM) {
        PROBE_TRY(probe_open(p, p->question->mode) && register_words(p, shared_words, &device_words) &&
                  probe_stream(p, &stream));
    }
    probe_reach(p, STAGE_MAPPED);
    PROBE_TRY(probe_await(p, STAGE_GO, 10000));
    return write_rounds(p, shared_words, device_words, stream);
}

static bool ask_memfd(probe_t *p)
{
    pid_t writer;
    CUdeviceptr device_words;
    CUstream stream;
    PROBE_TRY((shared_words = map_memfd(p)) != NULL);
    PROBE_TRY(probe_actor(p, write_from_other_process, &writer));
    PROBE_TRY(probe_open(p, p->question->mode) && register_words(p, shared_words, &device_words) &&
              probe_stream(p, &stream));
    PROBE_TRY(probe_await(p, STAGE_MAPPED, 10000));
    probe_reach(p, STAGE_GO);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        PROBE_CU(
            cuStreamWaitValue32(stream, device_words + WORD * sizeof(uint32_t), i, CU_STREAM_WAIT_VALUE_GEQ));
        PROBE_CU(cuStreamWriteValue32(stream, device_words + ACK * sizeof(uint32_t), i,
                                      CU_STREAM_WRITE_VALUE_DEFAULT));
        probe_store(&shared_words[TURN], i);
        PROBE_TRY(probe_sync(p, stream, 3000));
    }
    PROBE_TRY(probe_await(p, STAGE_DONE, 3000));
    probe_answer(p, PROBE_PASS,
                 "all %d values were seen and answered by the waiting stream of the other process", ROUNDS);
    return true;
}

/* ---- 2d: words of 64 bits, which are what blinkd uses ---- */

static bool ask_long_words(probe_t *p)
{
    uint32_t *words;
    CUdeviceptr device_words;
    CUstream stream;
    int can = 0;
    PROBE_TRY(probe_open(p, p->question->mode) &&
              probe_host_words(p, SHARED_BYTES / 4, &words, &device_words));
    PROBE_TRY(probe_stream(p, &stream));
    PROBE_CU(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, p->device));
    const CUdeviceptr word = device_words + WORD * sizeof(uint32_t),
                      ack = device_words + ACK * sizeof(uint32_t);
    uint64_t *const told = (void *)&words[WORD], *const seen = (void *)&words[ACK];
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        const uint64_t value = i << 32 | 1; /* a wait for its lower half alone would be met at once */
        PROBE_CU(cuStreamWaitValue64(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ));
        PROBE_CU(cuStreamWriteValue64(stream, ack, value, CU_STREAM_WRITE_VALUE_DEFAULT));
        if (__atomic_load_n(seen, __ATOMIC_ACQUIRE) == value) {
            probe_note_error(p, "round %llu: the stream did not wait", (unsigned long long)i);
            return false;
        }
        __atomic_store_n(told, value, __ATOMIC_RELEASE); /* pairs with the stream's wait */
        PROBE_TRY(probe_sync(p, stream, 3000));
        if (__atomic_load_n(seen, __ATOMIC_ACQUIRE) != value) { /* pairs with the stream's write */
            probe_note_error(p, "round %llu: the stream wrote something else", (unsigned long long)i);
            return false;
        }
    }
    probe_answer(p, can ? PROBE_PASS : PROBE_FAIL,
                 "all %d values seen and written; the driver says that it %s", ROUNDS,
                 can ? "can" : "CANNOT");
    return true;
}

/* ---- 9: from the gate to the kernel ---- */

enum { GATE = 0, FLAG = 16, GATE_US = 10, TURNS_US = 20000 };

static bool time_gates(probe_t *p, uint32_t *words, CUdeviceptr device_words, bool is_gated,
                       double us[ROUNDS], unsigned *count)
{
    CUstream stream;
    CUdeviceptr flag = device_words + FLAG * sizeof(uint32_t);
    const uint64_t end_ns = probe_now_ns() + UINT64_C(2500000000);
    PROBE_TRY(probe_stream(p, &stream));
    probe_store(&words[GATE], 0);
    probe_store(&words[FLAG], 0);
    for (*count = 0; *count < ROUNDS && probe_now_ns() < end_ns; ++*count) {
        uint32_t i = *count + 1;
        uint64_t start_ns = probe_now_ns();
        if (is_gated)
            PROBE_CU(cuStreamWaitValue32(stream, device_words, i, CU_STREAM_WAIT_VALUE_GEQ));
        PROBE_TRY(probe_launch(p, PROBE_MARK, 1, 1, stream, (void *[]){&flag, &i}));
        if (is_gated) {
            while (probe_now_ns() - start_ns < 200000) /* until the stream surely waits */
                ;
            if (probe_fetch(&words[FLAG]) >= i) {
                probe_note_error(p, "round %u: the kernel did not wait for its gate", i);
                return false;
            }
            start_ns = probe_now_ns();
            probe_store(&words[GATE], i);
        }
        if (!probe_spin_until(&words[FLAG], i, 3000)) {
            probe_note_error(p, "round %u: no kernel 3 s after the gate", i);
            return false;
        }
        us[*count] = (double)(probe_now_ns() - start_ns) * 1e-3;
    }
    return probe_sync(p, stream, 3000);
}

static bool time_echo(probe_t *p, uint32_t *words, CUdeviceptr device_words, double us[ROUNDS])
{
    CUstream stream;
    CUdeviceptr gate = device_words, flag = device_words + FLAG * sizeof(uint32_t);
    uint32_t rounds = ROUNDS;
    uint64_t limit_ns = UINT64_C(3000000000);
    PROBE_TRY(probe_stream(p, &stream));
    probe_store(&words[GATE], 0);
    probe_store(&words[FLAG], 0);
    PROBE_TRY(probe_launch(p, PROBE_ECHO, 1, 1, stream, (void *[]){&gate, &flag, &rounds, &limit_ns}));
    for (uint32_t i = 1; i <= rounds; i++) {
        const uint64_t start_ns = probe_now_ns();
        probe_store(&words[GATE], i);
        if (!probe_spin_until(&words[FLAG], i, 3000)) {
            probe_note_error(p, "the polling kernel did not answer round %u", i);
            return false;
        }
        us[i - 1] = (double)(probe_now_ns() - start_ns) * 1e-3;
    }
    return probe_sync(p, stream, 3000);
}

static bool ask_gate(probe_t *p)
{
    static double us[ROUNDS];
    unsigned count;
    uint32_t *words;
    CUdeviceptr device_words;
    const neighbour_t kind = (neighbour_t)p->question->variant;
    if (kind != NEIGHBOUR_NONE)
        PROBE_TRY(neighbour_fork(p, kind));
    PROBE_TRY(probe_open(p, p->question->mode) && probe_host_words(p, 64, &words, &device_words));
    if (kind != NEIGHBOUR_NONE)
        PROBE_TRY(neighbour_ready(p) && neighbour_begin(p));
    PROBE_TRY(time_gates(p, words, device_words, true, us, &count));
    const double gated_us = probe_numbers(p, "us from the gate's store to the kernel's flag", us, count);
    PROBE_TRY(time_gates(p, words, device_words, false, us, &count));
    probe_numbers(p, "us from an ungated launch call to the flag", us, count);
    if (kind ==
        NEIGHBOUR_NONE) { /* beside another context it would measure the time slices, as the first does */
        PROBE_TRY(time_echo(p, words, device_words, us));
        probe_numbers(p, "us there and back with a kernel that polls", us, ROUNDS);
    }
    if (kind != NEIGHBOUR_NONE)
        PROBE_TRY(neighbour_end(p));
    const bool takes_turns = p->question->mode == PROBE_ISOLATED && kind == NEIGHBOUR_SPIN;
    probe_answer(p, gated_us <= (takes_turns ? TURNS_US : GATE_US) ? PROBE_PASS : PROBE_FAIL,
                 "median %.3g us from opening the gate to the kernel's word back at the CPU", gated_us);
    return true;
}

#define ASSUME_REPLAY                                                                                        \
    "write go=1; wait done==1; write done=0 can be captured and replayed any number of times while the "     \
    "daemon's CPU answers"
#define ASSUME_MEMFD                                                                                         \
    "ready and done words lie in a sealed memfd that both processes map and register; streams wait on what " \
    "the other writes"
#define ASSUME_GATE  "a gate that the CPU opens costs at most 10 us, so that 8 bytes can be done in 25 us"
#define ASSUME_TURNS "without MPS kernels take turns, so the gate costs some time slices, but less than 20 ms"

const probe_question_t probe_word_questions[] = {
    {"1a", "captured memory operations, 1,000 replays, a host thread answers", ASSUME_REPLAY, ask_replay,
     REPLAY_THREAD, PROBE_ISOLATED, 30},
    {"1b", "the same through a memfd, another process answers", ASSUME_REPLAY, ask_replay, REPLAY_PROCESS,
     PROBE_ISOLATED, 30},
    {"1c", "the same captured by one call, as the library does", ASSUME_REPLAY, ask_replay, REPLAY_BATCH,
     PROBE_ISOLATED, 15},
    {"2a", "a stream waits on a memfd that another process's CPU writes", ASSUME_MEMFD, ask_memfd, WRITER_CPU,
     PROBE_ISOLATED, 15},
    {"2b", "a stream waits on a memfd that another process's stream writes", ASSUME_MEMFD, ask_memfd,
     WRITER_STREAM, PROBE_ISOLATED, 20},
    {"2c", "2b with both processes under MPS", ASSUME_MEMFD, ask_memfd, WRITER_STREAM, PROBE_MPS, 20},
    {"2d", "streams wait for words of 64 bits and write them",
     "64-bit memory operations are there on every GPU that blinkd serves", ask_long_words, 0, PROBE_ISOLATED,
     15},
    {"9a", "gate word to kernel start, one process", ASSUME_GATE, ask_gate, NEIGHBOUR_NONE, PROBE_ISOLATED,
     15},
    {"9b", "the same beside a process whose stream is blocked", ASSUME_GATE, ask_gate, NEIGHBOUR_WAIT,
     PROBE_ISOLATED, 15},
    {"9c", "the same beside a process with one spinning block: what a time slice costs", ASSUME_TURNS,
     ask_gate, NEIGHBOUR_SPIN, PROBE_ISOLATED, 15},
    {"9d", "9a under MPS", ASSUME_GATE, ask_gate, NEIGHBOUR_NONE, PROBE_MPS, 15},
    {"9e", "9c under MPS", ASSUME_GATE, ask_gate, NEIGHBOUR_SPIN, PROBE_MPS, 15},
    {0},
};

/* The other process on the GPU: its stream blocked at a word, one spinning block, or a kernel that fills
 * every multiprocessor. Questions 3, 7 and 9 are asked beside it. It uses stages 0 to 3 and 7 of the board.
 */
#include "probe.h"

enum { STAGE_READY, STAGE_BEGIN, STAGE_ACTIVE, STAGE_END, STAGE_ENDED = 7 };
enum { HOLD_MS = 10000, THREADS = 1024 };

typedef struct holding {
    CUstream stream;
    uint32_t *words; /* [0] opens or stops, [1] says that the kernel runs */
    CUdeviceptr device_words;
} holding_t;

static bool hold(probe_t *p, neighbour_t kind, const holding_t *holding)
{
    if (kind == NEIGHBOUR_WAIT) {
        PROBE_CU(cuStreamWaitValue32(holding->stream, holding->device_words, 1, CU_STREAM_WAIT_VALUE_GEQ));
        probe_sleep_ms(20);
        return true;
    }
    int blocks = 1;
    if (kind == NEIGHBOUR_FILL) {
        PROBE_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, p->kernel[PROBE_SPIN], THREADS, 0));
        blocks *= p->multiprocessors;
    }
    CUdeviceptr started = holding->device_words + sizeof(uint32_t), stop = holding->device_words;
    uint64_t limit_ns = HOLD_MS * UINT64_C(1000000);
    PROBE_TRY(probe_launch(p, PROBE_SPIN, (unsigned)blocks, THREADS, holding->stream,
                           (void *[]){&started, &stop, &limit_ns}));
    if (probe_spin_until(&holding->words[1], 1, 3000))
        return true;
    probe_note_error(p, "the neighbour's kernel did not start in 3 s");
    return false;
}

static bool be_neighbour(probe_t *p, neighbour_t kind)
{
    holding_t holding;
    PROBE_TRY(probe_open(p, p->question->mode));
    PROBE_TRY(probe_stream(p, &holding.stream));
    PROBE_TRY(probe_host_words(p, 2, &holding.words, &holding.device_words));
    probe_reach(p, STAGE_READY);
    PROBE_TRY(probe_await(p, STAGE_BEGIN, HOLD_MS));
    PROBE_TRY(hold(p, kind, &holding));
    probe_reach(p, STAGE_ACTIVE);
    /* It ends what it holds by itself: under MPS a client killed in the middle of a kernel may harm the
     * others. */
    const bool is_told = probe_await(p, STAGE_END, HOLD_MS);
    probe_store(&holding.words[0], 1);
    const bool is_over = probe_sync(p, holding.stream, HOLD_MS);
    probe_reach(p, STAGE_ENDED);
    return is_told && is_over;
}

static bool be_waiting(probe_t *p)
{
    return be_neighbour(p, NEIGHBOUR_WAIT);
}

static bool be_spinning(probe_t *p)
{
    return be_neighbour(p, NEIGHBOUR_SPIN);
}

static bool be_filling(probe_t *p)
{
    return be_neighbour(p, NEIGHBOUR_FILL);
}

bool neighbour_fork(probe_t *p, neighbour_t kind)
{
    bool (*const roles[])(probe_t *) = {
        [NEIGHBOUR_WAIT] = be_waiting, [NEIGHBOUR_SPIN] = be_spinning, [NEIGHBOUR_FILL] = be_filling};
    pid_t pid;
    return probe_actor(p, roles[kind], &pid);
}

bool neighbour_ready(probe_t *p)
{
    return probe_await(p, STAGE_READY, HOLD_MS);
}

bool neighbour_begin(probe_t *p)
{
    probe_reach(p, STAGE_BEGIN);
    return probe_await(p, STAGE_ACTIVE, HOLD_MS);
}

bool neighbour_end(probe_t *p)
{
    probe_reach(p, STAGE_END);
    return probe_await(p, STAGE_ENDED, HOLD_MS);
}

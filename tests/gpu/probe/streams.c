/* Question 6: do streams hold one another? Where every op's stream waits on a gate of its own, one that
 * waits for a slow rank must not hold the others. Streams share the driver's hardware queues
 * (CUDA_DEVICE_MAX_CONNECTIONS, 8 unless set). */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>

enum { STREAMS_MAX = 64, PATIENCE_MS = 150, LINE_WORDS = 16 };

typedef struct gates {
    uint32_t *words; /* two lines each: the gate and the kernel's flag */
    CUdeviceptr device_words;
    CUstream stream[STREAMS_MAX];
} gates_t;

static uint32_t *flag_of(const gates_t *gates, unsigned i)
{
    return &gates->words[(2 * i + 1) * LINE_WORDS];
}

static bool block_all(probe_t *p, const gates_t *gates, unsigned count, uint32_t value)
{
    for (unsigned i = 0; i < count; i++) {
        const CUdeviceptr gate = gates->device_words + 2 * i * LINE_WORDS * sizeof(uint32_t);
        CUdeviceptr flag = gate + LINE_WORDS * sizeof(uint32_t);
        PROBE_CU(cuStreamWaitValue32(gates->stream[i], gate, value, CU_STREAM_WAIT_VALUE_GEQ));
        PROBE_TRY(probe_launch(p, PROBE_MARK, 1, 1, gates->stream[i], (void *[]){&flag, &value}));
    }
    return true;
}

/* A wait that does not wait would make every stream independent. */
static bool is_all_blocked(probe_t *p, const gates_t *gates, unsigned count, uint32_t value)
{
    probe_sleep_ms(5);
    for (unsigned i = 0; i < count; i++) {
        if (probe_fetch(flag_of(gates, i)) >= value) {
            probe_note_error(p, "stream %u of %u did not wait for its gate", i, count);
            return false;
        }
    }
    return true;
}

/* Opens the last first, the order that shared queues cannot serve. Returns how many did not run when opened.
 */
static unsigned open_backwards(probe_t *p, const gates_t *gates, unsigned count, uint32_t value)
{
    double us[STREAMS_MAX];
    unsigned opened = 0, held = 0;
    char what[64];
    for (unsigned i = count; i-- > 0;) {
        const uint64_t start_ns = probe_now_ns();
        probe_store(&gates->words[2 * i * LINE_WORDS], value);
        if (probe_spin_until(flag_of(gates, i), value, PATIENCE_MS))
            us[opened++] = (double)(probe_now_ns() - start_ns) * 1e-3;
        else
            held++;
    }
    snprintf(what, sizeof(what), "%u streams, us from gate to kernel", count);
    probe_numbers(p, what, us, opened);
    return held;
}

static bool ask_streams(probe_t *p)
{
    static const unsigned counts[] = {2, 8, 32, STREAMS_MAX};
    char connections[16];
    unsigned held[4];
    gates_t gates;
    snprintf(connections, sizeof(connections), "%d", p->question->variant);
    if (p->question->variant)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
    else
        unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    PROBE_TRY(probe_open(p, p->question->mode));
    PROBE_TRY(probe_host_words(p, (size_t)2 * STREAMS_MAX * LINE_WORDS, &gates.words, &gates.device_words));
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        PROBE_TRY(probe_stream(p, &gates.stream[i]));
    for (unsigned round = 0; round < 4; round++) {
        PROBE_TRY(block_all(p, &gates, counts[round], round + 1));
        PROBE_TRY(is_all_blocked(p, &gates, counts[round], round + 1));
        held[round] = open_backwards(p, &gates, counts[round], round + 1);
        for (unsigned i = 0; i < counts[round]; i++)
            PROBE_TRY(probe_sync(p, gates.stream[i], 2000));
    }
    /* Beyond 32 the driver has no queues left. */
    const bool is_independent = held[0] + held[1] + held[2] == 0;
    probe_answer(p, is_independent ? PROBE_PASS : PROBE_FAIL,
                 "held by others although their gate was open: %u of 2, %u of 8, %u of 32, %u of 64 streams "
                 "(CUDA_DEVICE_MAX_CONNECTIONS %s)",
                 held[0], held[1], held[2], held[3], p->question->variant ? connections : "not set");
    return true;
}

#define ASSUME_STREAMS "a stream blocked at its gate does not hold another op's stream"

const probe_question_t probe_stream_questions[] = {
    {"6a", "independence of 2, 8, 32, 64 blocked streams, as the driver comes", ASSUME_STREAMS, ask_streams,
     0, PROBE_ISOLATED, 20},
    {"6b", "the same with CUDA_DEVICE_MAX_CONNECTIONS=32", ASSUME_STREAMS, ask_streams, 32, PROBE_ISOLATED,
     20},
    {"6c", "6b under MPS", ASSUME_STREAMS, ask_streams, 32, PROBE_MPS, 20},
    {0},
};

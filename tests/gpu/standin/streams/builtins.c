/* A block has one thread here. A thread that yields for long may starve the rest of the machine, and so those
 * that wait take naps. */
#include "standin/streams/builtins.h"

#include "standin/memory/memory.h"
#include "standin/standin.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { POINTER = sizeof(CUdeviceptr), WORD = sizeof(uint32_t), LONG = sizeof(uint64_t), NAP_NS = 20000 };

static void nap(void)
{
    const struct timespec time = {0, NAP_NS};
    nanosleep(&time, NULL);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* standin_increment(uint64_t *words, uint64_t count): adds 1 to each of them. */
static void increment(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    uint64_t *words = memory_pointer(parameters[0]);
    for (uint64_t i = block; i < parameters[1]; i += block_count)
        __atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
}

/* standin_meet(uint64_t *word): adds 1, and ends once all blocks have. The word must be 0. */
static void meet(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block;
    uint64_t *word = memory_pointer(parameters[0]);
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < block_count && standin_health() == CUDA_SUCCESS)
        nap();
}

/* ---- kernels/probe.cu ---- */

static uint32_t load(CUdeviceptr word)
{
    return __atomic_load_n((const uint32_t *)memory_pointer(word), __ATOMIC_ACQUIRE);
}

static void store(CUdeviceptr word, uint32_t value)
{
    __atomic_store_n((uint32_t *)memory_pointer(word), value, __ATOMIC_RELEASE);
}

static bool goes_on(uint64_t start_ns, uint64_t limit_ns)
{
    return now_ns() - start_ns < limit_ns && standin_health() == CUDA_SUCCESS;
}

static void spin(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block, (void)block_count;
    const uint64_t start_ns = now_ns();
    store(parameters[0], 1);
    while (load(parameters[1]) == 0 && goes_on(start_ns, parameters[2]))
        nap();
}

static void work(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block_count;
    uint32_t x = block + 1;
    for (uint32_t i = 0; i < (uint32_t)parameters[1]; i++)
        x = x * 1664525u + 1013904223u;
    if (x == 0)
        store(parameters[0], x);
}

/* Nobody takes the GPU away from a kernel here. */
static void slices(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block, (void)block_count;
    const uint64_t start_ns = now_ns();
    while (goes_on(start_ns, parameters[0]))
        nap();
    store(parameters[4], 0);
}

/* The block's share of one pass. */
static void extremes_of(const uint32_t *memory, uint64_t words, uint32_t block, uint32_t block_count,
                        uint32_t *low, uint32_t *high)
{
    for (uint64_t i = block; i < words; i += block_count) {
        const uint32_t value = __atomic_load_n(&memory[i], __ATOMIC_RELAXED);
        *low = value < *low ? value : *low;
        *high = value > *high ? value : *high;
    }
}

static void read_over(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    const uint32_t *memory = memory_pointer(parameters[0]);
    uint32_t *lowest = memory_pointer(parameters[4]), *highest = memory_pointer(parameters[5]);
    const uint64_t start_ns = now_ns();
    uint32_t low = UINT32_MAX, high = 0, pass = 0;
    while (load(parameters[2]) == 0 && goes_on(start_ns, parameters[3])) {
        extremes_of(memory, parameters[1], block, block_count, &low, &high);
        if (block == 0)
            store(parameters[6], ++pass);
    }
    uint32_t found = __atomic_load_n(lowest, __ATOMIC_RELAXED);
    while (low < found &&
           !__atomic_compare_exchange_n(lowest, &found, low, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    found = __atomic_load_n(highest, __ATOMIC_RELAXED);
    while (high > found &&
           !__atomic_compare_exchange_n(highest, &found, high, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void mark(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block, (void)block_count;
    store(parameters[0], (uint32_t)parameters[1]);
}

static void count_up(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block, (void)block_count;
    store(parameters[0], load(parameters[0]) + 1);
}

static void echo(const uint64_t *parameters, uint32_t block, uint32_t block_count)
{
    (void)block, (void)block_count;
    const uint64_t start_ns = now_ns();
    for (uint32_t i = 1; i <= (uint32_t)parameters[2]; i++) {
        while (load(parameters[0]) < i) {
            if (!goes_on(start_ns, parameters[3]))
                return;
        }
        store(parameters[1], i);
    }
}

static const builtin_t builtins[] = {
    {"standin_increment", {POINTER, LONG}, increment, 0x1},
    {"standin_meet", {POINTER}, meet, 0x1},
    {"probe_spin", {POINTER, POINTER, LONG}, spin, 0x3},
    {"probe_work", {POINTER, WORD}, work, 0x1},
    {"probe_slices", {LONG, LONG, POINTER, POINTER, POINTER, WORD}, slices, 0x1c},
    {"probe_read", {POINTER, LONG, POINTER, LONG, POINTER, POINTER, POINTER}, read_over, 0x75},
    {"probe_mark", {POINTER, WORD}, mark, 0x1},
    {"probe_count", {POINTER}, count_up, 0x1},
    {"probe_echo", {POINTER, POINTER, WORD, LONG}, echo, 0x3},
};

const builtin_t *builtin_find(const char *name)
{
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    }
    return NULL;
}

/*
 * Measures the arithmetic of steps on one thread, on buffers larger than the caches: GB/s read and written
 * per (datatype, operator, sources, destinations, stream), next to memcpy and to a bare loop that adds as
 * many float32 inputs and streams as many outputs, both measured in the same round. The best of several
 * rounds counts.
 *
 *     reduce_rate [DATATYPE|all [OPERATOR [MiB per buffer [ROUNDS]]]]
 */
#include "exec/host/reduce/loops.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MAX_BUFFERS 16u
/* As the executor cuts steps. */
#define STEP_BYTES (256u << 10)

typedef struct shape {
    uint32_t srcs, dsts;
} shape_t;

static const shape_t shapes[] = {{1, 1}, {1, 2}, {1, 8}, {2, 1}, {2, 2},
                                 {3, 3}, {4, 1}, {4, 4}, {8, 1}, {8, 8}};

typedef struct bench {
    void *buffers[MAX_BUFFERS]; /* sources first */
    uint64_t bytes;
    uint32_t rounds;
} bench_t;

/* The processor time of this thread: what others take of a shared machine does not count. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline __attribute__((always_inline)) void bare_sum(const bench_t *bench, uint32_t srcs, uint32_t dsts)
{
    typedef float vector_t __attribute__((vector_size(16)));
    for (uint64_t at = 0; at < bench->bytes; at += sizeof(vector_t)) {
        vector_t sum = *(const vector_t *)((const char *)bench->buffers[0] + at);
#pragma GCC unroll 8
        for (uint32_t s = 1; s < srcs; s++)
            sum += *(const vector_t *)((const char *)bench->buffers[s] + at);
#pragma GCC unroll 8
        for (uint32_t d = 0; d < dsts; d++) {
#if defined(__SSE2__)
            _mm_stream_ps((float *)((char *)bench->buffers[srcs + d] + at), (__m128)sum);
#else
            *(vector_t *)((char *)bench->buffers[srcs + d] + at) = sum;
#endif
        }
    }
}

/* As fast as a loop can be made that knows its shape. */
static void bare_loop(const bench_t *bench, shape_t shape)
{
    switch (shape.srcs * 16 + shape.dsts) {
    case 0x11:
        return bare_sum(bench, 1, 1);
    case 0x12:
        return bare_sum(bench, 1, 2);
    case 0x18:
        return bare_sum(bench, 1, 8);
    case 0x21:
        return bare_sum(bench, 2, 1);
    case 0x22:
        return bare_sum(bench, 2, 2);
    case 0x33:
        return bare_sum(bench, 3, 3);
    case 0x41:
        return bare_sum(bench, 4, 1);
    case 0x44:
        return bare_sum(bench, 4, 4);
    case 0x81:
        return bare_sum(bench, 8, 1);
    case 0x88:
        return bare_sum(bench, 8, 8);
    }
}

static void apply(const reduce_loops_t *loops, const bench_t *bench, shape_t shape, blink_datatype_t datatype,
                  blink_redop_t redop, bool stream)
{
    const uint64_t one = 1;
    const void *srcs[MAX_BUFFERS], *scalars[MAX_BUFFERS];
    void *dsts[MAX_BUFFERS];
    for (uint64_t at = 0; at < bench->bytes; at += STEP_BYTES) {
        for (uint32_t s = 0; s < shape.srcs; s++) {
            srcs[s] = (const char *)bench->buffers[s] + at;
            scalars[s] = &one;
        }
        for (uint32_t d = 0; d < shape.dsts; d++)
            dsts[d] = (char *)bench->buffers[shape.srcs + d] + at;
        reduce_step_t step = {.dsts = dsts,
                              .srcs = srcs,
                              .scalars = redop == BLINK_PRE_MUL_SUM ? scalars : NULL,
                              .dst_count = shape.dsts,
                              .src_count = shape.srcs,
                              .datatype = datatype,
                              .redop = redop,
                              .divisor = redop == BLINK_AVG ? shape.srcs : 1,
                              .stream = stream,
                              .bytes = bench->bytes - at < STEP_BYTES ? bench->bytes - at : STEP_BYTES};
        reduce_apply_with(loops, &step);
    }
}

static void keep_smaller(double *best_s, double start_s)
{
    double elapsed_s = cpu_seconds() - start_s;
    if (*best_s == 0.0 || elapsed_s < *best_s)
        *best_s = elapsed_s;
}

static void measure(const bench_t *bench, shape_t shape, blink_datatype_t datatype, blink_redop_t redop)
{
    enum { COPY, BARE, FIRST };
    double best_s[FIRST + 6] = {0};
    for (uint32_t round = 0; round < bench->rounds; round++) {
        double start_s = cpu_seconds();
        memcpy(bench->buffers[shape.srcs], bench->buffers[0], bench->bytes);
        keep_smaller(&best_s[COPY], start_s);
        start_s = cpu_seconds();
        bare_loop(bench, shape);
        keep_smaller(&best_s[BARE], start_s);
        for (uint32_t i = 0; reduce_loops_at(i / 2); i++) {
            start_s = cpu_seconds();
            apply(reduce_loops_at(i / 2), bench, shape, datatype, redop, i % 2 == 0);
            keep_smaller(&best_s[FIRST + i], start_s);
        }
    }
    double moved_GB = (double)(bench->bytes * (shape.srcs + shape.dsts)) * 1e-9;
    printf("%-12s %-9s %u -> %u  memcpy %5.1f  bare %5.1f  | stream, plain stores:",
           blink_name_datatype(datatype), blink_name_redop(redop), shape.srcs, shape.dsts,
           (double)(2 * bench->bytes) * 1e-9 / best_s[COPY], moved_GB / best_s[BARE]);
    for (uint32_t i = 0; reduce_loops_at(i / 2); i++)
        printf("%s%5.1f (%.2f)", i % 2 ? "," : "  ", moved_GB / best_s[FIRST + i],
               best_s[BARE] / best_s[FIRST + i]);
    printf("\n");
}

static bool bench_init(bench_t *bench)
{
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        bench->buffers[i] =
            mmap(NULL, bench->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (bench->buffers[i] == MAP_FAILED)
            return false;
        madvise(bench->buffers[i], bench->bytes, MADV_HUGEPAGE);
        memset(bench->buffers[i], 1, bench->bytes);
    }
    return true;
}

int main(int argc, char **argv)
{
    blink_datatype_t datatype = BLINK_FLOAT32;
    blink_redop_t redop = BLINK_SUM;
    bench_t bench = {.bytes = (argc > 3 ? strtoull(argv[3], NULL, 10) : 64) << 20,
                     .rounds = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 5};
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    if (argc > 1 && !all && !blink_parse_datatype(argv[1], &datatype)) {
        fprintf(stderr, "reduce_rate: no datatype is called %s\n", argv[1]);
        return EXIT_FAILURE;
    }
    if (argc > 2 && !blink_parse_redop(argv[2], &redop)) {
        fprintf(stderr, "reduce_rate: no operator is called %s\n", argv[2]);
        return EXIT_FAILURE;
    }
    if (!bench_init(&bench)) {
        fprintf(stderr, "reduce_rate: no memory for %u buffers of %llu bytes\n", MAX_BUFFERS,
                (unsigned long long)bench.bytes);
        return EXIT_FAILURE;
    }
    for (uint32_t t = all ? 0 : datatype; t <= (all ? REDUCE_DATATYPES - 1 : (uint32_t)datatype); t++) {
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            measure(&bench, shapes[i], t, redop);
    }
    return EXIT_SUCCESS;
}

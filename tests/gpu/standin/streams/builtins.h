/* Kernels of the stand-in's own, for tests of streams, and those of kernels/probe.cu, written for the host.
 */
#ifndef STANDIN_BUILTINS_H
#define STANDIN_BUILTINS_H

#include <stddef.h>
#include <stdint.h>

enum { BUILTIN_PARAMETERS_MAX = 7 };

typedef struct builtin {
    const char *name;
    size_t parameters[BUILTIN_PARAMETERS_MAX + 1]; /* their bytes, then 0 */
    /* One block of it. Each parameter is a word, in its lower bytes. */
    void (*run)(const uint64_t *parameters, uint32_t block, uint32_t block_count);
    uint32_t addresses; /* a bit for each parameter that is one */
} builtin_t;

/* NULL if there is none of this name. */
const builtin_t *builtin_find(const char *name);

#endif

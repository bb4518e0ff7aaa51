/* The kernels for the host: blocks of one thread. */
#include "host_kernels.h"

#include "lane.cuh"

#include "kernel_list.h"

uint32_t (*host_switch_places)(uint64_t address, uint64_t *places);

#define HOST_KERNEL(name, ...)                                                                               \
    static void name(const lane_abi_run_t *run, uint32_t block, uint32_t block_count)                        \
    {                                                                                                        \
        block_run<__VA_ARGS__>(*run, block_t{block, block_count});                                           \
    }

LANE_KERNELS(HOST_KERNEL)

typedef struct host_kernel_row {
    const char *name;
    host_kernel_t *kernel;
} host_kernel_row_t;

#define HOST_KERNEL_ROW(name, ...) {#name, name},

static const host_kernel_row_t host_kernels[] = {LANE_KERNELS(HOST_KERNEL_ROW)};

host_kernel_t *host_kernel_find(const char *name)
{
    for (const host_kernel_row_t &row : host_kernels) {
        if (strcmp(row.name, name) == 0)
            return row.kernel;
    }
    return NULL;
}

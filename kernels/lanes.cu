/*
 * The kernels of the lane interpreter for CUDA: one for every element type and operator, and one that copies
 * bytes. host_kernels.cpp makes the same for the host.
 */
#include "lane.cuh"

#include "kernel_list.h"

/* Before Volta an argument that is indexed is copied to every thread's memory first. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
#define LANE_ARGUMENT const __grid_constant__ lane_abi_run_t
#else
#define LANE_ARGUMENT const lane_abi_run_t
#endif

#define LANE_KERNEL(name, ...)                                                                               \
    extern "C" __global__ void __launch_bounds__(LANE_ABI_THREADS) name(LANE_ARGUMENT run)                   \
    {                                                                                                        \
        block_run<__VA_ARGS__>(run, block_t{blockIdx.x, gridDim.x});                                         \
    }

LANE_KERNELS(LANE_KERNEL)

/*
 * What a GPU's memory gives: a copy within it by the driver, timed by events. scripts/gpu-bench holds
 * collectives against it.
 *
 *   gpu_copy [--bytes N] [--iterations N]    one JSON line; status 3 where there is no GPU
 */
#include "base/cuda_driver.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_NO_GPU = 3, ITERATIONS_MAX = 1000, WARMUP = 3 };

typedef struct options {
    unsigned long bytes, iterations;
} options_t;

typedef struct copy {
    const cuda_driver_t *driver;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr from, to;
    char gpu[256];
} copy_t;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    options_t *options = state->input;
    unsigned long *number = key == 'b' ? &options->bytes : &options->iterations;
    char *end;
    if (key != 'b' && key != 'n')
        return ARGP_ERR_UNKNOWN;
    *number = strtoul(argument, &end, 10);
    if (*end || *number == 0 || (key == 'n' && *number > ITERATIONS_MAX))
        argp_error(state, "%s: a number of bytes, or of iterations up to %d", argument, ITERATIONS_MAX);
    return 0;
}

static blink_result_t open_gpu(copy_t *copy)
{
    int count = 0;
    CUdevice device;
    CUcontext context;
    const cuda_driver_t *driver = cuda_driver_find(true);
    if (!driver)
        return BLINK_ERR_NOT_FOUND;
    copy->driver = driver;
    if (driver->cuInit(0) != CUDA_SUCCESS || driver->cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "the driver has no GPU");
    CUDA_DRIVER_TRY(driver, cuDeviceGet, &device, 0);
    CUDA_DRIVER_TRY(driver, cuDeviceGetName, copy->gpu, (int)sizeof(copy->gpu), device);
    CUDA_DRIVER_TRY(driver, cuDevicePrimaryCtxRetain, &context, device);
    CUDA_DRIVER_TRY(driver, cuCtxSetCurrent, context);
    return BLINK_OK;
}

static blink_result_t prepare(copy_t *copy, size_t bytes)
{
    const cuda_driver_t *driver = copy->driver;
    CUDA_DRIVER_TRY(driver, cuStreamCreate, &copy->stream, CU_STREAM_NON_BLOCKING);
    CUDA_DRIVER_TRY(driver, cuEventCreate, &copy->begin, CU_EVENT_DEFAULT);
    CUDA_DRIVER_TRY(driver, cuEventCreate, &copy->end, CU_EVENT_DEFAULT);
    CUDA_DRIVER_TRY(driver, cuMemAlloc, &copy->from, bytes);
    CUDA_DRIVER_TRY(driver, cuMemAlloc, &copy->to, bytes);
    CUDA_DRIVER_TRY(driver, cuMemsetD8Async, copy->from, 0xa5, bytes, copy->stream);
    return BLINK_OK;
}

static blink_result_t time_once(copy_t *copy, size_t bytes, double *time_us)
{
    const cuda_driver_t *driver = copy->driver;
    float elapsed_ms;
    CUDA_DRIVER_TRY(driver, cuEventRecord, copy->begin, copy->stream);
    CUDA_DRIVER_TRY(driver, cuMemcpyAsync, copy->to, copy->from, bytes, copy->stream);
    CUDA_DRIVER_TRY(driver, cuEventRecord, copy->end, copy->stream);
    CUDA_DRIVER_TRY(driver, cuStreamSynchronize, copy->stream);
    CUDA_DRIVER_TRY(driver, cuEventElapsedTime, &elapsed_ms, copy->begin, copy->end);
    *time_us = (double)elapsed_ms * 1e3;
    return BLINK_OK;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static blink_result_t measure(copy_t *copy, const options_t *options)
{
    double times_us[ITERATIONS_MAX];
    BLINK_TRY(prepare(copy, options->bytes));
    for (int i = 0; i < WARMUP; i++)
        BLINK_TRY(time_once(copy, options->bytes, &times_us[0]));
    for (unsigned long i = 0; i < options->iterations; i++)
        BLINK_TRY(time_once(copy, options->bytes, &times_us[i]));
    qsort(times_us, options->iterations, sizeof(*times_us), compare);
    double median_us = times_us[options->iterations / 2], both_bytes = 2 * (double)options->bytes;
    printf("{\"gpu\": \"%s\", \"bytes\": %lu, \"time_us\": %.3f, \"copy_GBps\": %.3f, \"best_GBps\": %.3f}\n",
           copy->gpu, options->bytes, median_us, both_bytes / median_us / 1e3,
           both_bytes / times_us[0] / 1e3);
    return BLINK_OK;
}

int main(int argc, char **argv)
{
    static const struct argp_option option_list[] = {
        {"bytes", 'b', "N", 0, "Bytes copied (default 1 GiB)", 0},
        {"iterations", 'n', "N", 0, "Copies timed (default 20)", 0},
        {0},
    };
    static const struct argp argp = {
        .options = option_list,
        .parser = parse_option,
        .doc = "Print how fast a GPU copies within its memory, in GB/s of what is read and written."};
    options_t options = {.bytes = 1ul << 30, .iterations = 20};
    copy_t copy = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    blink_result_t result = open_gpu(&copy);
    int status = result == BLINK_ERR_NOT_FOUND ? EXIT_NO_GPU : EXIT_FAILURE;
    if (result == BLINK_OK)
        result = measure(&copy, &options);
    if (result == BLINK_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gpu_copy: %s\n", blink_error_text());
    return status;
}

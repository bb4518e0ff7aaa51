/* In a build without CUDA: no GPU can be opened, and so nothing else here is ever called. */
#include "memory/gpu.h"

static blink_result_t without_cuda(void)
{
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "--device-memory: this blink-perf was built without CUDA");
}

blink_result_t perf_gpu_open(const perf_gpu_choice_t *choice, perf_gpu_t **gpu)
{
    (void)choice, (void)gpu;
    return without_cuda();
}

void perf_gpu_close(perf_gpu_t *gpu)
{
    (void)gpu;
}

const char *perf_gpu_name(const perf_gpu_t *gpu)
{
    (void)gpu;
    return "";
}

blink_result_t perf_gpu_alloc(perf_gpu_t *gpu, perf_gpu_memory_t kind, size_t bytes, void **address)
{
    (void)gpu, (void)kind, (void)bytes, (void)address;
    return without_cuda();
}

void perf_gpu_free(perf_gpu_t *gpu, perf_gpu_memory_t kind, size_t bytes, void *address)
{
    (void)gpu, (void)kind, (void)bytes, (void)address;
}

blink_result_t perf_gpu_write(const perf_gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    (void)gpu, (void)to, (void)from, (void)bytes;
    return without_cuda();
}

blink_result_t perf_gpu_read(const perf_gpu_t *gpu, void *to, const void *from, size_t bytes)
{
    (void)gpu, (void)to, (void)from, (void)bytes;
    return without_cuda();
}

blink_result_t perf_stream_create(const perf_gpu_t *gpu, blink_stream_t *stream)
{
    (void)gpu, (void)stream;
    return without_cuda();
}

void perf_stream_destroy(const perf_gpu_t *gpu, blink_stream_t stream)
{
    (void)gpu, (void)stream;
}

blink_result_t perf_stream_wait(const perf_gpu_t *gpu, blink_stream_t stream)
{
    (void)gpu, (void)stream;
    return without_cuda();
}

blink_result_t perf_graph_begin(const perf_gpu_t *gpu, blink_stream_t stream)
{
    (void)gpu, (void)stream;
    return without_cuda();
}

blink_result_t perf_graph_end(const perf_gpu_t *gpu, blink_stream_t stream, perf_graph_t **graph)
{
    (void)gpu, (void)stream, (void)graph;
    return without_cuda();
}

blink_result_t perf_graph_launch(const perf_gpu_t *gpu, perf_graph_t *graph, blink_stream_t stream)
{
    (void)gpu, (void)graph, (void)stream;
    return without_cuda();
}

void perf_graph_destroy(const perf_gpu_t *gpu, perf_graph_t *graph)
{
    (void)gpu, (void)graph;
}

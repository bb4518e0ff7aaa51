/*
 * A rank's GPU: memory, streams and graphs through CUDA's driver. In a build without CUDA (no_gpu.c) there is
 * none to open.
 */
#ifndef PERF_GPU_H
#define PERF_GPU_H

#include "memory/gpu_choice.h"

#include "blink/blink.h"

typedef struct perf_gpu perf_gpu_t;
typedef struct perf_graph perf_graph_t;

/**
 * Make a GPU's primary context current in this thread. The process must not have used CUDA before it was
 * forked. Errors: UNSUPPORTED (built without CUDA, or the driver is too old), NOT_FOUND (no driver, or none
 * of its GPUs is that one), SYSTEM. As all that follow.
 */
blink_result_t perf_gpu_open(const perf_gpu_choice_t *choice, perf_gpu_t **gpu);
void perf_gpu_close(perf_gpu_t *gpu);

/** What the driver calls it; valid until it is closed. */
const char *perf_gpu_name(const perf_gpu_t *gpu);

/** Memory of the GPU, zeroed or not. perf_gpu_free() ignores NULL. */
blink_result_t perf_gpu_alloc(perf_gpu_t *gpu, perf_gpu_memory_t kind, size_t bytes, void **address);
void perf_gpu_free(perf_gpu_t *gpu, perf_gpu_memory_t kind, size_t bytes, void *address);

/** Copy to and from memory of the host; complete on return, for other processes too. */
blink_result_t perf_gpu_write(const perf_gpu_t *gpu, void *to, const void *from, size_t bytes);
blink_result_t perf_gpu_read(const perf_gpu_t *gpu, void *to, const void *from, size_t bytes);

/** A stream that does not wait for the default stream. */
blink_result_t perf_stream_create(const perf_gpu_t *gpu, blink_stream_t *stream);
void perf_stream_destroy(const perf_gpu_t *gpu, blink_stream_t stream);
blink_result_t perf_stream_wait(const perf_gpu_t *gpu, blink_stream_t stream);

/** Between the two, what is put on the stream becomes the graph. */
blink_result_t perf_graph_begin(const perf_gpu_t *gpu, blink_stream_t stream);
blink_result_t perf_graph_end(const perf_gpu_t *gpu, blink_stream_t stream, perf_graph_t **graph);
blink_result_t perf_graph_launch(const perf_gpu_t *gpu, perf_graph_t *graph, blink_stream_t stream);
void perf_graph_destroy(const perf_gpu_t *gpu, perf_graph_t *graph);

#endif

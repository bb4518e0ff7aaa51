/*
 * Wire lanes beside GPUs: they wait for semaphores in host memory that lanes on GPUs raise, tell the network
 * what may be sent or written, and raise those semaphores for what the network has done. Nobody rings for a
 * semaphore that a GPU raises: the engine's thread looks, for which the worker wakes it.
 */
#ifndef BLINK_EXEC_CUDA_WIRES_H
#define BLINK_EXEC_CUDA_WIRES_H

#include "exec/cuda/image.h"
#include "exec/cuda/request.h"
#include "exec/wire.h"

/* Semaphores count chunks in their low half and runs in the high one. */
#define CUDA_ROUND_SHIFT 32u

typedef struct cuda_wire {
    const lane_t *lane;
    bool outgoing;
    uint32_t moves;
    uint32_t told;     /* to the network; under the mutex */
    uint32_t finished; /* by the network: whoever tells */
} cuda_wire_t;

/* Of an instance whose program has wires; else `wires` is NULL. */
typedef struct cuda_wires {
    list_t link; /* exec_cuda_t.wired */
    exec_cuda_t *exec;
    exec_instance_t *base;                  /* of which they are */
    const image_block_t *program, *binding; /* its own */
    cuda_wire_t *wires;
    image_wires_t image;
    pthread_mutex_t mutex;
    /* Memory that GPUs and the network share: semaphores, then what each lane has come to, the areas'
     * addresses, bytes of ranks without buffers, and send slots. NULL: there is none yet. */
    char *block;
    uint64_t block_bytes, progress_offset, areas_offset, blanks_offset, send_offset;
    /* The run. */
    _Atomic uint32_t users;  /* lanes on GPUs, together, and wire lanes */
    _Atomic uint64_t events; /* semaphores that the network has raised */
    _Atomic bool parked;     /* the lanes wait for such an event */
    uint64_t seen, came;     /* events and progress before the last launch */
    uint32_t lane_count;     /* on GPUs */
    uint64_t rounds;         /* as of the instance */
    bool running, aborted;   /* under the mutex, as the next one */
    blink_result_t abort_reason;
    exec_end_t end; /* as the lanes on GPUs have ended, and then the run */
    char end_text[BLINK_ERROR_TEXT_BYTES];
} cuda_wires_t;

/* For an instance that has its program; its other parts are borrowed. Errors: NO_MEMORY, UNSUPPORTED (a
 * program with flags). cuda_wires_fini() must follow on failure too. */
blink_result_t cuda_wires_init(cuda_wires_t *wires, exec_cuda_t *exec, exec_instance_t *base,
                               const image_block_t *program_image, const image_block_t *binding);
void cuda_wires_fini(cuda_wires_t *wires);

/* The instance has been bound, with send slots of so many bytes: how much memory it needs, which it no longer
 * has if that changes. */
void cuda_wires_bind(cuda_wires_t *wires, uint64_t send_bytes);

/* Have the memory. Errors: NO_MEMORY. */
blink_result_t cuda_wires_load(cuda_wires_t *wires);

/* Set up a run of so many lanes on GPUs, which is the rounds-th since semaphores were zero. Errors: INTERNAL
 * (a landing is not in the shared memory). */
blink_result_t cuda_wires_begin(cuda_wires_t *wires, uint32_t lane_count, uint64_t rounds);

/* What the worker and the kernels need to know. */
void cuda_wires_fill(const cuda_wires_t *wires, gpu_run_t *to);

/* Tell the network what may be sent or written now. */
void cuda_wires_look(cuda_wires_t *wires);

/* Whether that would tell it anything. */
bool cuda_wires_may_tell(cuda_wires_t *wires);

/* Whether all lanes on GPUs have ended; else whether they may go on at once, so that they are to be launched
 * again, or the network has to do something first. */
bool cuda_wires_lanes_ended(const cuda_wires_t *wires);
bool cuda_wires_may_go_on(cuda_wires_t *wires);

/* The lanes are launched, again or for the first time. */
void cuda_wires_launched(cuda_wires_t *wires);

/* The run is to fail: the network is told, once. */
void cuda_wires_abort(cuda_wires_t *wires, blink_result_t reason);

/* The lanes on GPUs have ended so. True if the run has, too, as wires->end says; else its end is told later.
 */
bool cuda_wires_end(cuda_wires_t *wires, const exec_end_t *end, const char *text);

/* What exec_wire_calls_t asks for; sent or arrived: finished. */
bool cuda_wires_memory(const cuda_wires_t *wires, void **memory, uint64_t *bytes);
wire_place_t cuda_wires_place(const cuda_wires_t *wires, uint32_t lane, uint32_t sequence);
void cuda_wires_finish(cuda_wires_t *wires, uint32_t lane, uint32_t sequence);
void cuda_wires_settle(cuda_wires_t *wires);

#endif

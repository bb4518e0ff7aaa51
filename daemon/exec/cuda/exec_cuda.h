/*
 * The GPU executor, service side: runs lane programs on GPUs through the GPU worker (gpu_worker/link.h). It
 * flattens programs, binds them to payloads, grants multiprocessors, and tells the worker what to launch; the
 * worker holds all of CUDA.
 *
 * Grants. Runs wait until it is their tenant's and their communicator's turn, and until all GPUs that they
 * use have space for them (grant.h).
 *
 * Host memory. GPUs that cannot reach each other's memory meet in the host's: slots and semaphores of such a
 * program lie there, and it must be one of LL's, in which every edge ends in a slot.
 *
 * Copy engines. Where the application's kernels and the daemon's alternate on a GPU (no MPS), moves without
 * reduction are left to the copy engines, which wait for no kernel, if they are few and large enough to
 * be worth a command each.
 *
 * Wires. Programs of several hosts keep to slots (plan/lane/lane.h), which are in host memory that the
 * network and GPUs share, as are the semaphores of wire lanes. Lanes of such a program leave when a wait
 * lasts, and the run is launched again once that may help, so it keeps no multiprocessors from others while
 * it waits for another host.
 *
 * Switches. By multicast the scratch of a program is where a switch reaches it on all GPUs at once. If the
 * worker cannot have that, the program runs all the same, by the memory of its peers; but for a while no more
 * plans by multicast are to be made (exec_cuda_may_switch(), switch_pause.h).
 *
 * Everything here is the engine thread's, but shares may be made and destroyed by any, and the calls of
 * exec/wire.h may be made by any.
 */
#ifndef BLINK_EXEC_CUDA_H
#define BLINK_EXEC_CUDA_H

#include "exec/cuda/wire_memory.h"
#include "exec/exec.h"
#include "gpu_worker/channel.h"
#include "gpu_worker/link.h"

typedef struct exec_cuda exec_cuda_t;

typedef struct exec_cuda_config {
    uint32_t gpu_count;
    const gpu_facts_t *gpus;     /* borrowed */
    const uint32_t *gpu_of_node; /* borrowed; by topology node: the GPU of a device, or GPU_NONE */
    wire_memory_t *wires;        /* borrowed; NULL: no run has wires */
    bool moves_by_copy_engines;
    uint32_t link_count;
    _Atomic uint64_t *link_bytes; /* link_count counters, borrowed: bytes that crossed each directed link */
} exec_cuda_config_t;

/* Errors: NO_MEMORY. */
blink_result_t exec_cuda_create(const exec_cuda_config_t *config, exec_cuda_t **exec);

/* Nothing runs, and every instance has been destroyed. NULL is ignored. */
void exec_cuda_destroy(exec_cuda_t *exec);

/* Ask for a plan that the GPUs of these devices, nodes of this host, can run, a rank on each: what the
 * slowest one's blocks move, and how many of them each rank may have. Thread-safe. */
void exec_cuda_limit_plan(const exec_cuda_t *exec, const uint32_t *nodes, uint32_t count,
                          plan_request_t *request);

/* Whether switches may combine what the ranks on these nodes of this host have: the driver says so of all
 * their GPUs, no pause holds since it has refused to set it up, and switches can do it with this type and
 * operator. `exactly`: so that the result does not depend on the order in which they do. */
bool exec_cuda_may_switch(const exec_cuda_t *exec, const uint32_t *nodes, uint32_t count,
                          blink_datatype_t datatype, blink_redop_t redop, bool exactly);

/* Whether they combine elements of this type one by one, of which few are under way: plan_request_t.narrow.
 */
bool exec_cuda_switches_narrowly(blink_datatype_t datatype);

/* A worker has started: runs go to it from now on. Takes the channel over, also on failure. Errors: PROTOCOL,
 * SYSTEM, NO_MEMORY. */
blink_result_t exec_cuda_attach(exec_cuda_t *exec, const gpu_channel_t *channel);

/* The worker has ended: runs under way end with SYSTEM and `text`, and later ones fail with them until
 * another is attached. Nothing if there is none. */
void exec_cuda_detach(exec_cuda_t *exec, const char *text);

/* The executor as exec.h knows it. The ends of all runs are told by exec_poll(), also after an abort or
 * exec_cuda_detach(). */
exec_t *exec_of_cuda(exec_cuda_t *exec);

/* Whether exec_poll() would find something, or go on with something. Sequentially consistent: the second look
 * before sleeping. */
bool exec_cuda_has_news(exec_cuda_t *exec);

/* Since when the worker has been asked in vain to end a run that was aborted (clock_us()): the longest time.
 * UINT64_MAX: it has ended all of them. */
uint64_t exec_cuda_aborting_since_us(const exec_cuda_t *exec);

/* Becomes readable when there is news, at an edge (never read); -1 without a worker. Changes with every
 * attach. */
int exec_cuda_event_fd(const exec_cuda_t *exec);

#endif

/*
 * Executors and their instances. An executor (exec_host.h, exec_cuda.h) runs lane programs; an instance is
 * what it takes to run one program, once at a time.
 */
#ifndef BLINK_EXEC_H
#define BLINK_EXEC_H

#include "exec/run.h"

typedef struct exec_instance exec_instance_t;

/*
 * Borrows the program until destroyed.
 * @param nodes  by rank: the topology node of its device.
 * Errors: NO_MEMORY. On GPUs also: UNSUPPORTED (too many ranks, or more lanes than a GPU can hold at once);
 * UNREACHABLE (a GPU of the program that cannot reach an input or output on another one; names both).
 */
blink_result_t exec_instance_create(exec_t *exec, const lane_program_t *program, const uint32_t *nodes,
                                    exec_instance_t **instance);

/* The instance must be idle. NULL is ignored. */
void exec_instance_destroy(exec_instance_t *instance);

/* What an instance takes while it runs what it is bound to. */
typedef struct exec_need {
    uint64_t bytes;     /* of this process's memory */
    uint64_t gpu_bytes; /* of the memory of GPUs, of all of them together */
} exec_need_t;

/* Bind an idle instance to the payload of its next run, and tell what it will then take. What it lacks of
 * that is allocated when the run starts. Errors: NO_MEMORY. */
blink_result_t exec_bind(exec_instance_t *instance, uint64_t block_bytes, exec_need_t *need);

/* How many slots an edge of an idle instance has from its next exec_bind() on; 0, as of a new instance: as
 * many as lane_choose_slots() says. With one a program needs the least memory. The hosts of an op need not
 * have the same number. */
void exec_limit_slots(exec_instance_t *instance, uint32_t slots);

/*
 * Start a run on an idle instance. True if it has ended already, as *end says: there was nothing to do; it
 * was over before this call was; or it could not be started (NO_MEMORY, or SYSTEM: there is no GPU worker).
 * False if run->done or exec_poll() tells the end; run->done may have done so before exec_start() returns.
 */
bool exec_start(exec_instance_t *instance, const exec_run_t *run, exec_end_t *end);

/* When the current run had its turn at devices that give runs whole turns, as GPUs do (clock_us()); 0: it
 * needs none; EXEC_TURN_AWAITED: it waits for it. */
#define EXEC_TURN_AWAITED UINT64_MAX
uint64_t exec_turn_us(const exec_instance_t *instance);

/* Make the current run end soon with `reason`; nothing when idle. The end is told as any other. */
void exec_abort(exec_instance_t *instance, blink_result_t reason);

/* Look for runs that have ended without a thread of the executor's own: those on GPUs. True with the end of
 * one of them. */
bool exec_poll(exec_t *exec, exec_end_t *end);

/* How the last run's bytes crossed: "local", "copy engine"; between GPUs that are no peers "host memory",
 * with others beside these "local, host memory". Static. */
const char *exec_transport(const exec_instance_t *instance);

#endif

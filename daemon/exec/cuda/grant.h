/*
 * Grants: which run goes to the GPUs next, and when. Every run asks, and is sent once it is granted. Tenants
 * and their communicators take turns (exec/turns.h), a communicator's runs in the order of their starts. The
 * run whose turn it is is granted when all of these are true of every GPU that it uses:
 *
 * - Its lanes wait for one another, so that all its blocks must be resident at once beside those of the runs
 *   that are under way: there is space for them. Programs that are independent wait for nothing and need
 * none.
 * - What is under way there is less than GRANT_RUNS runs, or reads and writes less than GRANT_BYTES. Or the
 *   tenant has nothing under way at all: a small run need not wait until a large one has ended.
 *
 * The run is granted whole, on all its GPUs or none. One that does not get what it needs keeps its GPUs for
 * itself: until it is granted, none that comes after it in the order of turns is granted that uses any of
 * them, so that small runs cannot keep a large one waiting. Some runs on other GPUs may pass it.
 */
#ifndef BLINK_EXEC_CUDA_GRANT_H
#define BLINK_EXEC_CUDA_GRANT_H

#include "exec/cuda/instance.h"

/* What a communicator's runs may read and write before the next communicator's, and a tenant's of weight 1
 * before the next tenant's: a GPU does so in 10 to 100 µs. */
#define GRANT_QUANTUM_BYTES (16 << 20)

/* What a run costs that reads and writes less on a GPU, which launches it in some 5 µs. */
#define GRANT_LEAST_BYTES (1u << 20)

/* What a GPU is given in advance, so that it has a run to begin with when one ends: the daemon takes some 20
 * µs to see the one end and send the other. */
#define GRANT_RUNS  2u
#define GRANT_BYTES (64u << 20)

/* The instance's run, whose blocks and costs are set, waits for its grant; it may be granted at once. */
void grant_ask(cuda_instance_t *instance);

/* Grant all runs that may be granted now. */
void grant_waiting(exec_cuda_t *exec);

/* The run ends: it waits no more, or gives back what it was granted. */
void grant_return(cuda_instance_t *instance);

#endif

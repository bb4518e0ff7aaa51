/*
 * A queue pair of a device that is joined with itself: by it the device reads and writes memory of GPUs for
 * this host. What the device has written for peers before it reads there is to be seen by GPUs once it has
 * read, for a read goes the same way as the writes and overtakes none. It has a protection domain of its own.
 *
 * Loops come and go by any thread, since landings' memory does; what goes over them has the turn.
 */
#ifndef BLINK_VERBS_LOOP_H
#define BLINK_VERBS_LOOP_H

#include "net/data/verbs/device.h"

typedef struct verbs_loop verbs_loop_t;

/* The one of a connection's device, which is made if there is none; held. Errors: SYSTEM, NO_MEMORY. */
blink_result_t verbs_loop_get(verbs_devices_t *devices, struct ibv_qp *connected, verbs_loop_t **loop);

/* The last one ends it. */
void verbs_loop_put(verbs_loop_t *loop);

/* Register memory of a GPU; NULL: it cannot be, says this thread's error text. verbs_loop_put() later than
 * dereg_mr(). */
struct ibv_mr *verbs_loop_register(verbs_loop_t *loop, device_memory_t *memory, uint64_t offset,
                                   uint64_t bytes);

/* Read at an address there, and wait. Errors: SYSTEM. */
blink_result_t verbs_loop_flush(verbs_loop_t *loop, const struct ibv_mr *region, uint64_t address);

/* The same after this was written at `offset` from that address. */
blink_result_t verbs_loop_write(verbs_loop_t *loop, const struct ibv_mr *region, uint64_t address,
                                uint64_t offset, const void *source, uint32_t bytes);

#endif

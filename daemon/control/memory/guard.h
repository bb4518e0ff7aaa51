/*
 * Pages of shared memory that cannot be had: the client punched them out, and memory is short. An access by
 * the daemon then finds a page of zeros in the page's place instead of ending the daemon.
 */
#ifndef BLINK_CONTROL_GUARD_H
#define BLINK_CONTROL_GUARD_H

#include "error.h"

#include <stdbool.h>
#include <stdint.h>

/* No range: for the field of a struct that guards nothing. */
#define GUARD_NONE UINT32_MAX

/* Install the signal handler, once per process. Errors: SYSTEM. */
blink_result_t guard_install(void);

/* Control thread: from now on the mapped range is guarded. Errors: NO_MEMORY (as many ranges are guarded as a
 * process may have mappings). */
blink_result_t guard_add(void *base, size_t bytes, uint32_t *range);

/* Control thread: the range is about to be unmapped, or has been. GUARD_NONE is ignored. */
void guard_remove(uint32_t range);

/* Set once a page of the range has been replaced. */
const _Atomic bool *guard_mark(uint32_t range);

#endif

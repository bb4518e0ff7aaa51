/*
 * Accesses to shared memory whose pages may not be there: the client did not populate them, or has punched
 * them out (holes.h), or memory is short. Such an access ends what guard_run() runs; outside of that a page
 * of zeros takes the place of the missing one. It never ends the daemon.
 */
#ifndef BLINK_GUARD_H
#define BLINK_GUARD_H

#include "error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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

/* Set once a page of the range was not there. */
const _Atomic bool *guard_mark(uint32_t range);

/* Run work(context) on this thread. False: it came to a page of a guarded range that is not there. Then it
 * has been left in the middle, so it must hold no lock and own nothing, and the range has its mark. Takes
 * some 10 ns more than the call. Not to be nested. */
bool guard_run(void (*work)(void *context), void *context);

/* Copy bytes of which those at either end may lie in a guarded range; as guard_run(). */
bool guard_copy(void *to, const void *from, size_t bytes);

/* Read or write a word of a guarded range, sequentially consistent. Without its page it reads as 0, and what
 * is written goes nowhere. */
uint64_t guard_load(const _Atomic uint64_t *word);
void guard_store(_Atomic uint64_t *word, uint64_t value);

#endif

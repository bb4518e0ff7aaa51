/*
 * A communicator's share of an executor: of its workers' time and of emulated links, or of what is queued to
 * GPUs. Tenants share them by their weights, and a tenant's communicators equally; what one does not use the
 * others have.
 */
#ifndef BLINK_EXEC_SHARE_H
#define BLINK_EXEC_SHARE_H

#include "error.h"

#include <stdint.h>

typedef struct exec exec_t;
typedef struct exec_share exec_share_t;

/*
 * Thread-safe.
 * @param tenant  whose communicator it is: the same pointer for all of a tenant's, and the same weight.
 * Errors: NO_MEMORY.
 */
blink_result_t exec_share_create(exec_t *exec, const void *tenant, uint32_t weight, exec_share_t **share);

/* No run that was given the share is under way. Thread-safe. NULL is ignored. */
void exec_share_destroy(exec_share_t *share);

#endif

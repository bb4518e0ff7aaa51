/*
 * Ids under which no communicator can come about any more, since a rank that is needed has gone. They are
 * remembered for as long as ranks have time to join, so that a rank which comes late hears the reason at once
 * and does not wait for the others: for the daemon's init_timeout_s or the communicator's, whichever is
 * longer, up to an hour. Of each tenant so many are kept; the oldest give way.
 */
#ifndef BLINK_FAILED_IDS_H
#define BLINK_FAILED_IDS_H

#include "base/tenant.h"
#include "control/control.h"
#include "unique_id.h"

#define FAILED_IDS_PER_TENANT 256u

typedef struct failed_ids failed_ids_t;

/* Errors: NO_MEMORY. */
blink_result_t failed_ids_create(control_t *control, failed_ids_t **failed_ids);

/* After the loop is closed. NULL is ignored. */
void failed_ids_destroy(failed_ids_t *failed_ids);

/* A gathering has failed with this code and this thread's error text; init_timeout_ms: the communicator's
 * time to gather. Without memory nothing is remembered. */
void failed_ids_add(failed_ids_t *failed_ids, tenant_t *tenant, const uint8_t id[UNIQUE_ID_BYTES],
                    uint64_t init_timeout_ms, blink_result_t code);

/* The failure of this user's id, with its sentence; BLINK_OK: none is remembered. */
blink_result_t failed_ids_check(const failed_ids_t *failed_ids, uid_t uid, const uint8_t id[UNIQUE_ID_BYTES]);

#endif

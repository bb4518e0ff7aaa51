/*
 * What the engine remembers of a communicator's ops, for tools.
 */
#ifndef BLINK_CONTROL_OPS_H
#define BLINK_CONTROL_OPS_H

#include "control/asker.h"

/* Answer later with a page of the ops of a roster whose ranks have joined and not all left: of those that
 * have ended only what followed the first `since`. */
void ops_query(const asker_t *asker, const roster_t *roster, uint64_t since, uint64_t page);

/* The same of a communicator that was lost (lost_ops.h), at once. */
void ops_query_lost(const asker_t *asker, const history_t *lost, uint64_t since, uint64_t page);

/* Who asks with this context has gone: it is not answered any more. */
void ops_forget(control_t *control, const void *context);

/* After the engine is destroyed: questions that it has not answered. */
void ops_free(control_t *control);

#endif

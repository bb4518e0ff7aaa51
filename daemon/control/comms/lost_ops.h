/*
 * The ops of communicators that were lost, for who looks afterwards what had happened: of each user's last
 * few communicators, as long as there is room for other users' (base/latest.h).
 */
#ifndef BLINK_LOST_OPS_H
#define BLINK_LOST_OPS_H

#include "control/view.h"

/* Errors: NO_MEMORY. */
blink_result_t lost_ops_create(lost_ops_t **lost_ops);

/* NULL is ignored. */
void lost_ops_destroy(lost_ops_t *lost_ops);

/* All ranks of the roster have left. If it was lost, keep its ops and forget older ones for them; what there
 * is no memory for is not kept. */
void lost_ops_keep(lost_ops_t *lost_ops, const roster_t *roster);

/* The ops of the communicator with this number; NULL: there are none that the asker sees. Valid until another
 * communicator ends. */
const history_t *lost_ops_find(const lost_ops_t *lost_ops, const view_t *view, uint32_t number);

#endif

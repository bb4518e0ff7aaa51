/*
 * The ops of communicators that were lost, for who looks afterwards what had happened: of each user's last
 * few communicators, as long as others do not push them out.
 */
#ifndef BLINK_LOST_OPS_H
#define BLINK_LOST_OPS_H

#include "control/view.h"

/* So many communicators' ops are kept, and of each user so many. Of 64 ranks and 1,024 ops they are 0.6 MB.
 */
#define LOST_OPS_MOST    16u
#define LOST_OPS_OF_USER 4u

/* All ranks of the roster have left. If it was lost, keep its ops and forget older ones for them; what there
 * is no memory for is not kept. */
void lost_ops_keep(const roster_t *roster);

/* The ops of the communicator with this number; NULL: there are none that the asker sees. Valid until another
 * communicator ends. */
const history_t *lost_ops_find(const view_t *view, uint32_t number);

void lost_ops_free(rosters_t *rosters);

#endif

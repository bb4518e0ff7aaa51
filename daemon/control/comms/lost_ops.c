#include "control/comms/lost_ops.h"

#include <stdlib.h>

typedef struct lost_ops {
    list_t link; /* on rosters->lost_ops, the oldest first */
    uid_t uid;
    uint32_t number;
    history_t ops;
} lost_ops_t;

static void forget(lost_ops_t *lost)
{
    list_remove(&lost->link);
    history_free(&lost->ops);
    free(lost);
}

/* Make room for one more of the user: the user's own oldest goes first. */
static void make_room(rosters_t *rosters, uid_t uid)
{
    lost_ops_t *oldest = NULL;
    uint32_t count = 0, of_user = 0;
    LIST_FOR_EACH (link, &rosters->lost_ops) {
        lost_ops_t *lost = CONTAINER_OF(link, lost_ops_t, link);
        count++;
        if (lost->uid == uid && of_user++ == 0)
            oldest = lost;
    }
    if (of_user == LOST_OPS_OF_USER)
        forget(oldest);
    else if (count == LOST_OPS_MOST)
        forget(LIST_FIRST(&rosters->lost_ops, lost_ops_t, link));
}

void lost_ops_keep(const roster_t *roster)
{
    rosters_t *rosters = roster->control->rosters;
    history_t ops = engine_comm_take_lost_ops(roster->engine);
    lost_ops_t *lost = ops.total > 0 ? calloc(1, sizeof(*lost)) : NULL;
    if (!lost) {
        history_free(&ops);
        return;
    }
    make_room(rosters, roster->tenant->uid);
    *lost = (lost_ops_t){.uid = roster->tenant->uid, .number = roster->number, .ops = ops};
    list_append(&rosters->lost_ops, &lost->link);
}

const history_t *lost_ops_find(const view_t *view, uint32_t number)
{
    LIST_FOR_EACH (link, &view->control->rosters->lost_ops) {
        const lost_ops_t *lost = CONTAINER_OF(link, lost_ops_t, link);
        if (lost->number == number && view_sees_user(view, lost->uid))
            return &lost->ops;
    }
    return NULL;
}

void lost_ops_free(rosters_t *rosters)
{
    LIST_FOR_EACH (link, &rosters->lost_ops)
        forget(CONTAINER_OF(link, lost_ops_t, link));
}

#include "control/comms/lost_ops.h"

#include "base/latest.h"

#include <stdlib.h>

/* So many communicators' ops are kept, and of each user so many. Of 64 ranks and 1,024 ops they are 0.6
 * MB. */
#define MOST    16u
#define OF_USER 4u

struct lost_ops {
    latest_t latest;
    latest_owner_t users[MOST];
};

typedef struct lost {
    latest_item_t item;
    uid_t uid;
    uint32_t number;
    history_t ops;
} lost_t;

static void forget(lost_ops_t *lost_ops, lost_t *lost)
{
    latest_remove(&lost_ops->latest, &lost->item);
    history_free(&lost->ops);
    free(lost);
}

void lost_ops_keep(lost_ops_t *lost_ops, const roster_t *roster)
{
    uid_t uid = roster->tenant->uid;
    history_t ops = engine_comm_take_lost_ops(roster->engine);
    lost_t *lost = ops.total > 0 ? malloc(sizeof(*lost)) : NULL;
    if (!lost) {
        history_free(&ops);
        return;
    }
    latest_item_t *goes = latest_to_go(&lost_ops->latest, uid, OF_USER);
    if (goes)
        forget(lost_ops, CONTAINER_OF(goes, lost_t, item));
    *lost = (lost_t){.uid = uid, .number = roster->number, .ops = ops};
    latest_add(&lost_ops->latest, &lost->item, uid);
}

const history_t *lost_ops_find(const lost_ops_t *lost_ops, const view_t *view, uint32_t number)
{
    LIST_FOR_EACH (link, &lost_ops->latest.items) {
        const lost_t *lost = CONTAINER_OF(link, lost_t, item.link);
        if (lost->number == number && view_sees_user(view, lost->uid))
            return &lost->ops;
    }
    return NULL;
}

blink_result_t lost_ops_create(lost_ops_t **created)
{
    lost_ops_t *lost_ops = calloc(1, sizeof(*lost_ops));
    if (!lost_ops)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for ops of communicators that will be lost");
    lost_ops->latest = (latest_t)LATEST_INIT(&lost_ops->latest, lost_ops->users, MOST);
    *created = lost_ops;
    return BLINK_OK;
}

void lost_ops_destroy(lost_ops_t *lost_ops)
{
    if (!lost_ops)
        return;
    LIST_FOR_EACH (link, &lost_ops->latest.items)
        forget(lost_ops, CONTAINER_OF(link, lost_t, item.link));
    free(lost_ops);
}

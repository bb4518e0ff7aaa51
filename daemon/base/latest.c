#include "base/latest.h"

#include <stddef.h>

/* The owner's place, or a free one; NULL: all are others'. */
static latest_owner_t *place_of(const latest_t *latest, int64_t number)
{
    latest_owner_t *free_place = NULL;
    for (uint32_t i = 0; i < latest->most; i++) {
        latest_owner_t *owner = &latest->owners[i];
        if (owner->count == 0)
            free_place = owner;
        else if (owner->number == number)
            return owner;
    }
    return free_place;
}

static latest_item_t *oldest_of(const latest_t *latest, const latest_owner_t *owner)
{
    LIST_FOR_EACH (link, &latest->items) {
        latest_item_t *item = CONTAINER_OF(link, latest_item_t, link);
        if (item->owner == owner)
            return item;
    }
    return NULL;
}

/* The oldest item of those who have the most, once `adds` has one more. */
static latest_item_t *oldest_of_the_fullest(const latest_t *latest, const latest_owner_t *adds)
{
    latest_item_t *oldest = NULL;
    uint32_t most = 0;
    LIST_FOR_EACH (link, &latest->items) {
        latest_item_t *item = CONTAINER_OF(link, latest_item_t, link);
        uint32_t count = item->owner->count + (item->owner == adds);
        if (count > most) {
            most = count;
            oldest = item;
        }
    }
    return oldest;
}

latest_item_t *latest_to_go(const latest_t *latest, int64_t owner, uint32_t of_one)
{
    const latest_owner_t *adds = place_of(latest, owner);
    if (adds && adds->count >= of_one)
        return oldest_of(latest, adds);
    return latest->count < latest->most ? NULL : oldest_of_the_fullest(latest, adds);
}

void latest_add(latest_t *latest, latest_item_t *item, int64_t owner)
{
    item->owner = place_of(latest, owner);
    item->owner->number = owner;
    item->owner->count++;
    latest->count++;
    list_append(&latest->items, &item->link);
}

void latest_remove(latest_t *latest, latest_item_t *item)
{
    item->owner->count--;
    latest->count--;
    list_remove(&item->link);
}

/*
 * An array of items without an order: an item leaves at once, and the last one takes its place. Who goes
 * through a bag in several turns, from the last place to the first, meets every item that is there all the
 * while; an item that moved meanwhile may be met twice.
 */
#ifndef BLINK_BAG_H
#define BLINK_BAG_H

#include "base/vec.h"

typedef struct bag_item {
    size_t place;
} bag_item_t;

typedef VEC(bag_item_t *) bag_t;

/* False without memory. A bag of zeros is an empty one. */
static inline bool bag_add(bag_t *bag, bag_item_t *item)
{
    item->place = bag->count;
    return vec_push(bag, item);
}

static inline void bag_remove(bag_t *bag, const bag_item_t *item)
{
    bag_item_t *last = bag->items[--bag->count];
    last->place = item->place;
    bag->items[item->place] = last;
}

#endif

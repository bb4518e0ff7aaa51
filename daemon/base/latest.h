/*
 * The latest things of several owners, of which only so many are kept. Whoever has the most of them gives up
 * its oldest for a new one of anybody, so that an owner's latest stays as long as owners are fewer than
 * places.
 */
#ifndef BLINK_LATEST_H
#define BLINK_LATEST_H

#include "base/list.h"

#include <stdint.h>

typedef struct latest_owner {
    int64_t number;
    uint32_t count; /* of its items; 0: the place is free */
} latest_owner_t;

typedef struct latest_item {
    list_t link; /* on latest->items, the oldest first */
    latest_owner_t *owner;
} latest_item_t;

typedef struct latest {
    list_t items;
    latest_owner_t *owners; /* places for so many as items */
    uint32_t most, count;   /* items that may be, and that are */
} latest_t;

#define LATEST_INIT(latest, places, place_count)                                                             \
    {                                                                                                        \
        .items = {&(latest)->items, &(latest)->items}, .owners = (places), .most = (place_count)             \
    }

/* The item that is to be removed before the owner, who may have `of_one`, adds another; NULL: none. */
latest_item_t *latest_to_go(const latest_t *latest, int64_t owner, uint32_t of_one);

/* There is room. */
void latest_add(latest_t *latest, latest_item_t *item, int64_t owner);
void latest_remove(latest_t *latest, latest_item_t *item);

#endif

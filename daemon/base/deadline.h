/*
 * Lists of deadlines, the earliest first. Most deadlines are as far away as those that were set before, and
 * come last in their list.
 */
#ifndef BLINK_DEADLINE_H
#define BLINK_DEADLINE_H

#include "base/list.h"

#include <stdint.h>

typedef struct deadline {
    list_t link; /* on its list; list_remove() takes it off */
    uint64_t at_ms;
} deadline_t;

/* The first one; NULL: there is none. */
static inline const deadline_t *deadline_first(const list_t *deadlines)
{
    return LIST_FIRST(deadlines, deadline_t, link);
}

/* Put a deadline that is on no list in its place. Returns how many later ones it has passed by, which is work
 * to be counted for whoever sets it. */
static inline uint32_t deadline_set(list_t *deadlines, deadline_t *deadline, uint64_t at_ms)
{
    list_t *before = deadlines->previous;
    uint32_t passed = 0;
    for (; before != deadlines && CONTAINER_OF(before, deadline_t, link)->at_ms > at_ms; passed++)
        before = before->previous;
    deadline->at_ms = at_ms;
    list_insert(before->next, &deadline->link);
    return passed;
}

#endif

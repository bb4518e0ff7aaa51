/*
 * The one hash table: intrusive, and growing by one bucket at a time (linear hashing), so that no insertion
 * costs much more than another. The keys are the caller's: an item has a link with the hash of its key, and
 * who looks something up compares the keys of those items whose hash is the same.
 */
#ifndef BLINK_TABLE_H
#define BLINK_TABLE_H

#include "base/list.h"

#include <stdint.h>

typedef struct table_link {
    struct table_link *next;
    uint64_t hash;
} table_link_t;

typedef struct table {
    table_link_t **buckets;
    size_t bucket_count; /* 0: nothing has been added yet */
    size_t capacity;     /* buckets that there is memory for; a power of two */
    size_t count;
} table_t;

/* The hash of a number that nobody can choose to harm others, such as one that the daemon counts up. */
static inline uint64_t table_hash(uint64_t number)
{
    number ^= number >> 32;
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return number ^ number >> 29;
}

/* Add an item that is in no table; false without memory. A table of zeros is an empty one. */
bool table_add(table_t *table, table_link_t *link, uint64_t hash);

/* Take out an item that is in the table. */
void table_remove(table_t *table, table_link_t *link);

/* The first item with this hash, and the next one after `link`; NULL: there is none. */
table_link_t *table_find(const table_t *table, uint64_t hash);
table_link_t *table_find_next(const table_link_t *link);

/* Free the table's own memory. */
void table_fini(table_t *table);

#endif

#include "base/table.h"

#include <stdlib.h>

#define BUCKETS_LEAST 16u

/* Buckets from the last power of two on do not all exist yet: what belongs into one that does not is in the
 * bucket that will be split into the two. */
static table_link_t **bucket_of(const table_t *table, uint64_t hash)
{
    size_t half = table->capacity / 2, at = hash & (table->capacity - 1);
    return &table->buckets[at < table->bucket_count ? at : at & (half - 1)];
}

static bool set_capacity(table_t *table, size_t capacity)
{
    table_link_t **buckets = realloc(table->buckets, capacity * sizeof(table_link_t *));
    if (!buckets)
        return false;
    table->buckets = buckets;
    table->capacity = capacity;
    return true;
}

static bool make_first_buckets(table_t *table)
{
    if (!set_capacity(table, BUCKETS_LEAST))
        return false;
    table->bucket_count = BUCKETS_LEAST;
    for (size_t i = 0; i < BUCKETS_LEAST; i++)
        table->buckets[i] = NULL;
    return true;
}

/* Add a bucket and move to it what belongs there. Without memory the others only get longer. */
static void grow(table_t *table)
{
    if (table->bucket_count == table->capacity && !set_capacity(table, 2 * table->capacity))
        return;
    size_t half = table->capacity / 2, added = table->bucket_count;
    table_link_t *link = table->buckets[added - half];
    table_link_t **stay = &table->buckets[added - half], **move = &table->buckets[added];
    for (; link; link = link->next) {
        table_link_t ***end = (link->hash & half) ? &move : &stay;
        **end = link;
        *end = &link->next;
    }
    *stay = *move = NULL;
    table->bucket_count++;
}

bool table_add(table_t *table, table_link_t *link, uint64_t hash)
{
    if (table->bucket_count == 0 && !make_first_buckets(table))
        return false;
    if (table->count >= table->bucket_count)
        grow(table);
    table_link_t **bucket = bucket_of(table, hash);
    link->hash = hash;
    link->next = *bucket;
    *bucket = link;
    table->count++;
    return true;
}

void table_remove(table_t *table, table_link_t *link)
{
    table_link_t **at = bucket_of(table, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    table->count--;
}

table_link_t *table_find_next(const table_link_t *link)
{
    table_link_t *next = link->next;
    while (next && next->hash != link->hash)
        next = next->next;
    return next;
}

table_link_t *table_find(const table_t *table, uint64_t hash)
{
    if (table->bucket_count == 0)
        return NULL;
    table_link_t *link = *bucket_of(table, hash);
    while (link && link->hash != hash)
        link = link->next;
    return link;
}

void table_fini(table_t *table)
{
    free(table->buckets);
    *table = (table_t){0};
}

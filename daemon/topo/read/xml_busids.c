/* Bus ids, sorted. */
#include "topo/read/xml_reader.h"

#include <stdlib.h>
#include <strings.h>

static int compare_places(const xml_busid_t *a, const xml_busid_t *b)
{
    return a->host != b->host ? (a->host < b->host ? -1 : 1) : strcasecmp(a->busid, b->busid);
}

static int compare_busids(const void *one, const void *other)
{
    const xml_busid_t *a = one, *b = other;
    int order = compare_places(a, b);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

void xml_busids_sort(xml_busids_t *busids)
{
    if (busids->count > 0)
        qsort(busids->items, busids->count, sizeof(busids->items[0]), compare_busids);
}

/* The first that is not before the place. */
static size_t first_from(const xml_busids_t *busids, const xml_busid_t *place)
{
    size_t low = 0, high = busids->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_places(&busids->items[middle], place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const xml_busid_t *xml_busids_find(const xml_busids_t *busids, uint32_t host, const char *busid,
                                   size_t *count)
{
    const xml_busid_t place = {.host = host, .busid = busid};
    size_t first = first_from(busids, &place), end = first;
    while (end < busids->count && compare_places(&busids->items[end], &place) == 0)
        end++;
    *count = end - first;
    return *count > 0 ? &busids->items[first] : NULL;
}

#include "tools/pages.h"

#include <stdlib.h>
#include <string.h>

/* ---- appending ---- */

/* Move the items of one list, an array of pointers at *more, to the end of another. */
static blink_result_t append(void *items, size_t *count, void *more, size_t *more_count)
{
    void **into, **from;
    memcpy(&into, items, sizeof(into));
    memcpy(&from, more, sizeof(from));
    if (*more_count == 0)
        return BLINK_OK;
    into = realloc(into, (*count + *more_count) * sizeof(*into));
    if (!into)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu items of an answer", *count + *more_count);
    memcpy(into + *count, from, *more_count * sizeof(*from));
    memcpy(items, &into, sizeof(into));
    *count += *more_count;
    *more_count = 0; /* they are the other's to free */
    return BLINK_OK;
}

/* The text may be the default one, which is not on the heap. */
static blink_result_t append_text(char **text, const char *more)
{
    char *joined = malloc(strlen(*text) + strlen(more) + 1);
    if (!joined)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an answer of %zu bytes", strlen(*text));
    stpcpy(stpcpy(joined, *text), more);
    if (*text != protobuf_c_empty_string)
        free(*text);
    *text = joined;
    return BLINK_OK;
}

blink_result_t pages_append(Blinkwire__QueryReply *answer, Blinkwire__QueryReply *page)
{
    if (*page->topology_json)
        BLINK_TRY(append_text(&answer->topology_json, page->topology_json));
    BLINK_TRY(append(&answer->devices, &answer->n_devices, &page->devices, &page->n_devices));
    BLINK_TRY(append(&answer->links, &answer->n_links, &page->links, &page->n_links));
    BLINK_TRY(append(&answer->comms, &answer->n_comms, &page->comms, &page->n_comms));
    BLINK_TRY(append(&answer->ops, &answer->n_ops, &page->ops, &page->n_ops));
    BLINK_TRY(append(&answer->events, &answer->n_events, &page->events, &page->n_events));
    BLINK_TRY(append(&answer->hosts, &answer->n_hosts, &page->hosts, &page->n_hosts));
    BLINK_TRY(append(&answer->tenants, &answer->n_tenants, &page->tenants, &page->n_tenants));
    return append(&answer->clients, &answer->n_clients, &page->clients, &page->n_clients);
}

/* ---- settling ---- */

static int compare(uint32_t one, uint32_t other)
{
    return (one < other) - (one > other);
}

static int compare_comms(const void *one, const void *other)
{
    return compare((*(Blinkwire__Comm *const *)one)->comm, (*(Blinkwire__Comm *const *)other)->comm);
}

static int compare_clients(const void *one, const void *other)
{
    return compare((*(Blinkwire__Client *const *)one)->client, (*(Blinkwire__Client *const *)other)->client);
}

/* By user, then by cgroup. */
static int compare_tenants(const void *one, const void *other)
{
    const Blinkwire__Tenant *a = *(Blinkwire__Tenant *const *)one, *b = *(Blinkwire__Tenant *const *)other;
    return a->uid != b->uid ? compare(b->uid, a->uid) : strcmp(a->cgroup, b->cgroup);
}

static int compare_uses(const void *one, const void *other)
{
    return compare((*(Blinkwire__LinkUse *const *)one)->comm, (*(Blinkwire__LinkUse *const *)other)->comm);
}

/* Sort an array of pointers to messages, and keep one of those that are the same. */
static void settle(void *items, size_t *count, int (*compare_items)(const void *, const void *))
{
    char *bytes = items;
    size_t kept = 0, size = sizeof(void *);
    if (*count > 0)
        qsort(items, *count, size, compare_items);
    for (size_t i = 0; i < *count; i++) {
        if (kept > 0 && compare_items(bytes + (kept - 1) * size, bytes + i * size) == 0) {
            void *item;
            memcpy(&item, bytes + i * size, size);
            protobuf_c_message_free_unpacked(item, NULL);
        } else {
            memmove(bytes + kept++ * size, bytes + i * size, size);
        }
    }
    *count = kept;
}

/* Items without ends hold nothing but uses. These are given to the links, which come first. */
static void settle_links(Blinkwire__QueryReply *answer)
{
    size_t kept = 0;
    while (kept < answer->n_links && *answer->links[kept]->from)
        kept++;
    for (size_t i = kept; i < answer->n_links; i++) {
        Blinkwire__Link *uses = answer->links[i];
        Blinkwire__Link *link = uses->index < kept ? answer->links[uses->index] : NULL;
        if (link)
            (void)append(&link->uses, &link->n_uses, &uses->uses, &uses->n_uses);
        blinkwire__link__free_unpacked(uses, NULL);
    }
    answer->n_links = kept;
    for (size_t i = 0; i < kept; i++)
        settle(answer->links[i]->uses, &answer->links[i]->n_uses, compare_uses);
}

void pages_settle(Blinkwire__QueryReply *answer)
{
    settle(answer->comms, &answer->n_comms, compare_comms);
    settle(answer->clients, &answer->n_clients, compare_clients);
    settle(answer->tenants, &answer->n_tenants, compare_tenants);
    settle_links(answer);
}

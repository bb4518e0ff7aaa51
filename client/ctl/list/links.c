/* blinkctl links: what every directed link is doing. */
#include "ctl/list/listing.h"

#include "tools/human.h"

#include <math.h>
#include <string.h>

#define BAR_CHARACTERS 10

static size_t link_count(const Blinkwire__QueryReply *query)
{
    return query->n_links;
}

/* "1,3": the communicators that used a link. */
static const char *communicators(const Blinkwire__Link *link, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < link->n_uses && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", i ? "," : "", link->uses[i]->comm);
    return text[0] ? text : "-";
}

static void link_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Link *link = query->links[i];
    char number[HUMAN_BYTES], comms[128];
    table_cell(table, "%s", link->from);
    table_cell(table, "%s", link->to);
    table_cell(table, "%s", link->kind);
    table_cell(table, "%s", human_number(link->capacity_gbps, number));
    table_cell(table, "%s", human_number(link->now_gbps, number));
    table_cell(table, "%.0f%%", 100 * link->utilization);
    table_cell(table, "%s", human_bar(link->utilization, BAR_CHARACTERS, number));
    table_cell(table, "%s", human_bytes(link->bytes, number));
    table_cell(table, "%s", communicators(link, comms, sizeof(comms)));
}

static json_t *link_json(const Blinkwire__QueryReply *query, size_t i)
{
    const Blinkwire__Link *link = query->links[i];
    json_t *uses = json_array();
    for (size_t u = 0; u < link->n_uses; u++)
        json_array_append_new(uses, json_pack("{s:I, s:I}", "comm", (json_int_t)link->uses[u]->comm, "bytes",
                                              (json_int_t)link->uses[u]->bytes));
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:f, s:I, s:o}", "from", ctl_json_text(link->from), "to",
                     ctl_json_text(link->to), "kind", ctl_json_text(link->kind), "capacity_GBps",
                     link->capacity_gbps, "now_GBps", link->now_gbps, "utilization", link->utilization,
                     "bytes", (json_int_t)link->bytes, "uses", uses);
}

static json_t *links_head(const Blinkwire__QueryReply *query)
{
    return json_pack("{s:f}", "window_s", query->window_s);
}

static void links_title(const Blinkwire__QueryReply *query, size_t shown)
{
    if (shown < query->n_links)
        printf("%zu of %zu directed link%s, rates over the last %.2g s\n", shown, query->n_links,
               human_plural(query->n_links), query->window_s);
    else
        printf("%zu directed link%s, rates over the last %.2g s\n", query->n_links,
               human_plural(query->n_links), query->window_s);
}

static bool is_of_user(const Blinkwire__QueryReply *comms, uint32_t number, uint32_t user)
{
    const Blinkwire__Comm *comm = listing_find_comm(comms, number);
    return comm && comm->uid == user;
}

static bool link_shows(const Blinkwire__QueryReply *query, size_t i, const filter_t *filter)
{
    const Blinkwire__Link *link = query->links[i];
    bool shows = filter->comm == 0 && !filter->has_user;
    for (size_t u = 0; u < link->n_uses && !shows; u++)
        shows = (filter->comm == 0 || link->uses[u]->comm == filter->comm) &&
                (!filter->has_user || is_of_user(filter->comms, link->uses[u]->comm, filter->user));
    return shows && (!filter->busy || link->now_gbps > 0);
}

blink_result_t ctl_links(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"from", "to", "kind",  "GB/s max", "GB/s now",
                                          "used", "",   "moved", "comms"};
    static const char *const sorts[] = {"from",     "to",          "kind",  "capacity_GBps",
                                        "now_GBps", "utilization", "bytes", NULL};
    static const listing_t listing = {.name = "links",
                                      .doc = "Show what every directed link is doing: GB/s it can move (as "
                                             "emulated) and moves now, bytes since "
                                             "the daemon started, and the live communicators that used it.",
                                      .kind = BLINKWIRE__QUERY_KIND__LINKS,
                                      .alignment = "lllnnrlrl",
                                      .headers = headers,
                                      .sorts = sorts,
                                      .count = link_count,
                                      .json = link_json,
                                      .row = link_row,
                                      .if_none = "The topology has no links.",
                                      .busy = "Only those that move data now",
                                      .by_comm = true,
                                      .by_user = true,
                                      .user_by_comms = true,
                                      .shows = link_shows,
                                      .title = links_title,
                                      .head = links_head};
    return listing_run(&listing, argc, argv, options);
}

/* blinkctl events: what has happened on the host, the newest first. */
#include "ctl/list/event.h"
#include "ctl/list/listing.h"

#include "tools/human.h"

static size_t event_count(const Blinkwire__QueryReply *query)
{
    return query->n_events;
}

json_t *event_pack(const Blinkwire__Event *event)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "event", (json_int_t)event->number,
                     "time_us", (json_int_t)event->time_us, "kind", ctl_json_text(event->kind), "level",
                     ctl_json_text(event->level), "uid",
                     event->is_of_user ? json_integer(event->uid) : json_null(), "comm",
                     event->comm > 0 ? json_integer(event->comm) : json_null(), "subject",
                     ctl_json_text(event->subject), "text", ctl_json_text(event->text));
}

static json_t *event_json(const Blinkwire__QueryReply *query, size_t i)
{
    return event_pack(query->events[i]);
}

static void event_row(const Blinkwire__QueryReply *query, size_t i, table_t *table)
{
    const Blinkwire__Event *event = query->events[i];
    char text[HUMAN_BYTES];
    table_cell(table, "%s", human_time(event->time_us, text));
    table_cell(table, "%s", event->kind);
    if (event->is_of_user)
        table_cell(table, "%u", event->uid);
    else
        table_cell(table, "-");
    table_cell(table, "%s", event->subject);
    table_cell(table, "%s", event->text);
}

static bool event_shows(const Blinkwire__QueryReply *query, size_t i, const filter_t *filter)
{
    const Blinkwire__Event *event = query->events[i];
    return (filter->comm == 0 || event->comm == filter->comm) &&
           (!filter->has_user || (event->is_of_user && event->uid == filter->user));
}

blink_result_t ctl_events(int argc, char **argv, ctl_options_t *options)
{
    static const char *const headers[] = {"time", "kind", "uid", "subject", "what has happened"};
    static const char *const sorts[] = {"event", "kind", "uid", "comm", "subject", NULL};
    static const listing_t listing = {
        .name = "events",
        .doc =
            "Show what has happened on the host, the newest first: clients and communicators that came and "
            "went, communicators that were lost, and why, what was refused, other hosts, and the GPU "
            "worker. The daemon remembers the last 512 events, of each user at most 128.",
        .kind = BLINKWIRE__QUERY_KIND__EVENTS,
        .alignment = "llrll",
        .headers = headers,
        .sorts = sorts,
        .count = event_count,
        .json = event_json,
        .row = event_row,
        .if_none = "Nothing has happened that you may see.",
        .by_comm = true,
        .comm_may_be_gone = true,
        .by_user = true,
        .shows = event_shows};
    return listing_run(&listing, argc, argv, options);
}

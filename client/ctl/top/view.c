#include "ctl/top/view.h"

#include "tools/human.h"
#include "tools/table.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* From this share of what it can a link is coloured as busy. */
#define BUSY_SHARE 0.9

#define NARROW_BAR 5u
#define WIDE_BAR   20u

#define USER_BYTES 33

/* ---- cells ---- */

static const char *user_name(uint32_t uid, char text[USER_BYTES])
{
    const struct passwd *entry = getpwuid(uid);
    if (entry)
        snprintf(text, USER_BYTES, "%s", entry->pw_name);
    else
        snprintf(text, USER_BYTES, "%u", uid);
    return text;
}

static void rate_cell(table_t *table, double rate)
{
    char text[HUMAN_BYTES];
    table_cell(table, "%s", rate > 0 ? human_number(rate, text) : "0");
}

/* How a time compares with what was predicted: 100 % is what was predicted, less is slower. */
static void achieved_cells(table_t *table, const top_comm_t *row)
{
    if (!row->latest || row->latest->measured_count == 0) {
        table_cell(table, "-");
        table_cell(table, "-");
        return;
    }
    table_cell(table, "%.1f", row->achieved_us);
    if (row->achieved_us > 0 && row->predicted_us > 0)
        table_cell(table, "%.0f%%", 100 * row->predicted_us / row->achieved_us);
    else
        table_cell(table, "-");
}

/* ---- tables of the parts ---- */

static table_t *table_of_jobs(const top_sample_t *sample)
{
    static const char *const headers[] = {"USER",       "JOB",      "PROCESSES", "RANKS",
                                          "RANK OPS/S", "RANK OPS", "REGISTERED"};
    char user[USER_BYTES], bytes[HUMAN_BYTES];
    table_t *table = table_create("llrrrrr", headers);
    for (size_t i = 0; i < sample->jobs.count; i++) {
        const top_job_t *job = &sample->jobs.items[i];
        table_cell(table, "%s", user_name(job->uid, user));
        table_cell(table, "%s", *job->job ? job->job : "-");
        table_cell(table, "%u", job->process_count);
        table_cell(table, "%u", job->member_count);
        rate_cell(table, job->ops_per_s);
        table_cell(table, "%lu", (unsigned long)job->op_count);
        table_cell(table, "%s", human_bytes(job->registered_bytes, bytes));
    }
    return table;
}

static void comm_cells(table_t *table, const top_comm_t *row, bool wide)
{
    char user[USER_BYTES], bytes[HUMAN_BYTES];
    const Blinkwire__Comm *comm = row->comm;
    table_cell(table, "%u", comm->comm);
    table_cell(table, "%s", *comm->name ? comm->name : "-");
    if (wide)
        table_cell(table, "%s", user_name(comm->uid, user));
    table_cell(table, "%u", comm->rank_count);
    if (*row->awaits)
        table_cell(table, "awaits %s %s", strchr(row->awaits, ',') ? "ranks" : "rank", row->awaits);
    else
        table_cell(table, "%s", comm->state);
    rate_cell(table, row->ops_per_s);
    rate_cell(table, row->payload_GBps);
    if (wide)
        table_cell(table, "%s", human_bytes(comm->bytes, bytes));
    table_cell(table, "%s", row->latest ? row->latest->collective : "-");
    table_cell(table, "%s", row->latest ? human_bytes(row->latest->bytes_most, bytes) : "-");
    if (wide)
        table_cell(table, "%s", row->latest ? row->latest->algorithm : "-");
    achieved_cells(table, row);
}

static table_t *table_of_comms(const top_sample_t *sample, bool wide)
{
    static const char *const all[] = {"COMM",  "NAME",       "USER",        "RANKS",   "STATE",
                                      "OPS/S", "GB/S",       "MOVED",       "LAST OP", "OF",
                                      "BY",    "TAKES (us)", "OF PREDICTED"};
    static const char *const some[] = {"COMM", "NAME",    "RANKS", "STATE", "OPS/S",
                                       "GB/S", "LAST OP", "OF",    "us",    "%"};
    table_t *table = wide ? table_create("rllrlrrrlrlrr", all) : table_create("rlrlrrlrrr", some);
    for (size_t i = 0; i < sample->comm_rows.count; i++)
        comm_cells(table, &sample->comm_rows.items[i], wide);
    return table;
}

static void direction_cells(table_t *table, const Blinkwire__Link *link, bool wide)
{
    char bar[HUMAN_BYTES];
    if (!link) {
        table_cell(table, "-");
        table_cell(table, " ");
        return;
    }
    rate_cell(table, link->now_gbps);
    table_cell(table, "%s", human_bar(link->utilization, wide ? WIDE_BAR : NARROW_BAR, bar));
}

static table_t *table_of_links(const top_sample_t *sample, bool wide)
{
    static const char *const all[] = {"LINK", "TO",   "KIND", "GB/S MAX",    "THERE",
                                      "",     "BACK", "",     "MOVED THERE", "MOVED BACK"};
    char text[HUMAN_BYTES];
    table_t *table = table_create(wide ? "lllrrlrlrr" : "lllrrlrl", all);
    for (size_t i = 0; i < sample->pairs.count; i++) {
        const top_link_t *pair = &sample->pairs.items[i];
        table_cell(table, "%s", pair->there->from);
        table_cell(table, "%s", pair->there->to);
        table_cell(table, "%s", pair->there->kind);
        table_cell(table, "%s", human_number(pair->there->capacity_gbps, text));
        direction_cells(table, pair->there, wide);
        direction_cells(table, pair->back, wide);
        if (!wide)
            continue;
        table_cell(table, "%s", human_bytes(pair->there->bytes, text));
        table_cell(table, "%s", pair->back ? human_bytes(pair->back->bytes, text) : "-");
    }
    return table;
}

static table_t *table_of_events(const top_sample_t *sample)
{
    static const char *const headers[] = {"EVENT AT", "KIND", "SUBJECT", "WHAT HAS HAPPENED"};
    char text[HUMAN_BYTES];
    table_t *table = table_create("llll", headers);
    for (size_t i = 0; i < top_event_count(sample); i++) {
        const Blinkwire__Event *event = sample->events->query->events[i];
        table_cell(table, "%s", human_time(event->time_us, text));
        table_cell(table, "%s", event->kind);
        table_cell(table, "%s", event->subject);
        table_cell(table, "%s", event->text);
    }
    return table;
}

static table_t *table_of(const top_sample_t *sample, top_part_t part, bool wide)
{
    switch (part) {
    case TOP_JOBS:
        return table_of_jobs(sample);
    case TOP_COMMS:
        return table_of_comms(sample, wide);
    case TOP_EVENTS:
        return table_of_events(sample);
    default:
        return table_of_links(sample, wide);
    }
}

/* ---- tones ---- */

static top_tone_t tone_of_comm(const top_comm_t *row)
{
    return strcmp(row->comm->state, "aborted") == 0 || *row->awaits ? TOP_BAD : TOP_PLAIN;
}

/* What was lost or refused. */
static top_tone_t tone_of_event(const Blinkwire__Event *event)
{
    return strstr(event->kind, "-lost") || strstr(event->kind, "-refused") ? TOP_BAD : TOP_PLAIN;
}

static top_tone_t tone_of(const top_sample_t *sample, top_part_t part, size_t row)
{
    if (part == TOP_COMMS)
        return tone_of_comm(&sample->comm_rows.items[row]);
    if (part == TOP_LINKS && top_link_busy(&sample->pairs.items[row]) >= BUSY_SHARE)
        return TOP_BUSY;
    if (part == TOP_EVENTS)
        return tone_of_event(sample->events->query->events[row]);
    return TOP_PLAIN;
}

/* ---- lines ---- */

static void trim(char *line)
{
    size_t length = strlen(line);
    while (length > 0 && line[length - 1] == ' ')
        line[--length] = '\0';
}

static blink_result_t add_line(top_view_t *view, top_part_t part, const char *text, top_tone_t tone)
{
    top_line_t line = {strdup(text), tone};
    if (line.text && vec_push(&view->parts[part], line)) {
        trim(line.text);
        return BLINK_OK;
    }
    free(line.text);
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a line");
}

/* The lines of a table, whose first one is of headers. */
static blink_result_t split(top_view_t *view, const top_sample_t *sample, top_part_t part, char *text)
{
    size_t number = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        BLINK_TRY(add_line(view, part, line, number > 0 ? tone_of(sample, part, number - 1) : TOP_PLAIN));
        number++;
    }
    return BLINK_OK;
}

static blink_result_t make_part(top_view_t *view, const top_sample_t *sample, top_part_t part, bool wide)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table");
    table_t *table = table_of(sample, part, wide);
    blink_result_t result = table_print(table, memory);
    table_destroy(table);
    if (fclose(memory) != 0 && result == BLINK_OK)
        result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a table");
    if (result == BLINK_OK)
        result = split(view, sample, part, text);
    free(text);
    return result;
}

static blink_result_t make_status(top_view_t *view, const top_sample_t *sample)
{
    char up[HUMAN_BYTES], registered[HUMAN_BYTES];
    const Blinkwire__StatusReply *status = sample->status->query->status;
    if (asprintf(&view->status,
                 "blinkd %s up %s, ops %lu, failed %lu, processes %u, comms %u, devices %u, registered %s",
                 status->version, human_duration(status->uptime_s, up), (unsigned long)status->op_count,
                 (unsigned long)status->failed_op_count, status->client_count, status->comm_count,
                 status->device_count, human_bytes(status->registered_bytes, registered)) >= 0)
        return BLINK_OK;
    view->status = NULL;
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a line");
}

blink_result_t top_view_make(const top_sample_t *sample, unsigned columns, top_view_t *view)
{
    *view = (top_view_t){0};
    blink_result_t result = make_status(view, sample);
    for (top_part_t part = 0; result == BLINK_OK && part < TOP_PART_COUNT; part++)
        result = make_part(view, sample, part, columns >= TOP_WIDE);
    if (result != BLINK_OK)
        top_view_free(view);
    return result;
}

void top_view_free(top_view_t *view)
{
    for (top_part_t part = 0; part < TOP_PART_COUNT; part++) {
        for (size_t i = 0; i < view->parts[part].count; i++)
            free(view->parts[part].items[i].text);
        vec_free(&view->parts[part]);
    }
    free(view->status);
    *view = (top_view_t){0};
}

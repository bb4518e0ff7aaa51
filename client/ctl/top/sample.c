#include "ctl/top/sample.h"

#include "base/clock.h"
#include "ctl/ops/ops.h"

#include <string.h>

/* An op of which some rank has not come for so long is looked at, of so many communicators. */
#define LONG_S     1.0
#define ASKED_MOST 8u

/* How long the answers of a sample may take before the next one is thought to be of another run. */
#define ANSWERS_S 0.5

/* Of events so many are enough for a screen. */
#define EVENTS_SHOWN 20u

/* ---- asking ---- */

static blink_result_t ask(const ctl_options_t *options, query_t *query, Blinkwire__QueryKind kind,
                          Blinkwire__Reply **reply)
{
    const Blinkwire__Query question = ctl_question(options, kind);
    return query_ask_for(query, &question, reply);
}

static blink_result_t ask_events(const ctl_options_t *options, query_t *query, Blinkwire__Reply **reply)
{
    Blinkwire__Query question = ctl_question(options, BLINKWIRE__QUERY_KIND__EVENTS);
    question.events_most = EVENTS_SHOWN;
    blink_result_t result = query_ask_for(query, &question, reply);
    return result == BLINK_ERR_UNSUPPORTED ? BLINK_OK : result;
}

static blink_result_t ask_all(const ctl_options_t *options, query_t *query, top_sample_t *sample)
{
    BLINK_TRY(ask(options, query, BLINKWIRE__QUERY_KIND__STATUS, &sample->status));
    BLINK_TRY(ask(options, query, BLINKWIRE__QUERY_KIND__CLIENTS, &sample->clients));
    BLINK_TRY(ask(options, query, BLINKWIRE__QUERY_KIND__COMMS, &sample->comms));
    BLINK_TRY(ask(options, query, BLINKWIRE__QUERY_KIND__LINKS, &sample->links));
    BLINK_TRY(ask_events(options, query, &sample->events));
    if (!sample->status->query->status)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon's answer has no status");
    return BLINK_OK;
}

/* Whether the daemon has run on between two samples: it has then been up for longer by the time between them,
 * but for how long its answers took. */
static bool is_same_run(const top_sample_t *before, const top_sample_t *sample)
{
    double grown = sample->status->query->status->uptime_s - before->status->query->status->uptime_s;
    return grown > 0 && grown > sample->at_s - before->at_s - ANSWERS_S;
}

/* ---- rates ---- */

/* By how much a counter has grown in a second; 0 if it was not there before, or began anew. */
static double per_second(uint64_t now, uint64_t before, double seconds)
{
    return seconds > 0 && now > before ? (double)(now - before) / seconds : 0;
}

/* ---- jobs ---- */

static bool is_of_job(const Blinkwire__Client *client, const top_job_t *job)
{
    return client->uid == job->uid && strcmp(client->job, job->job) == 0;
}

static top_job_t *job_of(top_sample_t *sample, const Blinkwire__Client *client)
{
    for (size_t i = 0; i < sample->jobs.count; i++)
        if (is_of_job(client, &sample->jobs.items[i]))
            return &sample->jobs.items[i];
    const top_job_t job = {.uid = client->uid, .job = client->job};
    return vec_push(&sample->jobs, job) ? &sample->jobs.items[sample->jobs.count - 1] : NULL;
}

/* Those of processes that were there before; the ops of one that has come since would look like a burst. */
static uint64_t ops_before(const top_sample_t *before, const Blinkwire__Client *client)
{
    const Blinkwire__QueryReply *query = before ? before->clients->query : NULL;
    for (size_t i = 0; query && i < query->n_clients; i++)
        if (query->clients[i]->client == client->client)
            return query->clients[i]->op_count;
    return client->op_count;
}

static blink_result_t collect_jobs(top_sample_t *sample, const top_sample_t *before, double seconds)
{
    const Blinkwire__QueryReply *query = sample->clients->query;
    for (size_t i = 0; i < query->n_clients; i++) {
        const Blinkwire__Client *client = query->clients[i];
        top_job_t *job = job_of(sample, client);
        if (!job)
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu jobs", sample->jobs.count + 1);
        job->process_count++;
        job->member_count += client->member_count;
        job->op_count += client->op_count;
        job->registered_bytes += client->registered_bytes;
        job->ops_per_s += per_second(client->op_count, ops_before(before, client), seconds);
    }
    return BLINK_OK;
}

/* ---- communicators ---- */

static const top_comm_t *comm_before(const top_sample_t *before, const Blinkwire__Comm *comm)
{
    for (size_t i = 0; before && i < before->comm_rows.count; i++)
        if (before->comm_rows.items[i].comm->comm == comm->comm)
            return &before->comm_rows.items[i];
    return NULL;
}

static const Blinkwire__PlanInUse *plan_before(const Blinkwire__Comm *before,
                                               const Blinkwire__PlanInUse *plan)
{
    for (size_t i = 0; before && i < before->n_plans; i++) {
        const Blinkwire__PlanInUse *other = before->plans[i];
        if (strcmp(other->collective, plan->collective) == 0 &&
            strcmp(other->algorithm, plan->algorithm) == 0 && strcmp(other->protocol, plan->protocol) == 0 &&
            strcmp(other->transport, plan->transport) == 0 && other->plan == plan->plan)
            return other;
    }
    return NULL;
}

static double mean_since(double mean, uint64_t count, double mean_before, uint64_t count_before)
{
    if (count <= count_before)
        return mean;
    return (mean * (double)count - mean_before * (double)count_before) / (double)(count - count_before);
}

static void set_latest(top_comm_t *row, const Blinkwire__PlanInUse *plan, const Blinkwire__PlanInUse *before)
{
    uint64_t count_before = before ? before->measured_count : 0;
    row->latest = plan;
    row->achieved_us =
        mean_since(plan->measured_us, plan->measured_count, before ? before->measured_us : 0, count_before);
    row->predicted_us =
        mean_since(plan->predicted_us, plan->measured_count, before ? before->predicted_us : 0, count_before);
}

/* The plan that has run the most payload since the sample before; else the one that was the latest then, else
 * the newest. */
static void find_latest(top_comm_t *row, const top_comm_t *before)
{
    const Blinkwire__Comm *comm = row->comm;
    double most = 0;
    for (size_t i = 0; i < comm->n_plans; i++) {
        const Blinkwire__PlanInUse *plan = comm->plans[i];
        const Blinkwire__PlanInUse *earlier = plan_before(before ? before->comm : NULL, plan);
        uint64_t ops = plan->op_count - (earlier ? earlier->op_count : 0);
        double weight = (double)ops * (double)(plan->bytes_most + 1);
        if (weight > most) {
            most = weight;
            set_latest(row, plan, earlier);
        }
    }
    for (size_t i = 0; !row->latest && before && before->latest && i < comm->n_plans; i++)
        if (plan_before(before->comm, comm->plans[i]) == before->latest) {
            row->latest = comm->plans[i];
            row->achieved_us = before->achieved_us;
            row->predicted_us = before->predicted_us;
        }
}

static blink_result_t collect_comms(top_sample_t *sample, const top_sample_t *before, double seconds)
{
    const Blinkwire__QueryReply *query = sample->comms->query;
    for (size_t i = 0; i < query->n_comms; i++) {
        top_comm_t row = {.comm = query->comms[i]};
        const top_comm_t *earlier = comm_before(before, row.comm);
        if (earlier) {
            row.ops_per_s = per_second(row.comm->op_count, earlier->comm->op_count, seconds);
            row.payload_GBps = per_second(row.comm->bytes, earlier->comm->bytes, seconds) / 1e9;
        }
        find_latest(&row, earlier);
        if (!vec_push(&sample->comm_rows, row))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu communicators", query->n_comms);
    }
    return BLINK_OK;
}

/* ---- who is missing ---- */

static void name_missing(const Blinkwire__Op *op, char text[TOP_AWAITS_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < op->n_ranks && i < op->n_came_us && used < TOP_AWAITS_BYTES; i++)
        if (op->came_us[i] == OPS_NOT_COME)
            used += (size_t)snprintf(text + used, TOP_AWAITS_BYTES - used, "%s%u", used > 0 ? ", " : "",
                                     op->ranks[i]);
    if (used >= TOP_AWAITS_BYTES)
        strcpy(text + TOP_AWAITS_BYTES - 4, "...");
}

/* Of the oldest op that has not ended. A communicator that goes meanwhile waits for nobody. */
static blink_result_t find_missing(const ctl_options_t *options, query_t *query, top_comm_t *row)
{
    Blinkwire__Query question = ctl_question(options, BLINKWIRE__QUERY_KIND__OPS);
    Blinkwire__Reply *reply;
    question.comm = row->comm->comm;
    blink_result_t result = query_ask_for(query, &question, &reply);
    if (result != BLINK_OK)
        return result == BLINK_ERR_NOT_FOUND ? BLINK_OK : result;
    const Blinkwire__Op *oldest = NULL;
    for (size_t i = 0; i < reply->query->n_ops; i++) {
        const Blinkwire__Op *op = reply->query->ops[i];
        if (!ops_has_ended(op) && (!oldest || op->op < oldest->op))
            oldest = op;
    }
    if (oldest)
        name_missing(oldest, row->awaits);
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

/* Few communicators wait for long, and of many it is enough to see some. */
static blink_result_t find_all_missing(const ctl_options_t *options, query_t *query, top_sample_t *sample)
{
    uint32_t asked = 0;
    for (size_t i = 0; i < sample->comm_rows.count && asked < ASKED_MOST; i++) {
        top_comm_t *row = &sample->comm_rows.items[i];
        if (row->comm->oldest_op_s < LONG_S)
            continue;
        BLINK_TRY(find_missing(options, query, row));
        asked++;
    }
    return BLINK_OK;
}

/* ---- links ---- */

static bool is_opposite(const Blinkwire__Link *one, const Blinkwire__Link *other)
{
    return strcmp(one->from, other->to) == 0 && strcmp(one->to, other->from) == 0 &&
           strcmp(one->kind, other->kind) == 0;
}

/* A topology has the two directions of a link one after the other, mostly: so the search begins at the end.
 */
static blink_result_t collect_links(top_sample_t *sample)
{
    const Blinkwire__QueryReply *query = sample->links->query;
    for (size_t i = 0; i < query->n_links; i++) {
        const top_link_t pair = {.there = query->links[i]};
        size_t at = sample->pairs.count;
        while (at > 0 && (sample->pairs.items[at - 1].back ||
                          !is_opposite(sample->pairs.items[at - 1].there, pair.there)))
            at--;
        if (at > 0)
            sample->pairs.items[at - 1].back = pair.there;
        else if (!vec_push(&sample->pairs, pair))
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu links", query->n_links);
    }
    return BLINK_OK;
}

/* ---- a sample ---- */

blink_result_t top_sample_take(const ctl_options_t *options, query_t *query, const top_sample_t *before,
                               top_sample_t *sample)
{
    *sample = (top_sample_t){0};
    blink_result_t result = ask_all(options, query, sample);
    sample->at_s = (double)clock_us() / 1e6;
    /* Another run of the daemon counts anew. */
    if (result == BLINK_OK && before && !is_same_run(before, sample))
        before = NULL;
    double seconds = before ? sample->at_s - before->at_s : 0;
    if (result == BLINK_OK)
        result = collect_jobs(sample, before, seconds);
    if (result == BLINK_OK)
        result = collect_comms(sample, before, seconds);
    if (result == BLINK_OK)
        result = find_all_missing(options, query, sample);
    if (result == BLINK_OK)
        result = collect_links(sample);
    if (result != BLINK_OK)
        top_sample_free(sample);
    return result;
}

void top_sample_free(top_sample_t *sample)
{
    Blinkwire__Reply *const replies[] = {sample->status, sample->clients, sample->comms, sample->links,
                                         sample->events};
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++)
        if (replies[i])
            blinkwire__reply__free_unpacked(replies[i], NULL);
    vec_free(&sample->jobs);
    vec_free(&sample->comm_rows);
    vec_free(&sample->pairs);
    *sample = (top_sample_t){0};
}

/* blinkctl top --json: what it knows at a moment, for programs. */
#include "ctl/list/event.h"
#include "ctl/top/sample.h"

static json_t *pack_job(const top_job_t *job)
{
    return json_pack("{sI so sI sI sI sf sI}", "uid", (json_int_t)job->uid, "job",
                     ctl_json_text_or_null(job->job), "process_count", (json_int_t)job->process_count,
                     "member_count", (json_int_t)job->member_count, "op_count", (json_int_t)job->op_count,
                     "ops_per_s", job->ops_per_s, "registered_bytes", (json_int_t)job->registered_bytes);
}

/* Of the plan by which the latest ops ran; null where there were none. */
static json_t *pack_latest(const top_comm_t *row)
{
    const Blinkwire__PlanInUse *plan = row->latest;
    if (!plan)
        return json_null();
    bool is_timed = plan->measured_count > 0;
    return json_pack(
        "{so sI so so}", "collective", ctl_json_text(plan->collective), "bytes", (json_int_t)plan->bytes_most,
        "algorithm", ctl_json_text(plan->algorithm), "time",
        is_timed ? json_pack("{sf sf}", "achieved_us", row->achieved_us, "predicted_us", row->predicted_us)
                 : json_null());
}

static json_t *pack_comm(const top_comm_t *row)
{
    const Blinkwire__Comm *comm = row->comm;
    return json_pack("{sI so sI so sI sI sI sf sf so so}", "comm", (json_int_t)comm->comm, "name",
                     ctl_json_text_or_null(comm->name), "uid", (json_int_t)comm->uid, "state",
                     ctl_json_text(comm->state), "rank_count", (json_int_t)comm->rank_count, "op_count",
                     (json_int_t)comm->op_count, "bytes", (json_int_t)comm->bytes, "ops_per_s",
                     row->ops_per_s, "payload_GBps", row->payload_GBps, "awaits",
                     ctl_json_text_or_null(row->awaits), "latest", pack_latest(row));
}

static json_t *pack_direction(const Blinkwire__Link *link)
{
    if (!link)
        return json_null();
    return json_pack("{sf sf sI}", "now_GBps", link->now_gbps, "utilization", link->utilization, "bytes",
                     (json_int_t)link->bytes);
}

static json_t *pack_link(const top_link_t *pair)
{
    const Blinkwire__Link *there = pair->there;
    return json_pack("{so so so sf so so}", "from", ctl_json_text(there->from), "to",
                     ctl_json_text(there->to), "kind", ctl_json_text(there->kind), "capacity_GBps",
                     there->capacity_gbps, "there", pack_direction(there), "back",
                     pack_direction(pair->back));
}

json_t *top_sample_pack(const top_sample_t *sample)
{
    const Blinkwire__StatusReply *status = sample->status->query->status;
    json_t *jobs = json_array(), *comms = json_array(), *links = json_array(), *events = json_array();
    for (size_t i = 0; i < sample->jobs.count; i++)
        json_array_append_new(jobs, pack_job(&sample->jobs.items[i]));
    for (size_t i = 0; i < sample->comm_rows.count; i++)
        json_array_append_new(comms, pack_comm(&sample->comm_rows.items[i]));
    for (size_t i = 0; i < sample->pairs.count; i++)
        json_array_append_new(links, pack_link(&sample->pairs.items[i]));
    for (size_t i = 0; i < top_event_count(sample); i++)
        json_array_append_new(events, event_pack(sample->events->query->events[i]));
    return json_pack("{ss so sf sI sI so so so so}", "schema", "blink-top/1", "daemon_version",
                     ctl_json_text(status->version), "uptime_s", status->uptime_s, "op_count",
                     (json_int_t)status->op_count, "failed_op_count", (json_int_t)status->failed_op_count,
                     "jobs", jobs, "comms", comms, "links", links, "events", events);
}

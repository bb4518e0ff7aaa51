/* The report as the JSON of NCCL's RAS, with what that lacks under names of our own: collectors take the
 * fields that they know. */
#include "ctl/ras/view.h"

#include <time.h>

#define REMOTE_ERROR 6 /* ncclRemoteError */
#define IN_PROGRESS  7 /* ncclInProgress: the communicator is being made */
#define TIME_BYTES   32

/* Collectors want numbers that are not negative: where nothing is known it is 0. */
static json_t *who_json(const ras_view_t *view, uint32_t number, const ras_rank_t *rank)
{
    json_int_t device =
        rank->device ? (*rank->device->gpu_uuid ? rank->device->gpu : rank->device->index) : 0;
    return json_pack("{s:I, s:o, s:I, s:I, s:I}", "rank", (json_int_t)number, "host",
                     rank->client ? ctl_json_text(view->host) : json_string("unknown"), "pid",
                     (json_int_t)(rank->client ? rank->client->pid : 0), "cuda_dev", device, "nvml_dev",
                     device);
}

static json_t *counts_json(const ras_view_t *view, size_t i, uint32_t rank)
{
    json_t *counts = json_object();
    for (unsigned kind = 0; kind < RAS_KINDS; kind++)
        json_object_set_new(counts, ras_kind_name(kind),
                            json_integer((json_int_t)ras_count(view, i, rank, kind)));
    return counts;
}

static json_t *rank_json(const ras_view_t *view, size_t i, uint32_t number, const ras_rank_t *rank)
{
    const Blinkwire__Comm *comm = view->comms->query->comms[i];
    bool is_aborted = ras_is_aborted(comm);
    json_t *json = who_json(view, number, rank);
    json_object_set_new(json, "status",
                        json_pack("{s:i, s:i, s:b, s:b, s:b}", "init_state",
                                  is_aborted || ras_is_ready(comm) ? 0 : IN_PROGRESS, "async_error",
                                  is_aborted ? REMOTE_ERROR : 0, "finalize_called", 0, "destroy_flag", 0,
                                  "abort_flag", is_aborted));
    json_object_set_new(json, "collective_counts", counts_json(view, i, number));
    return json;
}

static json_t *missing_json(const ras_view_t *view, uint32_t number, const ras_rank_t *rank)
{
    json_t *json = who_json(view, number, rank);
    json_object_set_new(
        json, "status",
        json_pack("{s:b, s:b}", "unresponsive", 1, "considered_dead", rank->place == RAS_LEFT));
    return json;
}

/* What users of RAS ask for: the op that is in the way, and who lacks. */
static json_t *oldest_json(const ras_view_t *view, size_t i)
{
    const Blinkwire__Op *op = ras_oldest(view, i);
    if (!op)
        return json_null();
    json_t *missing = json_array();
    for (size_t at = 0; at < op->n_ranks; at++)
        if (!ras_came(op, op->ranks[at]))
            json_array_append_new(missing, json_integer(op->ranks[at]));
    return json_pack("{s:I, s:o, s:I, s:o, s:f, s:o}", "op", (json_int_t)op->op, "collective",
                     ctl_json_text(op->collective), "bytes", (json_int_t)op->bytes, "doing",
                     ctl_json_text(op->doing), "age_sec", view->comms->query->comms[i]->oldest_op_s,
                     "missing_ranks", missing);
}

static json_t *comm_json(const ras_view_t *view, size_t i)
{
    const Blinkwire__Comm *comm = view->comms->query->comms[i];
    json_t *here = json_array(), *missing = json_array();
    for (uint32_t number = 0; number < comm->rank_count; number++) {
        const ras_rank_t rank = ras_rank(view, comm, number);
        if (rank.place == RAS_HERE)
            json_array_append_new(here, rank_json(view, i, number, &rank));
        else if (ras_is_missing(rank.place))
            json_array_append_new(missing, missing_json(view, number, &rank));
    }
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "hash",
                     json_sprintf("0x%s", comm->id), "secondary_hash",
                     json_sprintf("0x%x:0x%x", comm->uid, comm->comm), "size", (json_int_t)comm->rank_count,
                     "ranks_count", (json_int_t)json_array_size(here), "missing_ranks_count",
                     (json_int_t)json_array_size(missing), "ranks", here, "missing_ranks", missing, "name",
                     ctl_json_text_or_null(comm->name), "comm", (json_int_t)comm->comm, "completed_ops",
                     (json_int_t)comm->op_count, "failed_ops", (json_int_t)comm->failed_op_count, "oldest_op",
                     oldest_json(view, i));
}

blink_result_t ras_write_json(const ras_view_t *view, FILE *out)
{
    const Blinkwire__QueryReply *comms = view->comms->query;
    char stamp[TIME_BYTES] = "";
    time_t now = time(NULL);
    struct tm parts;
    json_t *list = json_array();
    if (localtime_r(&now, &parts))
        strftime(stamp, sizeof(stamp), "%F %T", &parts);
    for (size_t i = 0; i < comms->n_comms; i++)
        json_array_append_new(list, comm_json(view, i));
    json_t *report = json_pack("{s:o, s:i, s:i, s:s, s:I, s:o, s:{s:f, s:i}}", "nccl_version",
                               json_sprintf("blinkd %s", view->status->query->status->version),
                               "cuda_runtime_version", 0, "cuda_driver_version", 0, "timestamp", stamp,
                               "communicators_count", (json_int_t)comms->n_comms, "communicators", list,
                               "ras", "collection_time_sec", view->took_s, "timeouts_count", 0);
    if (!report)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a report");
    int failed = json_dumpf(report, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(report);
    fputc('\n', out);
    return failed ? BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a report") : BLINK_OK;
}

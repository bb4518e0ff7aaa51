/* The report for people. Its words for what is wrong are those of NCCL's RAS. */
#include "ctl/ras/view.h"

#include "tools/human.h"
#include "tools/table.h"

static const char *status_of(const Blinkwire__Comm *comm)
{
    if (ras_is_aborted(comm))
        return "ABORT";
    return ras_is_ready(comm) ? "RUNNING" : "INIT";
}

static const char *errors_of(const ras_view_t *view, size_t i)
{
    const Blinkwire__Comm *comm = view->comms->query->comms[i];
    if (ras_is_aborted(comm))
        return "ERROR";
    if (ras_missing(view, comm) > 0)
        return "INCOMPLETE";
    return ras_mismatches(view, i) ? "MISMATCH" : "OK";
}

static blink_result_t write_comms(const ras_view_t *view, FILE *out)
{
    static const char *const headers[] = {"comm",      "id",     "name",   "ranks", "missing",
                                          "ops ended", "failed", "status", "errors"};
    const Blinkwire__QueryReply *comms = view->comms->query;
    fputs("\nCommunicators\n=============\n\n", out);
    if (comms->n_comms == 0) {
        fputs("none\n", out);
        return BLINK_OK;
    }
    table_t *table = table_create("rllrrrrll", headers);
    for (size_t i = 0; i < comms->n_comms; i++) {
        const Blinkwire__Comm *comm = comms->comms[i];
        table_cell(table, "%u", comm->comm);
        table_cell(table, "%s", comm->id);
        table_cell(table, "%s", *comm->name ? comm->name : "-");
        table_cell(table, "%u", comm->rank_count);
        table_cell(table, "%u", ras_missing(view, comm));
        table_cell(table, "%lu", (unsigned long)comm->op_count);
        table_cell(table, "%lu", (unsigned long)comm->failed_op_count);
        table_cell(table, "%s", status_of(comm));
        table_cell(table, "%s", errors_of(view, i));
    }
    blink_result_t result = table_print(table, out);
    table_destroy(table);
    return result;
}

static const char *place_name(ras_place_t place)
{
    static const char *const names[] = {[RAS_HERE] = "here",
                                        [RAS_ELSEWHERE] = "on another host",
                                        [RAS_NOT_JOINED] = "has not joined",
                                        [RAS_LEFT] = "has left"};
    return names[place];
}

static uint64_t count_all(const ras_view_t *view, size_t comm, uint32_t rank)
{
    uint64_t count = 0;
    for (unsigned kind = 0; kind < RAS_KINDS; kind++)
        count += ras_count(view, comm, rank, kind);
    return count;
}

static void rank_row(const ras_view_t *view, size_t i, uint32_t number, table_t *table)
{
    const Blinkwire__Comm *comm = view->comms->query->comms[i];
    const ras_rank_t rank = ras_rank(view, comm, number);
    table_cell(table, "%u", comm->comm);
    table_cell(table, "%u", number);
    if (rank.client)
        table_cell(table, "%u", rank.client->pid);
    else
        table_cell(table, "-");
    table_cell(table, "%s", rank.device ? rank.device->node : "-");
    if (rank.place == RAS_HERE)
        table_cell(table, "%lu", (unsigned long)count_all(view, i, number));
    else
        table_cell(table, "-");
    table_cell(table, "%s", place_name(rank.place));
}

static blink_result_t write_ranks(const ras_view_t *view, FILE *out)
{
    static const char *const headers[] = {"comm", "rank", "pid", "device", "ops come to", "state"};
    const Blinkwire__QueryReply *comms = view->comms->query;
    table_t *table = table_create("rrrlrl", headers);
    for (size_t i = 0; i < comms->n_comms; i++)
        for (uint32_t rank = 0; rank < comms->comms[i]->rank_count; rank++)
            rank_row(view, i, rank, table);
    fputs("\nRanks\n=====\n\n", out);
    blink_result_t result = table_print(table, out);
    table_destroy(table);
    return result;
}

/* ---- what is wrong ---- */

static void write_errors(const ras_view_t *view, FILE *out)
{
    const Blinkwire__QueryReply *comms = view->comms->query;
    fputs("\nErrors\n======\n\n", out);
    for (size_t i = 0; i < comms->n_comms; i++) {
        const Blinkwire__Comm *comm = comms->comms[i];
        if (ras_is_aborted(comm))
            fprintf(out, "communicator %u is lost or aborted: blinkctl events --comm %u says why\n",
                    comm->comm, comm->comm);
        for (uint32_t rank = 0; rank < comm->rank_count; rank++) {
            ras_place_t place = ras_rank(view, comm, rank).place;
            if (ras_is_missing(place))
                fprintf(out, "communicator %u: rank %u %s\n", comm->comm, rank, place_name(place));
        }
    }
}

static void write_warnings(const ras_view_t *view, FILE *out)
{
    const Blinkwire__QueryReply *comms = view->comms->query;
    char text[HUMAN_BYTES];
    fputs("\nWarnings\n========\n\n", out);
    for (size_t i = 0; i < comms->n_comms; i++) {
        const Blinkwire__Op *op = ras_oldest(view, i);
        for (size_t at = 0; op && at < op->n_ranks; at++)
            if (!ras_came(op, op->ranks[at]))
                fprintf(out, "communicator %u: %s %lu of %s waits for rank %u, since %.3f s\n",
                        comms->comms[i]->comm, op->collective, (unsigned long)op->op,
                        human_bytes(op->bytes, text), op->ranks[at], comms->comms[i]->oldest_op_s);
    }
}

blink_result_t ras_write_text(const ras_view_t *view, bool verbose, FILE *out)
{
    const Blinkwire__StatusReply *status = view->status->query->status;
    fprintf(out, "blinkd %s on %s, topology %s, %u device%s, %u client%s\n", status->version, view->host,
            status->topology, status->device_count, human_plural(status->device_count), status->client_count,
            human_plural(status->client_count));
    BLINK_TRY(write_comms(view, out));
    if (verbose && view->comms->query->n_comms > 0)
        BLINK_TRY(write_ranks(view, out));
    write_errors(view, out);
    write_warnings(view, out);
    return BLINK_OK;
}

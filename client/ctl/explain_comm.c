/* blinkctl explain --comm: what a live communicator's ops have run by, and how the daemon reached their
 * memory. */
#include "explain_comm.h"

#include "explain_traffic.h"
#include "plan/bytes/bytes.h"
#include "tools/human.h"
#include "tools/table.h"

static json_t *pack_plans(const Blinkwire__Comm *comm)
{
    json_t *list = json_array();
    for (size_t i = 0; i < comm->n_plans; i++) {
        const Blinkwire__PlanInUse *plan = comm->plans[i];
        char digest[PLAN_DIGEST_BYTES];
        json_array_append_new(
            list,
            json_pack("{so so so so so so sI sI sI sI sf sf sf}", "collective",
                      ctl_json_text(plan->collective), "algorithm", ctl_json_text(plan->algorithm),
                      "protocol", ctl_json_text(plan->protocol), "transport", ctl_json_text(plan->transport),
                      "network", plan->plan && *comm->network ? ctl_json_text(comm->network) : json_null(),
                      "plan", plan->plan ? json_string(plan_digest_text(plan->plan, digest)) : json_null(),
                      "bytes_least", (json_int_t)plan->bytes_least, "bytes_most",
                      (json_int_t)plan->bytes_most, "op_count", (json_int_t)plan->op_count, "measured_count",
                      (json_int_t)plan->measured_count, "predicted_us", plan->predicted_us, "measured_us",
                      plan->measured_us, "measured_least_us", plan->measured_least_us));
    }
    return list;
}

static blink_result_t print_json(const Blinkwire__Comm *comm, const Blinkwire__QueryReply *links)
{
    return ctl_print_json(
        json_pack("{ss sI so so sI so sI sI sI so so}", "schema", "blink-explain-comm/1", "comm",
                  (json_int_t)comm->comm, "name", ctl_json_text_or_null(comm->name), "state",
                  ctl_json_text(comm->state), "rank_count", (json_int_t)comm->rank_count, "algorithm",
                  ctl_json_text(comm->algorithm), "op_count", (json_int_t)comm->op_count, "direct_bytes",
                  (json_int_t)comm->direct_bytes, "staged_bytes", (json_int_t)comm->staged_bytes, "plans",
                  pack_plans(comm), "traffic", explain_traffic_pack(links, comm->comm)),
        JSON_INDENT(1));
}

static const char *how_memory_is_reached(const Blinkwire__Comm *comm)
{
    if (comm->direct_bytes == 0 && comm->staged_bytes == 0)
        return "no buffer has been used yet";
    if (comm->staged_bytes == 0)
        return "all buffers are registered: read and written in place";
    if (comm->direct_bytes == 0)
        return "no buffer is registered: all are copied through staging";
    return "some buffers are registered, others are copied through staging";
}

static void cell_time(table_t *table, const Blinkwire__PlanInUse *plan, double us)
{
    if (plan->measured_count > 0)
        table_cell(table, "%.1f", us);
    else
        table_cell(table, "-");
}

/* "local, TCP": how memory of this host is reached, and other hosts are. */
static void cell_transport(table_t *table, const Blinkwire__Comm *comm, const Blinkwire__PlanInUse *plan)
{
    bool is_between = plan->plan && *comm->network;
    table_cell(table, "%s%s%s", plan->transport, is_between ? ", " : "", is_between ? comm->network : "");
}

static blink_result_t print_text(const Blinkwire__Comm *comm, const Blinkwire__QueryReply *links)
{
    static const char *const headers[] = {"collective",   "algorithm",   "protocol", "transport",
                                          "plan",         "from",        "to",       "ops",
                                          "predicted us", "measured us", "least us"};
    char digest[PLAN_DIGEST_BYTES];
    char direct[HUMAN_BYTES], staged[HUMAN_BYTES], least[HUMAN_BYTES], most[HUMAN_BYTES];
    printf("communicator %u%s%s%s: %u rank%s, %s, asked for algorithm %s\n", comm->comm,
           *comm->name ? " (" : "", comm->name, *comm->name ? ")" : "", comm->rank_count,
           human_plural(comm->rank_count), comm->state, comm->algorithm);
    printf("memory: %s (%s in place, %s staged)\n", how_memory_is_reached(comm),
           human_bytes(comm->direct_bytes, direct), human_bytes(comm->staged_bytes, staged));
    explain_traffic_print(links, comm->comm);
    if (comm->n_plans == 0)
        return BLINK_OK;
    table_t *table = table_create("lllllrrrnnn", headers);
    for (size_t i = 0; i < comm->n_plans; i++) {
        const Blinkwire__PlanInUse *plan = comm->plans[i];
        table_cell(table, "%s", plan->collective);
        table_cell(table, "%s", plan->algorithm);
        table_cell(table, "%s", plan->protocol);
        cell_transport(table, comm, plan);
        table_cell(table, "%s", plan->plan ? plan_digest_text(plan->plan, digest) : "-");
        table_cell(table, "%s", human_bytes(plan->bytes_least, least));
        table_cell(table, "%s", human_bytes(plan->bytes_most, most));
        table_cell(table, "%lu", (unsigned long)plan->op_count);
        cell_time(table, plan, plan->predicted_us);
        cell_time(table, plan, plan->measured_us);
        cell_time(table, plan, plan->measured_least_us);
    }
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

static blink_result_t explain_live(const ctl_options_t *options, const Blinkwire__Comm *comm)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__LINKS, &reply));
    blink_result_t result = options->json ? print_json(comm, reply->query) : print_text(comm, reply->query);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

blink_result_t explain_comm(const ctl_options_t *options, uint32_t number)
{
    Blinkwire__Reply *reply;
    BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__COMMS, &reply));
    const Blinkwire__QueryReply *query = reply->query;
    const Blinkwire__Comm *comm = NULL;
    for (size_t i = 0; i < query->n_comms; i++) {
        if (query->comms[i]->comm == number)
            comm = query->comms[i];
    }
    blink_result_t result;
    if (!comm)
        result = BLINK_FAIL(BLINK_ERR_NOT_FOUND, "no communicator %u%s%s; blinkctl comms lists them", number,
                            options->host ? " on " : "", options->host ? options->host : "");
    else
        result = explain_live(options, comm);
    blinkwire__reply__free_unpacked(reply, NULL);
    return result;
}

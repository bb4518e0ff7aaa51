#include "ctl/web/answers.h"

#include "base/clock.h"
#include "ctl/request.h"
#include "names.h"
#include "plan/plan.h"
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

/* Between one question to the daemon and the next. */
#define SAMPLE_S 0.5

/* A browser waits for a plan; the best one that is found by then is shown. */
#define PLAN_S 2.0

/* ---- asking ---- */

static blink_result_t connect_to_daemon(answers_t *answers)
{
    if (answers->connected)
        return BLINK_OK;
    BLINK_TRY(query_open(query_socket_path(answers->options->socket_path), "blinkctl", &answers->query));
    answers->connected = true;
    return BLINK_OK;
}

static void disconnect(answers_t *answers)
{
    if (answers->connected)
        query_close(&answers->query);
    answers->connected = false;
}

static blink_result_t take_sample(answers_t *answers)
{
    top_sample_t sample, *before = answers->sample.status ? &answers->sample : NULL;
    if (before && (double)clock_us() / 1e6 - before->at_s < SAMPLE_S)
        return BLINK_OK;
    BLINK_TRY(connect_to_daemon(answers));
    blink_result_t result = top_sample_take(answers->options, &answers->query, before, &sample);
    if (result != BLINK_OK) {
        disconnect(answers);
        return result;
    }
    top_sample_free(&answers->sample);
    answers->sample = sample;
    return BLINK_OK;
}

void answers_fini(answers_t *answers)
{
    disconnect(answers);
    top_sample_free(&answers->sample);
}

/* ---- the state ---- */

blink_result_t answers_top(answers_t *answers, char **text)
{
    BLINK_TRY(take_sample(answers));
    top_sample_sort(&answers->sample, TOP_BY_NAME);
    json_t *value = top_sample_pack(&answers->sample);
    *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return *text ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for an answer");
}

/* ---- pictures ---- */

blink_result_t answers_topology(answers_t *answers, uint32_t comm, char **text)
{
    topo_t *topo;
    BLINK_TRY(request_load_daemons(answers->options, comm, &topo));
    blink_result_t result = topo_write_svg(topo, text);
    topo_destroy(topo);
    return result;
}

static blink_result_t find_comm(const answers_t *answers, uint32_t number, const top_comm_t **found)
{
    for (size_t i = 0; i < answers->sample.comm_rows.count; i++) {
        *found = &answers->sample.comm_rows.items[i];
        if ((*found)->comm->comm == number && (*found)->latest)
            return BLINK_OK;
        if ((*found)->comm->comm == number)
            return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "communicator %u has had no op yet", number);
    }
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "there is no communicator %u", number);
}

/* The nodes of the ranks, which are devices of this host by number. `nodes` has room for all. */
static blink_result_t find_ranks(const Blinkwire__Comm *comm, const Blinkwire__QueryReply *devices,
                                 const topo_t *topo, uint32_t *nodes)
{
    for (uint32_t rank = 0; rank < comm->n_devices; rank++) {
        size_t at = 0;
        while (at < devices->n_devices && devices->devices[at]->index != comm->devices[rank])
            at++;
        nodes[rank] = at < devices->n_devices ? topo_find_node(topo, devices->devices[at]->node) : TOPO_NONE;
        if (nodes[rank] == TOPO_NONE)
            return BLINK_FAIL(
                BLINK_ERR_UNSUPPORTED,
                "rank %u of communicator %u is on another host, whose devices are not known here", rank,
                comm->comm);
    }
    return BLINK_OK;
}

static blink_result_t draw_plan(const top_comm_t *row, const topo_t *topo, const uint32_t *nodes, char **text)
{
    plan_t *plan;
    plan_request_t request = {.rank_node = nodes,
                              .rank_count = (uint32_t)row->comm->n_devices,
                              .peer = 1,
                              .bytes = row->latest->bytes_most,
                              .multicast = true,
                              .plan_seconds = PLAN_S};
    if (!blink_parse_collective(row->latest->collective, &request.collective) ||
        !blink_parse_algorithm(row->latest->algorithm, &request.algorithm))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s by %s has no picture", row->latest->collective,
                          row->latest->algorithm);
    blink_result_t result = plan_create(topo, &request, &plan);
    if (result == BLINK_OK) {
        result = plan_write_svg(topo, plan, text);
        plan_destroy(plan);
    }
    plan_thread_release();
    return result;
}

blink_result_t answers_plan(answers_t *answers, uint32_t comm, char **text)
{
    const top_comm_t *row;
    topo_t *topo;
    Blinkwire__Reply *devices;
    BLINK_TRY(take_sample(answers));
    BLINK_TRY(find_comm(answers, comm, &row));
    BLINK_TRY(ctl_ask(answers->options, BLINKWIRE__QUERY_KIND__DEVICES, &devices));
    blink_result_t result = request_load_daemons(answers->options, 0, &topo);
    uint32_t *nodes = calloc(row->comm->n_devices + 1, sizeof(*nodes));
    if (result == BLINK_OK) {
        result = nodes ? find_ranks(row->comm, devices->query, topo, nodes)
                       : BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu ranks", row->comm->n_devices);
        if (result == BLINK_OK)
            result = draw_plan(row, topo, nodes, text);
        topo_destroy(topo);
    }
    free(nodes);
    blinkwire__reply__free_unpacked(devices, NULL);
    return result;
}

#include "control/comms/describe.h"

#include "collective.h"
#include "names.h"

#include <stdlib.h>

/* The device of a rank that has not joined here. */
#define NO_DEVICE UINT32_MAX

/* So many ranks are described in a step. */
#define RANKS_PER_STEP 32u

uint32_t describe_steps(const roster_t *roster)
{
    uint32_t steps = 1 + roster->rank_count / RANKS_PER_STEP;
    const plan_use_t *use = roster->engine ? engine_comm_plan_uses(roster->engine) : NULL;
    for (; use; use = use->next)
        steps++;
    return steps;
}

/* An op that ends meanwhile may be in one sum and not yet in another. */
static void describe_times(const plan_use_t *use, Blinkwire__PlanInUse *plan)
{
    /* Relaxed: counters, each right by itself. */
    plan->measured_count = atomic_load_explicit(&use->measured_count, memory_order_relaxed);
    if (plan->measured_count == 0)
        return;
    double scale = (double)plan->measured_count * 1e3;
    plan->predicted_us = (double)atomic_load_explicit(&use->predicted_ns, memory_order_relaxed) / scale;
    plan->measured_us = (double)atomic_load_explicit(&use->measured_ns, memory_order_relaxed) / scale;
    plan->measured_least_us =
        (double)atomic_load_explicit(&use->measured_ns_least, memory_order_relaxed) * 1e-3;
}

/* What memory does not suffice for is left out. */
static void describe_plans(const plan_use_t *first, Blinkwire__Comm *described)
{
    size_t count = 0;
    for (const plan_use_t *use = first; use; use = use->next)
        count++;
    Blinkwire__PlanInUse *plans = calloc(count + 1, sizeof(*plans));
    described->plans = calloc(count + 1, sizeof(*described->plans));
    for (const plan_use_t *use = first; use && plans && described->plans && described->n_plans < count;
         use = use->next) {
        Blinkwire__PlanInUse *plan = &plans[described->n_plans];
        blinkwire__plan_in_use__init(plan);
        plan->collective = (char *)(uintptr_t)collective_op_name(use->opcode);
        plan->algorithm = (char *)(uintptr_t)blink_name_algorithm(use->algorithm);
        plan->protocol = (char *)(uintptr_t)blink_name_protocol(use->protocol);
        plan->transport = (char *)(uintptr_t)use->transport;
        plan->plan = use->plan;
        /* Relaxed: counters, each right by itself. */
        plan->bytes_least = atomic_load_explicit(&use->bytes_least, memory_order_relaxed);
        plan->bytes_most = atomic_load_explicit(&use->bytes_most, memory_order_relaxed);
        plan->op_count = atomic_load_explicit(&use->op_count, memory_order_relaxed);
        describe_times(use, plan);
        described->plans[described->n_plans++] = plan;
    }
    if (described->n_plans == 0) {
        free(plans);
        free(described->plans);
        described->plans = NULL;
    }
}

void described_free(Blinkwire__Comm *described)
{
    if (described->n_plans > 0)
        free(described->plans[0]); /* the first of one array */
    free(described->plans);
    free(described->devices);
    free(described);
}

Blinkwire__Comm *describe_roster(const roster_t *roster)
{
    static const char *const states[] = {[ROSTER_GATHERING] = "joining",
                                         [ROSTER_MEETING] = "meeting",
                                         [ROSTER_READY] = "ready",
                                         [ROSTER_ABORTED] = "aborted"};
    Blinkwire__Comm *described = calloc(1, sizeof(*described));
    uint32_t *by_rank = calloc(2 * roster->rank_count, sizeof(*by_rank));
    if (!described || !by_rank) {
        free(described);
        free(by_rank);
        return NULL;
    }
    blinkwire__comm__init(described);
    described->comm = roster->number;
    described->rank_count = roster->rank_count;
    described->devices = by_rank;
    described->clients = by_rank + roster->rank_count;
    described->n_devices = described->n_clients = roster->rank_count;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        const member_t *member = &roster->members[rank];
        /* A rank that has left keeps its device. */
        described->devices[rank] = member->number > 0 ? member->device : NO_DEVICE;
        described->clients[rank] = member->client ? member->client->number : 0;
    }
    described->state = (char *)(uintptr_t)states[roster->state];
    described->algorithm = (char *)(uintptr_t)blink_name_algorithm(roster->algorithm);
    described->uid = roster->tenant->uid;
    described->id = (char *)(uintptr_t)roster->id;
    described->name = (char *)(uintptr_t)roster->label;
    if (roster->engine) {
        engine_comm_stats_t stats = engine_comm_stats(roster->engine);
        described->op_count = stats.op_count;
        described->failed_op_count = stats.failed_op_count;
        described->oldest_op_s = (double)stats.oldest_us / 1e6;
        described->bytes = stats.payload_bytes;
        described->direct_bytes = stats.direct_bytes;
        described->staged_bytes = stats.staged_bytes;
        described->network = (char *)(uintptr_t)engine_comm_network(roster->engine);
        describe_plans(engine_comm_plan_uses(roster->engine), described);
    }
    return described;
}

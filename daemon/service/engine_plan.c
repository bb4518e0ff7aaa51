/*
 * Plans for the engine: made by the executor's workers so that a slow one delays only its communicator,
 * compiled, and cached for every communicator over the same devices.
 */
#include "service/engine_internal.h"

#include "base/log.h"
#include "error.h"
#include "names.h"
#include "plan/lane.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Programs that no communicator uses are kept up to this many in all. */
#define CACHE_PROGRAMS 64u

struct cached_program {
    cached_program_t *next;
    uint32_t uses; /* instances */
    blink_collective_t collective;
    blink_algorithm_t algorithm;
    uint32_t root;
    uint32_t rank_count;
    uint32_t *nodes;
    lane_program_t *program;
};

/* A plan being made for a communicator, which waits for it. */
typedef struct plan_job {
    mailbox_item_t item;
    engine_comm_t *comm;
    blink_collective_t collective;
    uint32_t root;
    lane_program_t *program;
    blink_result_t result;
    char text[BLINK_ERROR_TEXT_BYTES];
} plan_job_t;

static void cached_program_free(cached_program_t *cached)
{
    lane_program_destroy(cached->program);
    free(cached->nodes);
    free(cached);
}

static bool cached_matches(const cached_program_t *cached, const engine_comm_t *comm,
                           blink_collective_t collective, uint32_t root)
{
    return cached->collective == collective && cached->algorithm == comm->algorithm && cached->root == root &&
           cached->rank_count == comm->rank_count &&
           memcmp(cached->nodes, comm->nodes, comm->rank_count * sizeof(*comm->nodes)) == 0;
}

/* Found entries move to the front, so the unused ones at the end are the oldest. */
static cached_program_t *cache_find(engine_t *engine, const engine_comm_t *comm,
                                    blink_collective_t collective, uint32_t root)
{
    for (cached_program_t **link = &engine->cache; *link; link = &(*link)->next) {
        cached_program_t *cached = *link;
        if (!cached_matches(cached, comm, collective, root))
            continue;
        *link = cached->next;
        cached->next = engine->cache;
        engine->cache = cached;
        return cached;
    }
    return NULL;
}

static void cache_trim(engine_t *engine)
{
    uint32_t kept = 0;
    for (cached_program_t **link = &engine->cache; *link;) {
        cached_program_t *cached = *link;
        if (++kept > CACHE_PROGRAMS && cached->uses == 0) {
            *link = cached->next;
            cached_program_free(cached);
        } else {
            link = &cached->next;
        }
    }
}

void engine_free_cache(engine_t *engine)
{
    while (engine->cache) {
        cached_program_t *cached = engine->cache;
        engine->cache = cached->next;
        cached_program_free(cached);
    }
}

/* Takes the program over, also on failure. */
static blink_result_t cache_add(engine_comm_t *comm, const plan_job_t *job, cached_program_t **added)
{
    engine_t *engine = comm->engine;
    cached_program_t *cached = calloc(1, sizeof(*cached));
    uint32_t *nodes = calloc(comm->rank_count, sizeof(*nodes));
    if (!cached || !nodes) {
        free(cached);
        free(nodes);
        lane_program_destroy(job->program);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to keep a plan of %u ranks", comm->rank_count);
    }
    memcpy(nodes, comm->nodes, comm->rank_count * sizeof(*nodes));
    *cached = (cached_program_t){.next = engine->cache,
                                 .collective = job->collective,
                                 .algorithm = comm->algorithm,
                                 .root = job->root,
                                 .rank_count = comm->rank_count,
                                 .nodes = nodes,
                                 .program = job->program};
    engine->cache = cached;
    cache_trim(engine);
    *added = cached;
    return BLINK_OK;
}

static blink_result_t instance_create(engine_comm_t *comm, cached_program_t *cached,
                                      comm_instance_t **instance)
{
    comm_instance_t *created = calloc(1, sizeof(*created));
    if (!created)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a plan's instance");
    blink_result_t result =
        exec_instance_create(comm->engine->config.exec, cached->program, comm->link_bytes, &created->exec);
    if (result != BLINK_OK) {
        free(created);
        return result;
    }
    created->collective = cached->collective;
    created->root = cached->root;
    created->program = cached;
    created->next = comm->instances;
    comm->instances = created;
    cached->uses++;
    *instance = created;
    return BLINK_OK;
}

void comm_free_instances(engine_comm_t *comm)
{
    while (comm->instances) {
        comm_instance_t *instance = comm->instances;
        comm->instances = instance->next;
        exec_instance_destroy(instance->exec);
        instance->program->uses--;
        free(instance);
    }
}

double instance_rate_GBps(const comm_instance_t *instance)
{
    return instance->program->program->rate_GBps;
}

/* ---- planning ---- */

static blink_result_t plan_and_compile(plan_job_t *job)
{
    const engine_comm_t *comm = job->comm;
    const topo_t *topo = comm->engine->config.topo;
    plan_request_t request = {.collective = job->collective,
                              .algorithm = comm->algorithm,
                              .rank_node = comm->nodes,
                              .rank_count = comm->rank_count,
                              .root = job->root};
    plan_t *plan = NULL;
    BLINK_TRY(plan_create(topo, &request, &plan));
    blink_result_t result = lane_compile(topo, plan, &job->program);
    LOG_DEBUG("communicator %u: %s planned in %.1f ms: %s, %u channels, %.1f GB/s of at most %.1f",
              comm->comm, blink_name_collective(job->collective), plan->plan_ms,
              blink_name_algorithm(plan->algorithm), plan->channel_count, plan->rate_GBps, plan->bound_GBps);
    plan_destroy(plan);
    return result;
}

static void plan_job_return(mailbox_item_t *item)
{
    plan_job_t *job = CONTAINER_OF(item, plan_job_t, item);
    engine_comm_t *comm = job->comm;
    cached_program_t *cached = NULL;
    comm_instance_t *instance = NULL;
    if (job->result == BLINK_OK)
        job->result = cache_add(comm, job, &cached);
    if (cached)
        job->result = instance_create(comm, cached, &instance);
    if (job->result != BLINK_OK && job->text[0] == '\0')
        snprintf(job->text, sizeof(job->text), "%s", blink_error_text());
    comm_planned(comm, job->result, job->text, instance);
    free(job);
}

static void plan_job_run(void *argument)
{
    plan_job_t *job = argument;
    job->result = plan_and_compile(job);
    if (job->result != BLINK_OK)
        snprintf(job->text, sizeof(job->text), "%s", blink_error_text());
    plan_thread_release();
    mailbox_post(&job->comm->engine->mailbox, &job->item);
}

blink_result_t comm_find_instance(engine_comm_t *comm, blink_collective_t collective, uint32_t root,
                                  comm_instance_t **instance)
{
    for (comm_instance_t *own = comm->instances; own; own = own->next) {
        if (own->collective == collective && own->root == root) {
            *instance = own;
            return BLINK_OK;
        }
    }
    cached_program_t *cached = cache_find(comm->engine, comm, collective, root);
    if (cached)
        return instance_create(comm, cached, instance);
    plan_job_t *job = calloc(1, sizeof(*job));
    if (!job)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to plan");
    job->item.run = plan_job_return;
    job->comm = comm;
    job->collective = collective;
    job->root = root;
    *instance = NULL;
    blink_result_t result = exec_host_post(comm->engine->config.exec, plan_job_run, job);
    if (result != BLINK_OK)
        free(job);
    return result;
}

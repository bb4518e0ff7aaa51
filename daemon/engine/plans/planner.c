#include "engine/plans/planner.h"

#include "base/clock.h"
#include "engine/plans/make.h"
#include "engine/plans/plans.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A second one so that a tenant whose plans are slow does not take the whole planner for as long as each
 * lasts. */
#define PLANNER_THREADS 2u

struct planner {
    /* The engine thread's. */
    list_t tenants; /* tenant_t.of_planner: that have plans to be made, and none being made */
    uint32_t free;  /* threads that have nothing to do */
    /* Of all threads, under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    list_t handed; /* planner_job_t.link */
    bool trim, stopping;
    uint32_t thread_count, started;
    pthread_t threads[PLANNER_THREADS];
    uint32_t round;                     /* counts planner_turns() */
    uint32_t came_by[PLANNER_THREADS];  /* the last round that each thread has seen */
    uint64_t since_ns[PLANNER_THREADS]; /* when each began what it is at; 0: nothing */
};

/* ---- the threads ---- */

/* One thing of what there is to do, outside the lock. */
static void planner_work(planner_t *planner, uint32_t thread)
{
    planner->since_ns[thread] = clock_ns();
    list_t *job = list_take_first(&planner->handed);
    planner->trim &= job != NULL;
    pthread_mutex_unlock(&planner->mutex);
    if (job)
        plan_make(CONTAINER_OF(job, cached_program_t, job.link));
    else
        malloc_trim(0);
    pthread_mutex_lock(&planner->mutex);
    planner->since_ns[thread] = 0;
}

static void *planner_main(void *argument)
{
    planner_t *planner = argument;
    pthread_mutex_lock(&planner->mutex);
    uint32_t thread = planner->started++;
    while (!planner->stopping) {
        planner->came_by[thread] = planner->round;
        if (!list_is_empty(&planner->handed) || planner->trim)
            planner_work(planner, thread);
        else
            pthread_cond_wait(&planner->changed, &planner->mutex);
    }
    pthread_mutex_unlock(&planner->mutex);
    return NULL;
}

blink_result_t planner_create(planner_t **created)
{
    planner_t *planner = calloc(1, sizeof(*planner));
    if (!planner)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for the planner");
    list_init(&planner->tenants);
    list_init(&planner->handed);
    pthread_mutex_init(&planner->mutex, NULL);
    pthread_cond_init(&planner->changed, NULL);
    for (; planner->thread_count < PLANNER_THREADS; planner->thread_count++) {
        pthread_t *thread = &planner->threads[planner->thread_count];
        errno = pthread_create(thread, NULL, planner_main, planner);
        if (errno != 0) {
            blink_result_t result = BLINK_FAIL_ERRNO("start a planner thread");
            planner_destroy(planner);
            return result;
        }
        pthread_setname_np(*thread, "blinkd-planner");
    }
    planner->free = PLANNER_THREADS;
    *created = planner;
    return BLINK_OK;
}

void planner_destroy(planner_t *planner)
{
    if (!planner)
        return;
    pthread_mutex_lock(&planner->mutex);
    planner->stopping = true;
    pthread_cond_broadcast(&planner->changed);
    pthread_mutex_unlock(&planner->mutex);
    for (uint32_t i = 0; i < planner->thread_count; i++)
        pthread_join(planner->threads[i], NULL);
    pthread_cond_destroy(&planner->changed);
    pthread_mutex_destroy(&planner->mutex);
    free(planner);
}

static bool thread_turns(const planner_t *planner, uint32_t thread, uint64_t plan_ns)
{
    uint64_t since_ns = planner->since_ns[thread];
    return planner->came_by[thread] == planner->round || (since_ns > 0 && clock_ns() - since_ns < plan_ns);
}

bool planner_turns(planner_t *planner, double plan_s)
{
    uint32_t thread = 0;
    pthread_mutex_lock(&planner->mutex);
    while (thread < planner->thread_count && thread_turns(planner, thread, (uint64_t)(plan_s * 1e9)))
        thread++;
    bool all = thread == planner->thread_count;
    if (all) {
        planner->round++;
        pthread_cond_broadcast(&planner->changed);
    }
    pthread_mutex_unlock(&planner->mutex);
    return all;
}

void planner_trim(planner_t *planner)
{
    pthread_mutex_lock(&planner->mutex);
    planner->trim = true;
    pthread_cond_signal(&planner->changed);
    pthread_mutex_unlock(&planner->mutex);
}

/* ---- whose turn it is ---- */

/* Put a tenant at the end of the rotation if it has a plan to be made and none being made; else take it out.
 */
static void place(planner_t *planner, tenant_t *tenant)
{
    bool waits = !list_is_empty(&tenant->plans) && tenant->plans_handed == 0;
    if (!waits)
        list_remove(&tenant->of_planner);
    else if (list_is_empty(&tenant->of_planner))
        list_append(&planner->tenants, &tenant->of_planner);
}

/* Give free threads the next plans. */
static void hand_over(planner_t *planner)
{
    tenant_t *tenant;
    while (planner->free > 0 && (tenant = LIST_FIRST(&planner->tenants, tenant_t, of_planner))) {
        planner_job_t *job = CONTAINER_OF(list_take_first(&tenant->plans), planner_job_t, link);
        job->handed = true;
        tenant->plans_handed++;
        planner->free--;
        list_remove(&tenant->of_planner);
        pthread_mutex_lock(&planner->mutex);
        list_append(&planner->handed, &job->link);
        pthread_cond_signal(&planner->changed);
        pthread_mutex_unlock(&planner->mutex);
    }
}

void planner_queue(planner_t *planner, cached_program_t *cached, tenant_t *tenant)
{
    cached->job = (planner_job_t){.tenant = tenant};
    list_init(&cached->job.link);
    list_append(&tenant->plans, &cached->job.link);
    place(planner, tenant);
    hand_over(planner);
}

/* Another tenant takes over, or nobody. */
static void set_tenant(planner_t *planner, planner_job_t *job, tenant_t *tenant)
{
    tenant_t *before = job->tenant;
    job->tenant = tenant;
    if (job->handed) {
        before->plans_handed--;
        if (tenant)
            tenant->plans_handed++;
    } else {
        list_remove(&job->link);
        if (tenant)
            list_append(&tenant->plans, &job->link);
    }
    place(planner, before);
    if (tenant)
        place(planner, tenant);
    hand_over(planner);
}

void planner_share(planner_t *planner, cached_program_t *cached, tenant_t *tenant)
{
    if (!cached->job.handed && cached->job.tenant != tenant && list_is_empty(&tenant->plans))
        set_tenant(planner, &cached->job, tenant);
}

bool planner_leave(planner_t *planner, cached_program_t *cached, tenant_t *heir)
{
    if (cached->job.tenant != heir)
        set_tenant(planner, &cached->job, heir);
    return !heir && !cached->job.handed;
}

void planner_made(planner_t *planner, cached_program_t *cached)
{
    planner->free++;
    if (cached->job.tenant)
        set_tenant(planner, &cached->job, NULL);
    else
        hand_over(planner);
}

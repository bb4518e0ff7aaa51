/* In which order `blinkctl top` has its rows. */
#include "ctl/top/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double top_link_busy(const top_link_t *pair)
{
    double there = pair->there->utilization, back = pair->back ? pair->back->utilization : 0;
    return there > back ? there : back;
}

static uint64_t bytes_of(const top_link_t *pair)
{
    return pair->there->bytes + (pair->back ? pair->back->bytes : 0);
}

static int more(double one, double other)
{
    return (one < other) - (one > other);
}

static int job_by_name(const void *one, const void *other)
{
    const top_job_t *a = one, *b = other;
    int by_job = strcmp(a->job, b->job);
    return by_job ? by_job : (a->uid > b->uid) - (a->uid < b->uid);
}

static int job_by_rate(const void *one, const void *other)
{
    const top_job_t *a = one, *b = other;
    int by_rate = more(a->ops_per_s, b->ops_per_s);
    return by_rate ? by_rate : job_by_name(one, other);
}

static int job_by_total(const void *one, const void *other)
{
    const top_job_t *a = one, *b = other;
    int by_total = more((double)a->op_count, (double)b->op_count);
    return by_total ? by_total : job_by_name(one, other);
}

static int comm_by_number(const top_comm_t *one, const top_comm_t *other)
{
    return (one->comm->comm > other->comm->comm) - (one->comm->comm < other->comm->comm);
}

static int comm_by_name(const void *one, const void *other)
{
    const top_comm_t *a = one, *b = other;
    int by_name = strcmp(a->comm->name, b->comm->name);
    return by_name ? by_name : comm_by_number(a, b);
}

static int comm_by_rate(const void *one, const void *other)
{
    const top_comm_t *a = one, *b = other;
    int by_payload = more(a->payload_GBps, b->payload_GBps);
    int by_rate = by_payload ? by_payload : more(a->ops_per_s, b->ops_per_s);
    return by_rate ? by_rate : comm_by_number(a, b);
}

static int comm_by_total(const void *one, const void *other)
{
    const top_comm_t *a = one, *b = other;
    int by_total = more((double)a->comm->bytes, (double)b->comm->bytes);
    return by_total ? by_total : comm_by_number(a, b);
}

/* As topologies order them. */
static int link_by_name(const void *one, const void *other)
{
    const top_link_t *a = one, *b = other;
    return (a->there->index > b->there->index) - (a->there->index < b->there->index);
}

/* Links that are as busy as far as one can see stay where they are. */
static int link_by_rate(const void *one, const void *other)
{
    int by_rate = more(round(100 * top_link_busy(one)), round(100 * top_link_busy(other)));
    return by_rate ? by_rate : link_by_name(one, other);
}

static int link_by_total(const void *one, const void *other)
{
    int by_total = more((double)bytes_of(one), (double)bytes_of(other));
    return by_total ? by_total : link_by_name(one, other);
}

typedef int compare_t(const void *one, const void *other);

/* A list without items has no array, which qsort() demands. */
static void sort_items(void *items, size_t count, size_t bytes, compare_t *compare)
{
    if (count > 0)
        qsort(items, count, bytes, compare);
}

void top_sample_sort(top_sample_t *sample, top_sort_t sort)
{
    static compare_t *const jobs[] = {job_by_rate, job_by_total, job_by_name};
    static compare_t *const comms[] = {comm_by_rate, comm_by_total, comm_by_name};
    static compare_t *const links[] = {link_by_rate, link_by_total, link_by_name};
    sort_items(sample->jobs.items, sample->jobs.count, sizeof(top_job_t), jobs[sort]);
    sort_items(sample->comm_rows.items, sample->comm_rows.count, sizeof(top_comm_t), comms[sort]);
    sort_items(sample->pairs.items, sample->pairs.count, sizeof(top_link_t), links[sort]);
}

/*
 * What `blinkctl top` knows at one moment: the daemon's answers, and what follows from them and from those of
 * the moment before.
 */
#ifndef BLINK_TOP_SAMPLE_H
#define BLINK_TOP_SAMPLE_H

#include "ctl/ctl.h"

#include "base/vec.h"
#include "tools/query.h"

/* Processes of one user that name the same job. */
typedef struct top_job {
    uint32_t uid;
    const char *job; /* borrowed; empty: they name none */
    uint32_t process_count;
    uint32_t member_count; /* of communicators */
    uint64_t op_count;
    uint64_t registered_bytes;
    double ops_per_s;
} top_job_t;

#define TOP_AWAITS_BYTES 32

typedef struct top_comm {
    const Blinkwire__Comm *comm; /* borrowed */
    double ops_per_s;
    double payload_GBps;
    /* The plan by which its latest ops ran; NULL: none yet. Times are of the ops since the sample before, or
     * of all if there were none; 0: not known. */
    const Blinkwire__PlanInUse *latest;
    double achieved_us;
    double predicted_us;
    char awaits[TOP_AWAITS_BYTES]; /* "2, 5": ranks that its oldest op waits for, if it does for long */
} top_comm_t;

/* A link and the one in the other direction. */
typedef struct top_link {
    const Blinkwire__Link *there; /* borrowed */
    const Blinkwire__Link *back;  /* NULL: there is none */
} top_link_t;

typedef enum top_sort { TOP_BY_RATE, TOP_BY_TOTAL, TOP_BY_NAME, TOP_SORT_COUNT } top_sort_t;

typedef struct top_sample {
    double at_s; /* of a clock that only goes forward */
    Blinkwire__Reply *status, *clients, *comms, *links;
    Blinkwire__Reply *events; /* the newest, first; NULL: the daemon is older than events are */
    VEC(top_job_t) jobs;
    VEC(top_comm_t) comm_rows;
    VEC(top_link_t) pairs;
} top_sample_t;

/* Ask the daemon, and compare with the sample before, or NULL. top_sample_free() it after success. Errors: as
 * query_ask_for(), NO_MEMORY. */
blink_result_t top_sample_take(const ctl_options_t *options, query_t *query, const top_sample_t *before,
                               top_sample_t *sample);
void top_sample_free(top_sample_t *sample);

/* Of what the sample has of events. */
static inline size_t top_event_count(const top_sample_t *sample)
{
    return sample->events ? sample->events->query->n_events : 0;
}

/* Most first, or by name: users and jobs, communicators, ends of links. */
void top_sample_sort(top_sample_t *sample, top_sort_t sort);

/* What the busier direction of a pair moves, and what it can. */
double top_link_busy(const top_link_t *pair);

/* "blink-top/1" */
json_t *top_sample_pack(const top_sample_t *sample);

#endif

/*
 * What the launcher that started this process has told it: which rank it is of how many, and how the ranks
 * find each other. Launchers tell by environment variables, each by its own.
 */
#ifndef CLIENT_LAUNCH_H
#define CLIENT_LAUNCH_H

#include "error.h"

#include <stdint.h>

#define LAUNCH_TEXT_BYTES 512

/** How ranks come to one id. The first three need no word between ranks; the rest is how they have one. */
typedef enum launch_way {
    LAUNCH_ID,    /* they were given it: `where` is its text */
    LAUNCH_HERE,  /* all are on this host: it follows from `job` */
    LAUNCH_HOST,  /* `where` is a host, maybe with a port, whose daemon is the home: the rest follows from
                     `job` */
    LAUNCH_FILE,  /* `where` is a path that all see */
    LAUNCH_STORE, /* `where` is the host and port of torchrun's store; `job` is the key */
    LAUNCH_PMI,   /* `where` is the descriptor of PMI-1 */
    LAUNCH_PMIX
} launch_way_t;

typedef struct launch {
    const char *launcher; /* for sentences */
    uint32_t rank, rank_count;
    int local_rank; /* among the ranks of this host; -1: not told */
    launch_way_t way;
    char where[LAUNCH_TEXT_BYTES];
    char job[LAUNCH_TEXT_BYTES]; /* the same for all ranks of the job, and for no other job that is under way
                                  */
} launch_t;

/** Which rank this is: `rank`, `rank_count` and `local_rank` are set, and `launcher`. Errors: NOT_FOUND
 * (there are no such variables), INVALID_ARGUMENT (one has no such value). */
blink_result_t launch_find_place(launch_t *launch);

/** The same, and the way. Errors: those; INVALID_ARGUMENT (a variable is missing or too long). */
blink_result_t launch_find(launch_t *launch);

/** Which rank this is, as the launcher has written it; NULL: there is no launcher. */
const char *launch_rank(void);

/** What the job is called where people look for it, by the scheduler or by its user; "": not known. */
void launch_name_job(char job[LAUNCH_TEXT_BYTES]);

#endif

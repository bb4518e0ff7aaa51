/*
 * What blinkrun was asked to do.
 */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_RANKS_MAX 4096u
#define RUN_HOSTS_MAX 1024u

/* Exit statuses of its own; others are those of ranks. */
enum { RUN_EXIT_FAILED = 1, RUN_EXIT_USAGE = 2, RUN_EXIT_SIGNAL = 128 };

/* Of a job's name as the user gives it, and of the whole name: that, a dash and a random number, as long as
 * the daemon shows it. */
#define RUN_NAME_BYTES   31
#define RUN_RANDOM_BYTES 8
#define RUN_JOB_BYTES    64

typedef struct run_options {
    uint32_t rank_count; /* of the job */
    uint32_t host_count; /* 0: all ranks are started here */
    char *hosts[RUN_HOSTS_MAX];
    const char *ssh; /* the command with its arguments */
    bool has_prefix;
    bool keeps_going; /* when a rank has failed */
    char **program;   /* with its arguments, and NULL at the end */

    /* The ranks that this process itself starts: all, or those of one host for a blinkrun on another one,
     * which then talks over standard input (start.h). */
    bool is_node;
    uint32_t first_rank, local_count;
    const char *rendezvous;
    char name[RUN_NAME_BYTES]; /* "": the program's */
    char job[RUN_JOB_BYTES];
} run_options_t;

/** Parse and check. Exits on bad usage and after --help, as argp does. */
void run_parse_options(int argc, char **argv, run_options_t *options);

#endif

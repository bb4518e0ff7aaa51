/*
 * Lists of hosts as people write them, and Slurm.
 */
#ifndef RUN_HOSTS_H
#define RUN_HOSTS_H

#include "run/options.h"

#include <argp.h>

/** Add the hosts of a list: names with commas between them, in which numbers and ranges in brackets stand for
 * as many names: "a,node[0-3,7]", "r[1-2]n[08-11]". A number has as many digits as the first of its range.
 * Exits with what is wrong, as argp_error() does. */
void run_take_hosts(struct argp_state *state, run_options_t *options, const char *list);

/** After which there are none. */
void run_free_hosts(run_options_t *options);

#endif

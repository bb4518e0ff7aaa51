/*
 * Showing something over and over: on a terminal page by page, below a header that stays.
 */
#ifndef CTL_WATCH_H
#define CTL_WATCH_H

#include "ctl/host.h"

/* The least time between two looks, and the usual one. */
#define WATCH_LEAST_S 0.05
#define WATCH_USUAL_S 1.0

/** Show again every so many seconds until a signal, the key q or a failure. On a terminal the first
 * `header_lines` lines stay, and keys turn the pages of the rest. Elsewhere an empty line follows what is
 * shown, unless it is JSON. Errors: those of `show`. */
blink_result_t watch(const ctl_options_t *options, double seconds, uint32_t header_lines, host_show_t *show,
                     void *context);

#endif

/*
 * What blinkrun starts: ranks on this host, or on each of other hosts a blinkrun that starts that host's
 * ranks. That one's standard input is the wire by which it hears of signals, a byte each, and by whose end it
 * hears that this one is gone.
 */
#ifndef RUN_START_H
#define RUN_START_H

#include "run/options.h"
#include "run/watch.h"

/** Start all children of watch->children, of which there are watch->child_count. Errors: those of
 * child_start(); who has been started is running. */
blink_result_t start_all(const run_options_t *options, watch_t *watch);

#endif

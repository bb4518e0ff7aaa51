/*
 * Waiting for children: passing on what they say, signals, and the end of all when one has failed.
 */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "run/child.h"

#include <stdint.h>

typedef struct watch {
    child_t *children;
    uint32_t child_count;
    int signals; /* a signalfd of SIGCHLD and of those that ask to end, which are blocked */
    int control; /* where signals come as bytes, and whose end asks to end; -1: nowhere */
    int caught;  /* the one that asked to end; 0: none did */
} watch_t;

/** Block the signals. Children get none of that. Errors: SYSTEM. */
blink_result_t watch_open(watch_t *watch);
void watch_close(watch_t *watch);

/** Until all children have ended: the exit status of the first that failed, which has been named on standard
 * error, or 0. */
int watch_run(watch_t *watch);

/** End children that have been started, because others cannot be. */
void watch_end(watch_t *watch);

#endif

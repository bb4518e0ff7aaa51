/*
 * Waiting for children: passing on what they say, signals, and the end of all when one has failed, unless the
 * others are to go on.
 */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "run/child.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct watch {
    child_t *children;
    uint32_t child_count;
    int signals;       /* a signalfd of SIGCHLD and of those that ask to end, which are blocked */
    int control;       /* where signals come as bytes, and whose end asks to end; -1: nowhere */
    int caught;        /* the one that asked to end; 0: none did */
    bool keeps_going;  /* when a child has failed */
    lines_once_t once; /* what this host's ranks say on standard error once for all */
} watch_t;

/** Block the signals. Children get none of that. Errors: SYSTEM. */
blink_result_t watch_open(watch_t *watch);
void watch_close(watch_t *watch);

/** Until all children have ended: the exit status of the first that failed, or 0. If the others were ended
 * then, and one of them had been by a signal that was not sent from here, that one counts: the first failed
 * of its end. Who has failed by itself has been named on standard error. */
int watch_run(watch_t *watch);

/** End children that have been started, because others cannot be. */
void watch_end(watch_t *watch);

#endif

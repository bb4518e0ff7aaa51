/*
 * One child of blinkrun: a rank, or what runs a blinkrun on another host. Each is in a process group of its
 * own, so that what it starts is reached too, and what a terminal sends reaches blinkrun alone.
 */
#ifndef RUN_CHILD_H
#define RUN_CHILD_H

#include "error.h"
#include "run/lines.h"

#include <sys/types.h>

typedef struct child {
    pid_t pid;    /* 0: it has ended */
    bool is_host; /* it runs a blinkrun on another host, whose standard input is `control`; else /dev/null */
    int control;  /* where signals for that one are written to; -1: nowhere */
    char name[280]; /* "rank 3", "host n1" */
    lines_t out, err;
} child_t;

/** What a child is to be. */
typedef struct child_config {
    char **arguments;   /* of execvp() */
    char **environment; /* what is added, "NAME=VALUE"; NULL at the end */
} child_config_t;

/** Start a zeroed child, whose name, prefixes and is_host are set. Errors: NOT_FOUND (the program cannot be
 * executed; names it), SYSTEM. */
blink_result_t child_start(child_t *child, const child_config_t *config);

/** Send a signal: to the process group, or over the control. */
void child_signal(child_t *child, int number);

/** Whether the child has ended; then what it has left running is killed, all its output is passed on, and
 * *status is as wait() gives it. */
bool child_reap(child_t *child, int *status);

/** Kill it and what it has started, and wait for it. */
void child_kill(child_t *child);

#endif

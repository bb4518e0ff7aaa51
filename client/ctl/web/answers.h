/*
 * What `blinkctl web` answers: texts made of what the daemon says, for reading only. For one thread.
 */
#ifndef BLINK_WEB_ANSWERS_H
#define BLINK_WEB_ANSWERS_H

#include "ctl/ctl.h"
#include "ctl/top/sample.h"

typedef struct answers {
    const ctl_options_t *options; /* borrowed */
    query_t query;
    bool connected;
    top_sample_t sample; /* the latest; rates are of it and the one before */
} answers_t;

/* Each makes *text, which is the caller's to free(). Errors: CONNECT and others of query_ask_for() (the
 * daemon is asked anew the next time), NO_MEMORY. */

/** blink-top/1. However many ask, the daemon is asked twice in a second at most. */
blink_result_t answers_top(answers_t *answers, char **text);

/** The topology as a picture: the daemon's, or that of a communicator's hosts (0: none). Its links have their
 * ends as data-from and data-to. */
blink_result_t answers_topology(answers_t *answers, uint32_t comm, char **text);

/** The plan of a communicator's latest kind of op as a picture, planned here. Errors also: NOT_FOUND (no such
 * communicator, or no op yet), UNSUPPORTED (ranks on other hosts). */
blink_result_t answers_plan(answers_t *answers, uint32_t comm, char **text);

void answers_fini(answers_t *answers);

#endif

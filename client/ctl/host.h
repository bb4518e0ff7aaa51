/*
 * Other hosts' daemons that are to be asked: one that is not there, and all of them.
 */
#ifndef BLINK_CTL_HOST_H
#define BLINK_CTL_HOST_H

#include "ctl.h"

/* What came of a question to options->host, or to this host's daemon if that is NULL: if there is no session
 * with that host, the sentence is made to say which hosts there are, and which one may be meant. Returns the
 * result. */
blink_result_t host_result(const ctl_options_t *options, blink_result_t result);

/* Show something of the daemon that options->host names; the context is the caller's. */
typedef blink_result_t host_show_t(const ctl_options_t *options, void *context);

/* Call `show` with the options; or, if they name the host "all", once for this host and for each other one
 * that its daemon knows, and put the host's name before each line that is shown, or JSON into an object by
 * host, blink-by-host/1. One for which that fails has the sentence there. Errors: as `show`; of all hosts
 * NOT_FOUND (the daemon knows no other host) or PEER_LOST (so many did not answer). */
blink_result_t host_each(const ctl_options_t *options, host_show_t *show, void *context);

/* Catch what `show` prints on standard output. Errors: NO_MEMORY, or as `show`. *shown is the caller's to
 * free and may be NULL. */
blink_result_t host_catch(const ctl_options_t *options, host_show_t *show, void *context, char **shown);

bool host_is_all(const ctl_options_t *options);

#endif

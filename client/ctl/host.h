/*
 * Another host's daemon that is to be asked, and is not there.
 */
#ifndef BLINK_CTL_HOST_H
#define BLINK_CTL_HOST_H

#include "ctl.h"

/* What came of a question to options->host, or to this host's daemon if that is NULL: if there is no session
 * with that host, the sentence is made to say which hosts there are, and which one may be meant. Returns the
 * result. */
blink_result_t host_result(const ctl_options_t *options, blink_result_t result);

#endif

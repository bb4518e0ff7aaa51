/* The way of every submission, for the functions of the interface that are not in collective.c. */
#ifndef CLIENT_COLLECTIVE_H
#define CLIENT_COLLECTIVE_H

#include "api/arguments.h"

/** Check a call and submit it, or keep it for the end of this thread's group. */
blink_result_t collective_submit(const call_t *call);

#endif

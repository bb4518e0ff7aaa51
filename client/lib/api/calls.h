/* The way of every submission, for the functions of the interface that are not in calls.c. */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include "api/arguments.h"

/** Check a call and submit it, or keep it for the end of this thread's group. */
blink_result_t call_submit(const call_t *call);

#endif

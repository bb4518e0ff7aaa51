/* Environment variables, as the client library and the tools read them. */
#ifndef BLINK_ENVIRONMENT_H
#define BLINK_ENVIRONMENT_H

#include "error.h"

/** The value of a variable; NULL if there is none or it is empty. A program that has been given privileges by
 * being started (set-user-ID and the like) has none at all: whoever starts it must not steer it. */
const char *environment_get(const char *name);

/** The seconds that a variable says, with a decimal point in any locale; without it *seconds stays as it is.
 * Errors: INVALID_ARGUMENT (names the variable, its value and the bounds), NO_MEMORY. */
blink_result_t environment_seconds(const char *name, double least_s, double most_s, double *seconds);

#endif

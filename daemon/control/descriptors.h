/*
 * Descriptors that the daemon has none left of.
 */
#ifndef BLINK_CONTROL_DESCRIPTORS_H
#define BLINK_CONTROL_DESCRIPTORS_H

#include "error.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

/* So many of the process's descriptors, or an eighth of them, are for what those need who are connected. */
#define DESCRIPTORS_RESERVED 64u

/* Whether a descriptor that has just been made for somebody new is among the last. The kernel gives the
 * lowest number that is free. */
static inline bool descriptors_are_scarce(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    rlim_t reserved = limit.rlim_cur / 8 < DESCRIPTORS_RESERVED ? limit.rlim_cur / 8 : DESCRIPTORS_RESERVED;
    return (rlim_t)fd >= limit.rlim_cur - reserved;
}

/* Whether an errno says that there is no descriptor left, of the process's or of the machine's. */
static inline bool descriptors_ran_out(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* Fail after a call, named in `what`, that needed a descriptor: QUOTA if there was none left, else SYSTEM
 * with errno's text. */
static inline blink_result_t descriptors_fail(const char *what)
{
    return descriptors_ran_out(errno)
               ? BLINK_FAIL(BLINK_ERR_QUOTA,
                            "%s: the daemon has no descriptors left; LimitNOFILE= of blinkd.service raises "
                            "their number",
                            what)
               : BLINK_FAIL_ERRNO("%s", what);
}

#endif

/*
 * Pages of shared memory that the daemon will use. The kernel charges a page to the cgroup of the process
 * that touches it first, so the daemon touches none that is not there.
 */
#ifndef BLINK_CLIENT_POPULATE_H
#define BLINK_CLIENT_POPULATE_H

#include "error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Have all pages of a shared mapping. Errors: SYSTEM (there is no memory for them). */
static inline blink_result_t populate(void *address, size_t bytes)
{
    if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0)
        return BLINK_OK;
    if (errno != EINVAL)
        return BLINK_FAIL_ERRNO("have the pages of %zu bytes of shared memory", bytes);
    /* A kernel before 5.14, or memory that is mapped for reading alone. */
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page_bytes)
        (void)((volatile const char *)address)[at];
    return BLINK_OK;
}

#endif

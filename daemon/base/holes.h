/*
 * Holes: pages that shared memory could have but has not, because nobody has populated them or because they
 * were punched out. The kernel fills a hole for whoever touches it, and charges the page to that process's
 * cgroup. What lies in memory of clients must be the clients' to pay: in a range of holes_keep() an access of
 * this process to a hole ends with SIGBUS, and in a system call with EFAULT, and fills nothing.
 */
#ifndef BLINK_HOLES_H
#define BLINK_HOLES_H

#include "error.h"

#include <stddef.h>

/* The descriptor by which this process keeps holes: the caller's to close, which lets all ranges go. Errors:
 * SYSTEM (a kernel before 5.11 or one built without userfaultfd, or a filter of system calls). */
blink_result_t holes_open(int *holes);

/* Keep the holes of a range that begins with a page, until it is unmapped or the descriptor closed. It is
 * mapped memory of a memfd; its last page counts whole. Without the descriptor (-1) nothing is done. Errors:
 * SYSTEM. */
blink_result_t holes_keep(int holes, void *base, size_t bytes);

#endif

/*
 * Large buffers: pages of their own, which go back to the system at once, and of which no core file has a
 * copy.
 */
#ifndef BLINK_PAGES_H
#define BLINK_PAGES_H

#include <stddef.h>

/* Zeroed, and aligned to a page. NULL: no memory. */
void *pages_take(size_t bytes);

/* As many bytes as were taken; NULL is ignored. */
void pages_give(void *pages, size_t bytes);

/* Leave a mapping, of a tenant's memory say, out of core files. */
void pages_keep_from_dumps(void *pages, size_t bytes);

#endif

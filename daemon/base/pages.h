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

/* Where pages come from. */
typedef struct pages_source {
    void *(*take)(void *context, size_t bytes); /* aligned to a page; NULL: no memory */
    void (*give)(void *context, void *pages, size_t bytes);
    void *context;
} pages_source_t;

/* pages_take() and pages_give(). */
pages_source_t pages_of_system(void);

/* Leave a mapping, of a tenant's memory say, out of core files. */
void pages_keep_from_dumps(void *pages, size_t bytes);

#endif

/*
 * How fast each link is going: the byte counters sampled four times a second over a sliding window of one
 * second, but only while something moves or somebody looks, so that an idle daemon sleeps.
 */
#ifndef BLINK_CONTROL_LINKS_H
#define BLINK_CONTROL_LINKS_H

#include "control/asker.h"

/* link_bytes is borrowed: for each link, a counter of the bytes that have crossed the link. Errors:
 * NO_MEMORY. */
blink_result_t links_create(control_t *control, const _Atomic uint64_t *link_bytes, links_t **links);

/* After the loop is closed. NULL is ignored. */
void links_destroy(links_t *links);

/* Something may move from now on. */
void links_wake(links_t *links);

/* Answer a query for a page of links: a sampling interval later if nothing has been sampled yet. */
void links_query(links_t *links, const asker_t *asker, uint64_t page);

/* Who asks with this context has gone: it is not answered any more. */
void links_forget(links_t *links, const void *context);

#endif

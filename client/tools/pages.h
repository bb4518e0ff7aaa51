/*
 * One answer out of the pages in which the daemon gives it.
 */
#ifndef BLINK_PAGES_H
#define BLINK_PAGES_H

#include "error.h"

#include "blink.pb-c.h"

/** Move all that is in a page to the end of the answer. Errors: NO_MEMORY. */
blink_result_t pages_append(Blinkwire__QueryReply *answer, Blinkwire__QueryReply *page);

/** All pages are there: objects are sorted, newest first and tenants by user, each is left once, and the uses
 * of a link are with the link. */
void pages_settle(Blinkwire__QueryReply *answer);

#endif

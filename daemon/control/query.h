/*
 * What tools ask: answered in pages, from the asker's own objects, or from all of them if the asker may see
 * those.
 */
#ifndef BLINK_CONTROL_QUERY_H
#define BLINK_CONTROL_QUERY_H

#include "blink.pb-c.h"
#include "control/asker.h"

/* Answer now or, if links have to be watched first, later. */
void query_answer(const asker_t *asker, const Blinkwire__Query *query);

#endif

/*
 * An event of the daemon as JSON, the same for all commands that print events.
 */
#ifndef CTL_EVENT_H
#define CTL_EVENT_H

#include "ctl/ctl.h"

/** An element of the list "events" of docs/json.md; NULL: no memory. */
json_t *event_pack(const Blinkwire__Event *event);

#endif

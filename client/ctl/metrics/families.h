/*
 * Which metrics there are, and how each follows from what the daemon answers. docs/observe.md lists them.
 */
#ifndef CTL_FAMILIES_H
#define CTL_FAMILIES_H

#include "ctl/metrics/exposition.h"

#include "blink.pb-c.h"
#include "error.h"

/* What the daemon has said of everything, one kind of question each. All is borrowed. */
typedef struct answers {
    const Blinkwire__StatusReply *status;
    const Blinkwire__QueryReply *devices, *links, *comms, *clients, *tenants, *hosts;
} answers_t;

/** Write the metrics. Of communicators, tenants and other hosts `most` are shown of each: those that have
 * moved most, and of hosts those without a session first. Errors: NO_MEMORY. */
blink_result_t families_write(exposition_t *exposition, const answers_t *answers, size_t most);

#endif

/* blinkctl explain --comm. */
#ifndef CTL_EXPLAIN_COMM_H
#define CTL_EXPLAIN_COMM_H

#include "ctl.h"

/** Print what a live communicator's ops have run by. Errors: NOT_FOUND, and those of asking the daemon. */
blink_result_t explain_comm(const ctl_options_t *options, uint32_t comm);

#endif

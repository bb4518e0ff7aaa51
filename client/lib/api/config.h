/* What communicators are configured with. */
#ifndef CLIENT_CONFIG_H
#define CLIENT_CONFIG_H

#include "blink/blink.h"

/** Check a configuration. Errors: INVALID_ARGUMENT. */
blink_result_t config_check(const blink_comm_config_t *config);

#endif

/* What communicators are configured with. */
#ifndef CLIENT_CONFIG_H
#define CLIENT_CONFIG_H

#include "context/comm.h"

/** What a program gives, made whole: NULL, and the fields that an older program's struct lacks, are defaults;
 * what the program then leaves open is as the environment says (environment/settings.h). Errors:
 * INVALID_ARGUMENT, UNSUPPORTED (a newer program asks for what is not known here). */
blink_result_t config_take(const blink_comm_config_t *given, blink_comm_config_t *config);

/** The same for a communicator that is made of another one's ranks: NULL: as that one. Its rank's device
 * stays. The name may be the other one's, and is not copied. */
blink_result_t config_inherit(const blink_comm_t *comm, const blink_comm_config_t *given,
                              blink_comm_config_t *config);

#endif

/*
 * Which ranks of a communicator live, for those of them that go on as another one (blink_comm_shrink()).
 */
#ifndef BLINK_SURVIVORS_H
#define BLINK_SURVIVORS_H

#include "control/comms/roster.h"

/* Serve CommSurvivors. Who asks while no rank goes hears the same ranks and the same id; that one changes
 * with them. Errors, as answers: NOT_FOUND (no such handle), UNSUPPORTED (some ranks are on other hosts),
 * NO_MEMORY, SYSTEM. */
void roster_tell_survivors(client_t *client, uint64_t request, uint32_t member);

#endif

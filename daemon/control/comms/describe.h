/*
 * A roster as a reply shows it.
 */
#ifndef BLINK_CONTROL_DESCRIBE_H
#define BLINK_CONTROL_DESCRIBE_H

#include "control/comms/roster.h"

/* What describe_roster() costs, in steps of the loop's turn. */
uint32_t describe_steps(const roster_t *roster);

/* NULL: no memory. described_free() it. */
Blinkwire__Comm *describe_roster(const roster_t *roster);
void described_free(Blinkwire__Comm *described);

#endif

/*
 * Whether a rank may join a roster, and with which device.
 */
#ifndef BLINK_PLACE_H
#define BLINK_PLACE_H

#include "control/comms/roster.h"
#include "control/gather/terms.h"

/* Whether the request makes sense by itself. Errors: INVALID_ARGUMENT; UNSUPPORTED (the id has a home, and
 * the daemon knows no other host). */
blink_result_t place_check_request(const control_t *control, const Blinkwire__CommInit *message);

/* What the rank asks all others to agree on. */
terms_t place_terms(const control_t *control, const Blinkwire__CommInit *message);

/* The device that the rank asks for, or gets: of the GPU that its memory is on one that no other rank has,
 * else the device with the rank's number; where ranks may be on other hosts the first one that no other rank
 * has, if there is none of that number or it is taken. `roster` is NULL for its first rank. Errors:
 * NOT_FOUND, and SYSTEM where there is no GPU worker. */
blink_result_t place_choose_device(const control_t *control, const roster_t *roster,
                                   const Blinkwire__CommInit *message, uint32_t *device);

/* Whether the rank asks for what the ranks before it asked for, and takes a place and a device that are free
 * and suit the others. Errors: PERMISSION, MISMATCH, EXISTS, UNSUPPORTED. */
blink_result_t place_check(roster_t *roster, const client_t *client, const Blinkwire__CommInit *message,
                           uint32_t device);

#endif

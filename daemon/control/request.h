/*
 * From the bytes of a frame to the call that serves the request in it.
 */
#ifndef BLINK_REQUEST_H
#define BLINK_REQUEST_H

#include "control/clients/session.h"

void request_handle(session_t *session, const uint8_t *bytes, size_t byte_count);

#endif

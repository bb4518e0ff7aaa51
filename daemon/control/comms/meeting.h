/*
 * What becomes of rosters whose ranks are on several hosts: once the ranks have gathered the hosts meet, each
 * with all others, so that every one has a session with every other and knows its topology; then the
 * communicator begins. These are the functions by which gathering and sessions tell rosters of it.
 */
#ifndef BLINK_CONTROL_MEETING_H
#define BLINK_CONTROL_MEETING_H

#include "control/control.h"
#include "control/gather/gather.h"

/* For rendezvous_handler_t; `context` is the control_t. */
void meeting_refused(void *context, gather_rank_t *rank, blink_result_t code);
blink_result_t meeting_ready(void *context, const gather_message_t *ready, uint32_t own_host, list_t *ranks);
void meeting_lost(void *context, gather_comm_t comm, blink_result_t code);

/* For peers_handler_t: a host can be asked for, or is gone for the code and this thread's error text. */
void meeting_host_opened(control_t *control, uint64_t instance);
void meeting_host_lost(control_t *control, uint64_t instance, blink_result_t code);

#endif

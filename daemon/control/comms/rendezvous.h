/*
 * Ranks that gather under an id with a home: gather/gather.h, with the clock, the sessions and the accounts
 * of this daemon.
 */
#ifndef BLINK_CONTROL_RENDEZVOUS_H
#define BLINK_CONTROL_RENDEZVOUS_H

#include "control/gather/gather.h"
#include "control/peers/peers.h"

typedef struct rendezvous rendezvous_t;

/* What becomes of ranks and communicators: as in gather_calls_t; `context` is the control_t. */
typedef struct rendezvous_handler {
    void (*refused)(void *context, gather_rank_t *rank, blink_result_t code);
    blink_result_t (*ready)(void *context, const gather_message_t *ready, uint32_t own_host, list_t *ranks);
    void (*lost)(void *context, gather_comm_t comm, blink_result_t code);
} rendezvous_handler_t;

/* There are peers. Errors: NO_MEMORY, SYSTEM. */
blink_result_t rendezvous_create(control_t *control, const rendezvous_handler_t *handler,
                                 rendezvous_t **rendezvous);

/* After the loop is closed. NULL is ignored. */
void rendezvous_destroy(rendezvous_t *rendezvous);

/* gather_join(), gather_leave(), gather_comm_lost() and gather_comm_ended(). What the first one calls may
 * free the rank. It also has the home dialled if there is no session: errors, besides, those of
 * peers_reach(). */
blink_result_t rendezvous_join(rendezvous_t *rendezvous, const uint8_t id[UNIQUE_ID_BYTES], tenant_t *tenant,
                               const terms_t *terms, gather_rank_t *rank);
void rendezvous_leave(rendezvous_t *rendezvous, gather_rank_t *rank, blink_result_t code);
void rendezvous_comm_lost(rendezvous_t *rendezvous, gather_comm_t comm, blink_result_t code);
void rendezvous_comm_ended(rendezvous_t *rendezvous, gather_comm_t comm);

/* For peers_handler_t. */
blink_result_t rendezvous_receive(rendezvous_t *rendezvous, const gather_host_t *from,
                                  const Blinkpeer__Gather *message);
void rendezvous_host_lost(rendezvous_t *rendezvous, uint64_t instance, const char *name);

#endif

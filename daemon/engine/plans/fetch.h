/*
 * Plans that another host makes: asked for, and brought here piece by piece. A program that is fetched has
 * ops that wait for it, all of communicators in which that host takes part.
 */
#ifndef BLINK_ENGINE_FETCH_H
#define BLINK_ENGINE_FETCH_H

#include "engine/plans/plans.h"

/* Ask the host that plans for it, in the name of this communicator. Errors: NO_MEMORY, QUOTA. */
blink_result_t fetch_begin(cached_program_t *cached, engine_comm_t *comm);

/* An op of this communicator waits for it too, which may have come about in a later session with the host:
 * then that is asked anew. Errors: as above. */
blink_result_t fetch_share(cached_program_t *cached, engine_comm_t *comm);

/* Nobody waits for it any more, or it is there. */
void fetch_end(cached_program_t *cached);

/* The bytes that have come are charged to a tenant who waits for the program. Nobody pays for them any more;
 * and somebody of this tenant waits no more: the heir pays, who does, or NULL. */
void fetch_pay_no_more(cached_program_t *cached);
void fetch_inherit(cached_program_t *cached, const tenant_t *tenant, tenant_t *heir);

/* An answer of the host to which the endpoint leads. Errors: PROTOCOL. */
blink_result_t fetch_heed(engine_t *engine, const data_endpoint_t *endpoint, const plan_word_t *word);

#endif

/*
 * Plans that are made here for other hosts, too: who has asked for one that is not there yet, and what those
 * hear. An ask stands for its communicator as an op of this host would: the plan is made on a turn of its
 * tenant, which is charged with what is kept, and it ends with the communicator's part here.
 */
#ifndef BLINK_ENGINE_ANSWER_H
#define BLINK_ENGINE_ANSWER_H

#include "engine/plans/plans.h"

/* Another host asks. *is_early: for a communicator that is not known here yet, and the ask is to be heeded
 * again when it is, with NULL. Errors: PROTOCOL, QUOTA, NO_MEMORY: the session is to be ended. */
blink_result_t answer_heed(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word,
                           bool *is_early);

/* The program has been made, or not: who has asked for it hears so. */
void answer_all(cached_program_t *cached);

/* The tenant of somebody who has asked for the program and waits; NULL: nobody does. */
tenant_t *answer_waiting_tenant(const cached_program_t *cached);

#endif

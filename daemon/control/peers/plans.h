/*
 * Words about plans (engine/plans/word.h) as messages of a session.
 */
#ifndef BLINK_CONTROL_PEERS_PLANS_H
#define BLINK_CONTROL_PEERS_PLANS_H

#include "engine/engine.h"
#include "peer.pb-c.h"

/* A PlanAsk or Plan has come from the host that the endpoint leads to. Errors: PROTOCOL, and as
 * engine_plan_word(): the session is to be ended. */
blink_result_t peer_plan_heard(engine_t *engine, data_endpoint_t *endpoint,
                               const Blinkpeer__Message *message);

/* For engine_config_t.tell_plan. */
void peer_plan_tell(const data_endpoint_t *endpoint, const plan_word_t *word);

#endif

/*
 * What tools of this host ask the daemons of other hosts: one question after the other over a session, each
 * for one page of an answer. A host that is not heard of in time is not waited for.
 */
#ifndef BLINK_CONTROL_ASKS_H
#define BLINK_CONTROL_ASKS_H

#include "control/asker.h"
#include "net/net.h"

/* An answer may take so long, or the peers' time-out if that is shorter. */
#define ASKS_MOST_MS 5000u

/* All questions to all hosts. */
typedef struct asks asks_t;

/* Those to one host. */
typedef struct asks_host {
    asks_t *asks;
    net_session_t *session;
    list_t waiting;   /* the oldest first; the first one is with the host if `is_asked` */
    uint64_t last;    /* the number of the question that was put last */
    bool is_asked;    /* it is not answered yet */
    bool is_given_up; /* nobody waits for that answer any more: it is dropped */
} asks_host_t;

/* turns: the loop's; they bound how many askers hear in one turn that time is over. Errors: NO_MEMORY. */
blink_result_t asks_create(uv_loop_t *loop, turns_t *turns, uint64_t limit_ms, asks_t **asks);

/* Nobody is answered any more. Memory is given back from within the loop. NULL is ignored. */
void asks_destroy(asks_t *asks);

void asks_host_init(asks_host_t *host, asks_t *asks, net_session_t *session);

/* Put a question, which is copied, once those before it are answered. The asker is held, and answered later.
 * Errors, as answers: UNSUPPORTED (the daemon there is too old), TIMEOUT, PEER_LOST (the host is lost),
 * NO_MEMORY, or what is said there; all name the host. */
void asks_put(asks_host_t *host, const asker_t *asker, const Blinkwire__Query *question);

/* An answer has come. Errors: PROTOCOL (it is none to what was asked), which end the session. */
blink_result_t asks_heard(asks_host_t *host, const Blinkpeer__QueryReply *answer);

/* The session has ended, for the reason in this thread's error text: who waits is told. */
void asks_lost(asks_host_t *host);

/* Who asks with this context has gone: it is not answered any more. */
void asks_forget(asks_t *asks, const void *context);

#endif

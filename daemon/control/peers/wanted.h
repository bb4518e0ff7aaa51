/*
 * A host that the settings name: it is looked up and dialled until there is a session, and again when that
 * has ended.
 */
#ifndef BLINK_CONTROL_WANTED_H
#define BLINK_CONTROL_WANTED_H

#include "base/list.h"
#include "net/net.h"

typedef struct wanted {
    list_t link;
    net_t *net;
    uv_loop_t *loop;
    address_lookup_t *lookup; /* of these three at most one is not NULL */
    net_dial_t *dial;
    net_session_t *session;
    bool is_self;                     /* this daemon listens at its address */
    const net_address_t *own;         /* where this daemon listens; borrowed */
    uint32_t tries;                   /* of all its addresses, since there was a session */
    char why[BLINK_ERROR_TEXT_BYTES]; /* the last failure, or end of a session; "": none since there is one */
    blink_result_t logged;            /* the last failure that the log was told; BLINK_OK: none */
    char text[];                      /* host, or host:port */
} wanted_t;

/* Begin to look for a host. Errors: INVALID_ARGUMENT (names the text), NO_MEMORY. */
blink_result_t wanted_create(net_t *net, uv_loop_t *loop, const char *text, const net_address_t *own,
                             wanted_t **wanted);

/* A session that there is goes on. */
void wanted_destroy(wanted_t *wanted);

/* The session has ended: this thread's error text says why. */
void wanted_lost(wanted_t *wanted);

/* Go on looking if there is neither a session nor a try under way. */
void wanted_try(wanted_t *wanted);

#endif

/*
 * A host that the settings name: it is looked up and dialled until there is a session, and again when that
 * has ended.
 */
#ifndef BLINK_CONTROL_WANTED_H
#define BLINK_CONTROL_WANTED_H

#include "base/list.h"
#include "net/net.h"

/* What the hosts that are wanted have in common. */
typedef struct wanted_common {
    net_t *net;
    uv_loop_t *loop;
    const net_address_t *own; /* where this daemon listens; borrowed */
    uint32_t lookups;         /* under way: each has a thread, so there are no more than a few at a time */
    list_t turns;             /* wanted_t.turn: for one of them to end */
} wanted_common_t;

typedef struct wanted {
    list_t link;
    wanted_common_t *common; /* borrowed */
    list_t turn;
    /* Of these three at most one is not NULL, and none while it waits for its turn. */
    address_lookup_t *lookup;
    net_dial_t *dial;
    net_session_t *session;
    bool is_self;                     /* this daemon listens at its address */
    uint32_t tries;                   /* of all its addresses, since there was a session */
    char why[BLINK_ERROR_TEXT_BYTES]; /* the last failure, or end of a session; "": none since there is one */
    blink_result_t logged;            /* the last failure that the log was told; BLINK_OK: none */
    char text[];                      /* host, or host:port */
} wanted_t;

void wanted_common_init(wanted_common_t *common, net_t *net, uv_loop_t *loop, const net_address_t *own);

/* Begin to look for a host. Errors: INVALID_ARGUMENT (names the text), NO_MEMORY, SYSTEM. */
blink_result_t wanted_create(wanted_common_t *common, const char *text, wanted_t **wanted);

/* A session that there is goes on. */
void wanted_destroy(wanted_t *wanted);

/* The session has ended: this thread's error text says why. */
void wanted_lost(wanted_t *wanted);

/* Go on looking if there is neither a session nor a try under way. */
void wanted_try(wanted_t *wanted);

#endif

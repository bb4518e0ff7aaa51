/*
 * The daemons of other hosts, as the control thread knows them: those that the settings name, which are
 * dialled until there is a session and again when it has ended, and those that dial this one.
 */
#ifndef BLINK_CONTROL_PEERS_H
#define BLINK_CONTROL_PEERS_H

#include "blink.pb-c.h"
#include "control/clients/connection.h"
#include "control/control.h"
#include "control/gather/gather.h"
#include "net/net.h"

struct asker;

/* What those want to know who have ranks gather on several hosts. */
typedef struct peers_handler {
    /* A message about ranks that gather, by a host that can be sent to. Errors: PROTOCOL, which ends the
     * session, with this thread's error text. */
    blink_result_t (*gather)(void *context, const gather_host_t *from, const Blinkpeer__Gather *message);
    /* The same about ranks that live. */
    blink_result_t (*survivors)(void *context, const gather_host_t *from,
                                const Blinkpeer__Survivors *message);
    /* The host can be asked for by peers_find(). */
    void (*opened)(void *context, uint64_t instance);
    /* The host's session has ended, or it cannot be reached, and its name is "": the code with this thread's
     * error text, which calls the host "it". */
    void (*lost)(void *context, uint64_t instance, const char *name, blink_result_t code);
    /* A host asks for what this one would show to a tool: query_answer(). */
    void (*query)(const struct asker *asker, const Blinkwire__Query *query);
    void *context;
} peers_handler_t;

/* Listen and dial as [network] in the settings says, and read the cluster key, for which this blocks. *peers
 * is NULL if no address is set: the daemon then knows no other. Errors: as cluster_keys_read(), net_listen()
 * and address_parse(), with the setting's name; SYSTEM, NO_MEMORY. */
blink_result_t peers_create(control_t *control, const peers_handler_t *handler, peers_t **peers);

/* Say Bye to all, and hang up last: data connections stay until the others have closed theirs, or a second
 * has passed, so that all hear that this daemon is stopped before they see its connections go. Nobody may use
 * them any more; left(context) is called once, in this call or later. */
void peers_leave(peers_t *peers, void (*left)(void *context), void *context);

/* Say Bye to all. Memory and sockets are given back from within the loop. NULL is ignored. */
void peers_destroy(peers_t *peers);

/* What this daemon is called among others: as the settings say, or as the machine is. Errors:
 * INVALID_ARGUMENT (the name cannot be used), SYSTEM. */
blink_result_t peers_find_name(const settings_t *settings, char name[SETTINGS_TEXT_BYTES]);

/* ---- hosts of communicators ---- */

/* This daemon, as other hosts are told of it; its port and addresses are those of ids that are made here. */
const gather_host_t *peers_own(const peers_t *peers);

/* A host with a session; valid until the loop runs again. */
typedef struct peer_view {
    const char *name, *topology; /* the second as topo_write_json() writes it */
    const char *version;         /* of the daemon */
    uint32_t protocol;           /* of the session */
    const uint8_t *digest;       /* of the topology: GATHER_DIGEST_BYTES */
    data_endpoint_t *endpoint;   /* NULL for this host itself */
} peer_view_t;

/* The host, or this one. False: it has no session, or has not told its topology yet. */
bool peers_find(const peers_t *peers, uint64_t instance, peer_view_t *view);

/* Have a session with the host: `opened` or `lost` is called later, unless peers_find() finds it. Errors:
 * PEER_LOST (it names no address), NO_MEMORY, SYSTEM; with a tenant, who is charged with a connection until
 * then, QUOTA: neither is called. */
blink_result_t peers_reach(peers_t *peers, const gather_host_t *host, tenant_t *tenant);

/* Send the host a message, now or once there is a session; `lost` is called if there is none in time. Errors:
 * as peers_reach(), and those of net_session_send(). */
blink_result_t peers_send(peers_t *peers, const gather_host_t *host, const Blinkpeer__Message *message);

/* What the host waits for cannot be sent, for the code with this thread's error text: a session with it ends
 * later, and `lost` is called. */
void peers_fail(peers_t *peers, const gather_host_t *host, blink_result_t code);

/* ---- for tools and clients ---- */

/* The connection has ended: nothing that it has asked other hosts is answered any more. Without peers nothing
 * is done. */
void peers_forget(peers_t *peers, const connection_t *connection);

/* Have the host answer that the question names. False: it names none, or this one. Errors, as answers:
 * NOT_FOUND (there is no session with such a host), UNSUPPORTED (without peers), INVALID_ARGUMENT (the name),
 * or as asks_put(). */
bool peers_ask(const peers_t *peers, const struct asker *asker, const Blinkwire__Query *question);

/* What is known of one host. Texts are valid until the loop runs again. */
typedef struct described_host {
    Blinkwire__Host host;
    char address[ADDRESS_TEXT_BYTES];
    Blinkwire__HostNic nics[HELLO_NICS_MAX], *pointers[HELLO_NICS_MAX];
    char nic_addresses[HELLO_NICS_MAX][ADDRESS_TEXT_BYTES];
} described_host_t;

/* The host with this number, beginning with 0: this one, then those with a session, then those that are
 * dialled. False: there are no more. */
bool peers_describe(const peers_t *peers, uint64_t number, described_host_t *described);

#endif

/*
 * What the files of this folder share.
 */
#ifndef BLINK_CONTROL_PEERS_STATE_H
#define BLINK_CONTROL_PEERS_STATE_H

#include "base/table.h"
#include "control/beat.h"
#include "control/control.h"
#include "control/peers/asked.h"
#include "control/peers/asks.h"
#include "control/peers/data.h"
#include "control/peers/peers.h"
#include "control/peers/topologies.h"
#include "control/peers/wanted.h"

/* A host with an open session. */
typedef struct peer_host {
    list_t link;
    table_link_t of_instances;
    struct peers *peers;
    net_session_t *session;
    peer_data_t *data;
    topology_t *topology; /* NULL: the host has not told it yet */
    asks_host_t asks;     /* of tools here */
    asked_t asked;        /* of tools there */
    uint64_t since_ns;
} peer_host_t;

struct peers {
    control_t *control;
    peers_handler_t handler;
    net_t *net;
    gather_host_t own; /* this daemon */
    topology_t *topology;
    list_t topologies;     /* topology_t.link: this host's and its peers' */
    list_t reaches;        /* reach.c: hosts that are dialled for communicators */
    list_t findings;       /* finding.c: hosts that clients ask for */
    net_address_t address; /* the first at which this daemon listens */
    list_t hosts;          /* in the order of their names */
    table_t instances;     /* peer_host_t.of_instances: the same hosts */
    list_t wanted;         /* in the order of the settings */
    wanted_common_t wanted_common;
    beat_asker_t asker; /* for peers that ask for a sign of life */
    asks_t *asks;       /* NULL: they are not made yet */
    uv_timer_t tick;
    /* What was wrong with the key's file when it was last read; "": nothing. */
    char key_fault[BLINK_ERROR_TEXT_BYTES];
    void (*left)(void *context); /* peers_leave() */
    void *left_context;
};

/* The host with this daemon; NULL: there is no session with it. */
static inline peer_host_t *peers_host_of(const peers_t *peers, uint64_t instance)
{
    for (table_link_t *link = table_find(&peers->instances, table_hash(instance)); link;
         link = table_find_next(link)) {
        peer_host_t *host = CONTAINER_OF(link, peer_host_t, of_instances);
        if (net_session_peer(host->session)->instance == instance)
            return host;
    }
    return NULL;
}

#endif

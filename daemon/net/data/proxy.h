/*
 * What the files of this room share of the data plane: the turn, and what is to be done by whoever has it.
 */
#ifndef BLINK_DATA_PROXY_H
#define BLINK_DATA_PROXY_H

#include "base/list.h"
#include "base/mailbox.h"
#include "net/data/data.h"
#include "net/data/pool.h"
#include "net/data/turn.h"
#include "net/data/verbs/device.h"

struct data {
    data_config_t config;
    turn_t turn;
    mailbox_t mailbox; /* runs of which executors have told something */
    /* Threads that have the turn, wait for it, or have promised to take it: they look into the mailbox before
     * they are through, and so nobody needs to be woken for it. */
    _Atomic uint32_t coming;
    _Atomic uint32_t promised; /* of these: by data_soon() */
    _Atomic bool watched;      /* by data_watch(): the proxy's thread waits for wake_fd alone */
    _Atomic bool asleep;       /* the proxy's thread waits, or is about to */
    int epoll_fd, wake_fd;
    pthread_t thread;
    _Atomic bool stopping;
    /* By the turn. */
    list_t endpoints; /* data_endpoint_t.link: those that are not lost */
    list_t busy;      /* data_endpoint_t.of_busy: something may be sent there */
    list_t gone;      /* data_endpoint_t.link: lost ones, to be let go before the turn is passed on */
    list_t retired;   /* transport_t.of_retired: closed ones, to be destroyed then */
    pool_t pool;
    uint8_t *trash;
    verbs_devices_t *verbs; /* NULL: no RDMA */
    exec_keeper_t keeper;   /* of sources in place */
};

/* Take the turn. */
void proxy_enter(data_t *data);

/* Do what is due, and pass the turn on; but leave all to a thread that has promised to come. */
void proxy_leave(data_t *data);

/* With the turn: do what is due, within a bound. Returns whether there is more. */
bool proxy_serve(data_t *data);

/* Wake the proxy's thread. */
void proxy_wake(data_t *data);

#endif

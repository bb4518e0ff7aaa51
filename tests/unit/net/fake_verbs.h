/*
 * RDMA in the memory of one process: librdmacm and libibverbs as a table of calls, with a device for each
 * host, 127.0.0.2 and up. A thread is the wire: it carries messages from queue pair to queue pair, those of
 * different queue pairs in any order, and reads and writes memory when it does so and not before. What the
 * real libraries refuse, or would hang or corrupt memory at, ends the process with a line that says what.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include "net/data/verbs/library.h"

#include <stdbool.h>

enum { FAKE_DEVICES = 32, FAKE_FIRST_ADDRESS = 0x7f000002 };

/* Begin anew, without faults. */
void fake_verbs_begin(uint32_t seed);

/* All that was made has been destroyed; no message has found no receive. */
void fake_verbs_end(void);

const verbs_library_t *fake_verbs_library(void);

/* Messages that were carried so far. */
uint64_t fake_verbs_carried(void);

/* Of these, those that a device sent. */
uint64_t fake_verbs_carried_by(uint32_t device);

/* Of all, those that wrote to the peer's memory. */
uint64_t fake_verbs_written(void);

/* How often a device has read memory of a GPU. What devices write there is seen once the same device has read
 * there, and not before. */
uint64_t fake_verbs_flushed(void);

/* The most bytes that a write with an immediate had. */
uint32_t fake_verbs_told_most_bytes(void);

/* News of connections that nobody has taken yet. */
uint32_t fake_verbs_unheard(void);

/* ---- faults ---- */

/* From now on: devices have no addresses; connections are not answered; memory cannot be pinned; no queue
 * pair can be made. */
typedef struct fake_faults {
    bool no_device, no_answer, no_memory, no_qp, is_iwarp;
    bool no_local_memory;     /* nor what only this side is to read */
    bool no_dma_bufs;         /* no device registers memory of GPUs */
    bool no_reads;            /* devices fail to read it */
    bool orders;              /* no fault: what is written there is seen at once */
    bool no_end;              /* connections are accepted, and nobody hears of it */
    bool disorder;            /* no fault: writes are placed when a receive of their queue pair completes, and
                               * not before, the last one first */
    uint32_t no_devices;      /* bits: devices that have no addresses, */
    uint32_t silent;          /* and that connections to are not answered */
    int no_address, no_route; /* an errno, as the event's status */
} fake_faults_t;

void fake_verbs_set(fake_faults_t faults);

/* The next message that a device sends fails so. */
void fake_verbs_fail_message(uint32_t device, enum ibv_wc_status status);

/* The same of the next write. */
void fake_verbs_fail_write(uint32_t device, enum ibv_wc_status status);

/* All queue pairs of a device that are connected: what is posted to them is flushed. */
void fake_verbs_flush(uint32_t device);

/* The cable of a device, whose address nobody reaches without it. What goes over it already fails by another
 * call. */
void fake_verbs_plug(uint32_t device, bool is_in);

/* News of the device, and of its connections. */
void fake_verbs_tell(uint32_t device, enum ibv_event_type type);
void fake_verbs_tell_connections(uint32_t device, enum rdma_cm_event_type type);

/* A message of one byte comes to the device's queue pair for control, with such an immediate or none. */
void fake_verbs_say(uint32_t device, bool with_immediate, uint32_t immediate);

/* The device's queue pair for control, or one for moves, hears that a peer has written something. */
void fake_verbs_say_written(uint32_t device, bool for_control, uint32_t immediate);

/* Whether a device lets another one write there, over some queue pair. */
bool fake_verbs_lets_write(uint32_t device, uint32_t peer, uint32_t key, uint64_t address, uint32_t bytes);

#endif

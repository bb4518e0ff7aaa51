/*
 * Wire lanes on the host: they move nothing by themselves. They wait as lanes do, and tell the network what
 * may be sent or written; what the network has done they signal as lanes do.
 *
 * With a pacer each host books its own links, and none knows another's clock. The sender books a move when
 * its source is there, and sends it when the first byte has gone through its links. The receiver books it
 * when it has come, which is then the moment from which its links carry the same bytes as the sender's, and
 * what it announces is visible when it is through. Where the sender's links are slower than the receiver's,
 * the receiver sees a move too early by the difference, which is less than a chunk takes, and no faster in
 * the long run.
 */
#ifndef BLINK_EXEC_WIRE_RUN_H
#define BLINK_EXEC_WIRE_RUN_H

#include "exec/host/instance.h"
#include "exec/wire.h"

/* What an instance needs for the wire lanes of its program, which is one host's part. Errors: NO_MEMORY. */
blink_result_t wires_create(host_instance_t *instance);
void wires_destroy(host_instance_t *instance);

/* Memory that wires_create() takes for a program. */
size_t wires_bytes(const lane_program_t *program);

/* wire_lane_waits() of a wire lane; `lane` is its number in the program. */
bool wire_waits(const host_instance_t *instance, uint32_t lane, const lane_wait_t *wait);

/* Set up a run whose completion has its share. Returns how many wire lanes have moves in it. */
uint32_t wires_reset(host_instance_t *instance, uint64_t now_ns);

/* Tell the network what it may do from the start. */
void wires_begin(host_instance_t *instance);

/* Take up a wire lane that was parked: tell the network how far it may go now, or when links are emulated
 * have the pool do so when that time has come. */
void wire_wake(host_instance_t *instance, uint32_t lane, uint64_t due_ns);

/* The host's side of exec_wire_calls_t. */
bool host_wire_memory(const exec_instance_t *instance, void **memory, uint64_t *bytes); /* instance.c */
wire_place_t host_wire_place(const exec_instance_t *instance, uint32_t lane, uint32_t sequence);
void host_wire_sent(exec_instance_t *instance, uint32_t lane, uint32_t sequence);
exec_task_t *host_wire_arrived(exec_instance_t *instance, uint32_t lane, uint32_t sequence);
void host_wire_run(exec_instance_t *instance, exec_task_t *lane);
void host_wire_run_some(exec_instance_t *instance, exec_task_t *lane);
void host_wire_queue(exec_instance_t *instance, exec_task_t *lane);
void host_wire_settled(exec_instance_t *instance);

#endif

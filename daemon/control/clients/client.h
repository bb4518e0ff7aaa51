/*
 * A session that has rings: made by its Hello, ended when its connection ends. A client owns its regions, and
 * is a member of rosters.
 */
#ifndef BLINK_CONTROL_CLIENT_H
#define BLINK_CONTROL_CLIENT_H

#include "base/label.h"
#include "base/table.h"
#include "base/tenant.h"
#include "control/clients/connection.h"
#include "control/control.h"

/* What the client's process gets: ring, doorbell and completion event. */
#define CLIENT_FDS 3

#define CLIENT_TITLE_BYTES 24

typedef struct client {
    control_t *control;
    list_t link;                  /* on control->clients */
    bag_item_t of_all, of_tenant; /* in control->all_clients, in tenant->clients */
    connection_t *connection;
    tenant_t *tenant;
    engine_client_t *engine;
    uint32_t number;
    pid_t pid;
    char title[CLIENT_TITLE_BYTES]; /* "client 3" */
    char program[LABEL_BYTES], job[LABEL_BYTES];
    bool leaving;   /* the connection has ended; the engine forgets the client, or has forgotten it */
    bool releasing; /* and has done so: the memory is given back, `leave` being the slices of that */
    uint32_t given_back_count; /* regions that the GPU worker was told to close, and has not answered */
    engine_done_t left;
    work_t leave; /* its slices: first the ranks leave, then, when the engine has let go, the memory */
    uint32_t ring_guard;
    list_t regions; /* newest first, without those that the client has deregistered */
    list_t pending_regions;
    table_t region_numbers;
    struct region *windows; /* for streams; NULL: none */
    uint32_t gpu_losses;    /* control->region_gpus.losses, when it was last told of one, or came */
    uint32_t last_region;
    uint32_t region_count; /* and the bytes below: deregistered ones count until the engine lets go of them */
    uint64_t registered_bytes;
    list_t members;
    uint32_t member_count;
} client_t;

/* Make a client with its rings. fds[] are the caller's to close, also on failure (-1: none). Errors:
 * QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t client_create(control_t *control, connection_t *connection, tenant_t *tenant,
                             const Blinkwire__Hello *hello, int fds[CLIENT_FDS], client_t **client);

/* The client's connection has ended: leave all rosters, give all memory back, free the client. `left` is
 * called when all of that is done. */
void client_leave(client_t *client, engine_done_t left);

#endif

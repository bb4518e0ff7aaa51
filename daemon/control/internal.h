/*
 * What the files of the control side share. Everything here belongs to the control thread.
 */
#ifndef BLINK_SERVICE_H
#define BLINK_SERVICE_H

#include "blink.pb-c.h"
#include "control/gpus.h"
#include "control/server.h"
#include "engine/engine.h"
#include "frame.h"

#include <sys/types.h>
#include <uv.h>

typedef struct connection connection_t;
typedef struct client client_t;
typedef struct region region_t;
typedef struct comm comm_t;
typedef struct member member_t;
typedef struct outgoing outgoing_t;
typedef struct tenant tenant_t;
typedef struct links links_t;

/* Of joined ranks, by number. */
#define MEMBER_BUCKETS 4096u

struct server {
    server_config_t config;
    pace_t *pace;
    exec_host_t *exec;
    exec_cuda_t *cuda; /* NULL: no GPUs, as the next */
    gpus_t *gpus;
    engine_t *engine;
    _Atomic uint64_t *link_bytes;
    mailbox_t mailbox;
    uv_loop_t loop;
    uv_async_t wake; /* the mailbox has items */
    uv_poll_t listener;
    uv_signal_t terminate, interrupt, hangup;
    uv_timer_t accept_again;
    uv_timer_t watchdog;
    bool heartbeat_pending; /* the engine has not answered yet */
    uv_timer_t init_timer;  /* the earliest end of a communicator's gathering */
    bool loop_open;
    bool stopping;
    int listen_fd, lock_fd;
    uint64_t started_ns;
    connection_t *connections;
    comm_t *comms;     /* all of them */
    comm_t *gathering; /* that are joining */
    member_t *members[MEMBER_BUCKETS];
    tenant_t *tenants; /* that have had a communicator */
    links_t *links;
    uint32_t client_count, comm_count;
    uint32_t next_client, next_comm, next_member;
};

/* The number of the GPU that a device is, or is a part of; EXEC_CUDA_NO_GPU: a host device. */
uint32_t server_gpu_of_device(const server_t *server, uint32_t device);

/* Ends the loop once the server stops and nothing is left. */
void server_stop_if_done(server_t *server);

/* ---- connection.c: bytes and descriptors on one socket ---- */

struct connection {
    server_t *server;
    connection_t *next;
    int fd;
    pid_t pid;
    uid_t uid;
    uv_poll_t poll;
    uint8_t input[FRAME_HEADER_BYTES + FRAME_REQUEST_MAX_BYTES];
    size_t input_bytes;
    int fds[FRAME_FDS_MAX]; /* received and not yet claimed by a request */
    uint32_t fd_count;
    outgoing_t *outgoing, **outgoing_end;
    size_t outgoing_bytes;
    bool greeted;  /* a Hello was accepted */
    bool draining; /* say what is queued, then close; hear nothing more */
    bool closing;
    client_t *client; /* NULL: a tool, or not greeted yet */
};

/* Take over an accepted socket. */
void connection_accept(server_t *server, int fd);

/* Queue a reply with up to FRAME_FDS_MAX descriptors, which stay the caller's. Lost if the connection is
 * closing. */
void connection_send(connection_t *connection, const Blinkwire__Reply *reply, const int *fds,
                     uint32_t fd_count);
void connection_reply_ok(connection_t *connection, uint64_t id);

/* The code with this thread's error text. */
void connection_reply_error(connection_t *connection, uint64_t id, blink_result_t code);

/* The same, and then close. */
void connection_fail(connection_t *connection, uint64_t id, blink_result_t code);

/* Take the oldest unclaimed descriptor; -1 if none. It is the caller's. */
int connection_take_fd(connection_t *connection);

/* End the connection; the socket itself is closed when its client is gone. */
void connection_close(connection_t *connection);

/* The client is gone: close the socket and free. Called by client.c. */
void connection_finish(connection_t *connection);

/* ---- request.c: what a frame asks for ---- */

void request_handle(connection_t *connection, const uint8_t *bytes, size_t byte_count);

/* ---- client.c: a connection that has rings ---- */

struct client {
    server_t *server;
    connection_t *connection;
    engine_client_t *engine;
    uint32_t client;
    char program[64];
    region_t *regions;
    uint32_t region_count, next_region;
    uint64_t registered_bytes;
    member_t *members;
    uint32_t member_count;
};

/* Make the rings and answer the Hello. Errors: QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t client_create(connection_t *connection, uint64_t id, const Blinkwire__Hello *hello);

/* Its connection ended: leave everything, then connection_finish(). */
void client_disconnect(client_t *client);

/* Fill the part of a HelloReply that does not depend on rings. */
void hello_reply_init(const server_t *server, Blinkwire__HelloReply *reply);

/* ---- region.c: memory of clients ---- */

struct region {
    server_t *server;
    client_t *client; /* NULL: gone, while the import was pending */
    region_t *next;
    uint32_t region;
    engine_region_kind_t kind;
    void *map; /* NULL: on a GPU */
    uint64_t bytes;
    uint64_t request;             /* whose answer waits for the engine, or for the GPU worker */
    uint64_t gpu_token;           /* of what the GPU worker has of it; 0: nothing */
    bool pending;                 /* the GPU worker has not answered yet; the engine does not know it */
    int fd;                       /* of what GPUs, or staging's client, are to map as well; -1 */
    uint64_t offset_bytes;        /* in that, of client's memory */
    const _Atomic bool *poisoned; /* on the host */
    _Atomic bool lost;            /* on a GPU: the worker that had it is gone */
};

/* A region with its number, linked and counted; nothing else of it is there yet. Errors: QUOTA, NO_MEMORY. */
blink_result_t region_create(client_t *client, uint64_t bytes, engine_region_kind_t kind, region_t **region);

/* Undo that, with all that has been done since but for the engine's knowing. */
void region_discard(region_t *region);

/* The three parts of it. */
void region_unlink(region_t *region);
void region_uncount(region_t *region);
void region_free(region_t *region);

/* The last step of a registration. Errors: NO_MEMORY. */
blink_result_t region_tell_engine(region_t *region, uint64_t gpu_address);

/* Make and map a staging region (ring.h) of either kind; region_tell_engine() follows. Errors:
 * INVALID_ARGUMENT, EXISTS, QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t region_create_staging(client_t *client, uint64_t bytes, engine_region_kind_t kind,
                                     region_t **region);

/* ---- region_gpu.c: memory that GPUs reach ---- */

/* Serve the requests; they are answered now or later, failures too. Descriptors stay the caller's. */
void region_register_host(client_t *client, uint64_t request, const Blinkwire__MemRegister *message, int fd);
void region_register_gpu(client_t *client, uint64_t request, const Blinkwire__GpuMemRegister *message,
                         const int *fds, uint32_t fd_count);
void region_stage(client_t *client, uint64_t request, const Blinkwire__StagingCreate *message);

/* The GPU worker has ended: what it had imported is gone, and its clients hear of it. */
void regions_lose_gpus(server_t *server);

/* Another has started: staging regions for GPUs are mapped by it. */
void regions_map_again(server_t *server);

/* Check and map a client's memory; region_tell_engine() follows. Errors: INVALID_ARGUMENT (which property of
 * the descriptor does not hold), QUOTA, NO_MEMORY, SYSTEM. */
blink_result_t region_register(client_t *client, int fd, uint64_t offset_bytes, uint64_t bytes,
                               region_t **region);

/* Answers the request itself when it succeeds. Errors: NOT_REGISTERED. */
blink_result_t region_deregister(client_t *client, uint32_t region, uint64_t request);

/* The client is going: regions that the engine has not been told of, it will not hear of. */
void region_leave_pending(client_t *client);

/* Unmap everything; the engine has forgotten the client. */
void region_release_all(client_t *client);

/* Make a page that cannot be had (the client punched it out and memory is short) read as zeros instead of
 * ending the daemon; ops that use its region then fail. Once per process. Errors: SYSTEM. */
blink_result_t region_install_sigbus_handler(void);

/* ---- comm.c: communicators ---- */

typedef enum comm_state { COMM_JOINING, COMM_READY, COMM_LOST } comm_state_t;

struct member {
    comm_t *comm;
    client_t *client;                /* NULL: not joined */
    member_t *next, **previous_next; /* of the same client */
    member_t *next_bucket;           /* of the server's */
    uint32_t rank, member, device;
    uint64_t request; /* CommInit or CommDestroy to be answered */
    bool leaving, left;
};

struct comm {
    server_t *server;
    comm_t *next, **previous_next;
    comm_t *next_gathering;
    uint32_t comm;
    uint8_t unique_id[16];
    uid_t uid;
    tenant_t *tenant;
    uint32_t rank_count, joined_count, left_count;
    uint32_t first_rank; /* that joined */
    blink_algorithm_t algorithm;
    uint32_t op_timeout_ms; /* 0: the daemon's setting */
    comm_state_t state;
    uint64_t deadline_ms; /* of the gathering, in loop time */
    engine_comm_t *engine;
    member_t members[];
};

/* Answer the request now or, if ranks are missing, later. */
void comm_join(client_t *client, uint64_t request, const Blinkwire__CommInit *message);
void comm_destroy(client_t *client, uint64_t request, uint32_t member);
void comm_abort(client_t *client, uint64_t request, uint32_t member);

/* All memberships of a client whose process is gone. */
void comm_client_lost(client_t *client);

/* The engine gave a communicator up. */
void comm_lost_by_engine(void *server, uint32_t comm, blink_result_t code, const char *text);

/* The daemon stops: every communicator ends with DAEMON_LOST, before its ranks' connections do. */
void comm_end_all(server_t *server);

/* All communicators have ended. */
void comm_free_tenants(server_t *server);

/* Fails the communicators whose ranks did not gather in time. */
void comm_on_init_timer(uv_timer_t *timer);

/* ---- query.c and links.c: what blinkctl asks ---- */

void query_answer(connection_t *connection, uint64_t request, Blinkwire__QueryKind kind);

/* Rates of the links, sampled only while somebody looks or something moves. Errors: NO_MEMORY. */
blink_result_t links_create(server_t *server, links_t **links);
void links_destroy(links_t *links);
void links_wake(links_t *links); /* something may move from now on */

/* Answer a LINKS query, a sampling interval later if nothing has been sampled yet. */
void links_query(links_t *links, connection_t *connection, uint64_t request);
void links_forget(links_t *links, const connection_t *connection);

#endif

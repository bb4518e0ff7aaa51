/*
 * Fuzzes submissions: the entries that a client of two ranks puts into its ring, one behind the other. Where
 * handles of communicators and regions stand, small values stand for good ones. Whatever the entries are, the
 * engine must take them all.
 */
#include "inside.h"

#include "frame.h"
#include "ring.h"
#include "unique_id.h"
#include "windows.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGION_BYTES  (64u << 10)
#define STAGING_BYTES (STAGING_HEADER_BYTES + 2u * STAGING_SLOTS * STAGING_SLOT_BYTES)
#define RANKS         2u
#define ENTRIES_MAX   64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct client {
    int connection, fds[3]; /* the ring, the doorbell, the event */
    ring_t ring;
    uint64_t last_id;
    uint32_t members[RANKS], region, staging;
} client_t;

/* The reply to a request that must succeed. */
static Blinkwire__Reply *ask(client_t *client, Blinkwire__Request *request, int fd, int *fds,
                             uint32_t fd_count)
{
    request->id = ++client->last_id;
    Blinkwire__Reply *reply = inside_ask(client->connection, request, fd, fds, fd_count);
    if (!reply || reply->error)
        abort();
    return reply;
}

static void say_hello(client_t *client)
{
    Blinkwire__Reply *reply = inside_hello(client->connection, true, client->fds);
    if (!reply || reply->error)
        abort();
    client->last_id = reply->id;
    blinkwire__reply__free_unpacked(reply, NULL);
    if (ring_attach(client->fds[0], &client->ring) != BLINK_OK)
        abort();
}

static void make_memory(client_t *client)
{
    Blinkwire__MemRegister mem_register = BLINKWIRE__MEM_REGISTER__INIT;
    Blinkwire__StagingCreate staging = BLINKWIRE__STAGING_CREATE__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    int memory = inside_memory(REGION_BYTES), staging_fd = -1;
    mem_register.bytes = REGION_BYTES;
    request.body_case = BLINKWIRE__REQUEST__BODY_MEM_REGISTER;
    request.mem_register = &mem_register;
    Blinkwire__Reply *reply = ask(client, &request, memory, NULL, 0);
    client->region = reply->mem_register->region;
    blinkwire__reply__free_unpacked(reply, NULL);
    staging.bytes = STAGING_BYTES;
    request.body_case = BLINKWIRE__REQUEST__BODY_STAGING_CREATE;
    request.staging_create = &staging;
    reply = ask(client, &request, -1, &staging_fd, 1);
    client->staging = reply->staging_create->region;
    blinkwire__reply__free_unpacked(reply, NULL);
    close(memory);
    close(staging_fd);
}

/* Both ranks are the client's; the replies come when both have joined. */
static void join(client_t *client)
{
    static uint64_t number;
    unique_id_t id = {.version = UNIQUE_ID_VERSION};
    number++;
    memcpy(id.nonce, &number, sizeof(number));
    Blinkwire__CommInit init = BLINKWIRE__COMM_INIT__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    uint8_t bytes[256];
    init.unique_id = (ProtobufCBinaryData){sizeof(id), (uint8_t *)&id};
    init.rank_count = RANKS;
    init.device = -1;
    request.id = ++client->last_id;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_INIT;
    request.comm_init = &init;
    if (frame_send(client->connection, bytes, blinkwire__request__pack(&request, bytes), NULL, 0) != BLINK_OK)
        abort();
    init.rank = 1;
    Blinkwire__Reply *reply = ask(client, &request, -1, NULL, 0);
    /* The daemon has answered rank 0 too; handles are numbered in turn. */
    client->members[1] = reply->comm_init->member;
    client->members[0] = client->members[1] - 1;
    blinkwire__reply__free_unpacked(reply, NULL);
}

static uint32_t choose_region(const client_t *client, uint32_t value)
{
    const uint32_t known[] = {0, client->region, client->staging};
    return value < sizeof(known) / sizeof(known[0]) ? known[value] : value;
}

static void submit(client_t *client, const uint8_t data[sizeof(ring_sqe_t)])
{
    ring_sqe_t sqe;
    ring_cqe_t cqe;
    uint64_t one = 1;
    memcpy(&sqe, data, sizeof(sqe));
    if (sqe.member < RANKS)
        sqe.member = client->members[sqe.member];
    sqe.in_region = choose_region(client, sqe.in_region);
    sqe.out_region = choose_region(client, sqe.out_region);
    if (!ring_submit(&client->ring, &sqe) ||
        (ring_needs_doorbell(&client->ring) && write(client->fds[1], &one, sizeof(one)) < 0))
        abort(); /* there are places for ENTRIES_MAX, and nobody else writes the doorbell */
    while (ring_reap(&client->ring, &cqe)) {
    }
}

static void await_taken(client_t *client)
{
    /* Acquire: as ring_submit() loads the word. */
    while (atomic_load_explicit(&client->ring.header->sq_head, memory_order_acquire) != client->ring.sq_index)
        usleep(50);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    client_t client = {.connection = inside_connect(), .fds = {-1, -1, -1}};
    say_hello(&client);
    make_memory(&client);
    join(&client);
    for (uint32_t i = 0; i < ENTRIES_MAX && (i + 1) * sizeof(ring_sqe_t) <= bytes; i++)
        submit(&client, data + i * sizeof(ring_sqe_t));
    await_taken(&client);
    inside_leave(client.connection);
    ring_unmap(&client.ring);
    for (int i = 0; i < 3; i++)
        close(client.fds[i]);
    return 0;
}

/* A daemon for the tests of libblinkclient, made of two threads of the test's own program: one answers
 * requests, one serves the ring. It does what a test tells it to, the wrong thing included. */
#ifndef TESTS_FAKE_DAEMON_H
#define TESTS_FAKE_DAEMON_H

#include "blink.pb-c.h"
#include "blink/blink.h"
#include "frame.h"
#include "limit.h"
#include "ring.h"
#include "unique_id.h"
#include "windows.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define RING_ENTRIES 8u
#define MEMBERS_MAX  8u
#define IDLE_NAP_NS  20000000 /* of the engine: it wakes by itself to see `stop` */
#define TURN_NAP_NS  50000    /* where it has turns to take */
#define ARENAS_MAX   8u
#define LOG_MAX      4096u
#define IMPORTS_MAX  64u

/* A registration of GPU memory as it came. */
typedef struct fake_import {
    uint32_t region, messages, extent_count, fd_count;
    Blinkwire__GpuExtentKind kind; /* of its first extent, as the next three */
    uint64_t offset_bytes, bytes, pool;
    uint64_t following_bytes; /* as its first message said */
    uint64_t all_bytes;
    uint8_t gpu_uuid[16];
} fake_import_t;

typedef struct fake fake_t;
struct fake {
    char directory[32], path[64];
    int listen_fd, socket_fd, doorbell_fd, completion_fd;
    ring_t ring;
    pthread_t control, engine;
    /* what it is told to do */
    uint32_t answer_version;          /* in the answer to hello; 0: refuse the version */
    _Atomic bool idle;                /* take submissions and complete none */
    bool silent;                      /* leave pings without an answer */
    bool holds_joins;                 /* leave the last CommInit without one until it is given up, */
    bool joins_at_last;               /* and have all ranks joined just then; */
    uint32_t pause_us;                /* so long before it says that it is given up */
    _Atomic blink_result_t fail_with; /* for every op, with fail_text */
    const char *_Atomic fail_text;
    uint32_t pair_members;         /* an op of one member completes when all have submitted as many */
    uint32_t linger_us;            /* between the client's end of the stream and its own */
    uint32_t rank_count;           /* of every communicator, for the blocks of staged ops */
    bool spans_hosts;              /* every communicator does */
    uint32_t arenas_max;           /* more are refused; 0: ARENAS_MAX */
    const uint8_t *gathered;       /* what staged allgathers give, in place of their input */
    const uint8_t *gpu_uuid;       /* of every rank's device; NULL: they are host devices */
    blink_result_t refuse_imports; /* of GPU memory; BLINK_OK: take it */
    void (*take)(fake_t *, const ring_sqe_t *); /* in place of what it does with a submission */
    void (*turn)(fake_t *);                     /* again and again, where it takes submissions */
    /* what it has seen */
    _Atomic uint32_t taken, completed, pieces;
    _Atomic bool gone, stop, aborted, given_up;
    uint32_t members, regions;
    uint64_t held_join;      /* the request */
    ring_sqe_t log[LOG_MAX]; /* what it took, in order; the first LOG_MAX */
    struct {
        char *base;
        size_t bytes;
        uint32_t region;
    } arenas[ARENAS_MAX];
    _Atomic uint32_t arena_count;
    struct {
        blink_unique_id_t id;
        uint32_t rank_count, rank, algorithm, op_timeout_ms;
        int device;
        bool has_gpu;
        uint8_t gpu_uuid[16];
    } joined; /* the last CommInit */
    fake_import_t imports[IMPORTS_MAX];
    _Atomic uint32_t import_count, refused_count, deregistered_count;
    uint32_t deregistered[IMPORTS_MAX];
    _Atomic(window_t *) windows; /* of streams */
};

static void fake_send(fake_t *fake, const Blinkwire__Reply *reply, const int *fds, uint32_t fd_count)
{
    uint8_t bytes[512];
    size_t byte_count = blinkwire__reply__pack(reply, bytes);
    (void)frame_send(fake->socket_fd, bytes, byte_count, fds, fd_count);
}

static void fake_complete(fake_t *fake, uint64_t user_data)
{
    atomic_fetch_add(&fake->completed, 1);
    if (ring_complete(&fake->ring, user_data, fake->fail_with, fake->fail_text))
        ring_raise_event(fake->completion_fd);
}

/* Complete what every member has submitted; `queues` holds the ops of each member in order. */
static void complete_pairs(fake_t *fake, uint64_t queues[][1024], const uint32_t *heads, uint32_t *done)
{
    for (;; (*done)++) {
        for (uint32_t m = 1; m <= fake->pair_members; m++) {
            if (heads[m] == *done)
                return;
        }
        for (uint32_t m = 1; m <= fake->pair_members; m++)
            fake_complete(fake, queues[m][*done]);
    }
}

/* Sleep until the client's counter has come so far; false if the test stops. Only the doorbell wakes it. */
static bool fake_await(fake_t *fake, _Atomic uint64_t *counter, uint64_t least)
{
    struct pollfd doorbell = {.fd = fake->doorbell_fd, .events = POLLIN};
    uint64_t count;
    while (atomic_load(counter) < least && !atomic_load(&fake->stop)) {
        ring_set_engine_sleeping(&fake->ring, true);
        if (atomic_load(counter) < least && !atomic_load(&fake->stop))
            poll(&doorbell, 1, -1);
        ring_set_engine_sleeping(&fake->ring, false);
        (void)!read(fake->doorbell_fd, &count, sizeof(count));
    }
    return !atomic_load(&fake->stop);
}

static char *fake_arena(fake_t *fake, uint32_t region)
{
    for (uint32_t i = 0; i < atomic_load(&fake->arena_count); i++) {
        if (fake->arenas[i].region == region)
            return fake->arenas[i].base;
    }
    return NULL;
}

static uint32_t fake_blocks(const fake_t *fake, uint32_t opcode, bool in)
{
    blink_collective_t collective = collective_of_opcode(opcode);
    return in ? collective_input_blocks(collective, fake->rank_count, true)
              : collective_output_blocks(collective, fake->rank_count, true);
}

/* The output of one piece of elements of a byte: block b is the input's block b (or its only one), every byte
 * b more. Without staged input it is the piece's number. */
static void fake_move(fake_t *fake, const ring_sqe_t *sqe, uint64_t piece, uint64_t elements)
{
    uint64_t slot = piece % STAGING_SLOTS * STAGING_SLOT_BYTES;
    uint32_t in_blocks = fake_blocks(fake, sqe->opcode, true);
    const char *in = fake_arena(fake, sqe->in_region) + sqe->in_offset_bytes + slot;
    char *out = fake_arena(fake, sqe->out_region) + sqe->out_offset_bytes + slot;
    if (!(sqe->flags & RING_SQE_OUT_STAGED))
        return;
    for (uint32_t b = 0; b < fake_blocks(fake, sqe->opcode, false); b++) {
        char *block = out + b * elements;
        if (fake->gathered)
            memcpy(block, fake->gathered + b * elements, elements);
        else if (sqe->flags & RING_SQE_IN_STAGED)
            memcpy(block, in + (b < in_blocks ? b : 0) * elements, elements);
        else
            memset(block, (int)piece, elements);
        for (uint64_t i = 0; b > 0 && !fake->gathered && i < elements; i++)
            block[i] = (char)(block[i] + (char)b);
    }
}

/* Run a staged op, as a daemon whose other ranks are always ready. Elements are bytes. */
static void fake_run_pieces(fake_t *fake, const ring_sqe_t *sqe)
{
    bool in = sqe->flags & RING_SQE_IN_STAGED, out = sqe->flags & RING_SQE_OUT_STAGED;
    window_t *windows = (window_t *)fake_arena(fake, in ? sqe->in_region : sqe->out_region);
    staging_words_t *window = &windows[sqe->window].staging;
    uint64_t most = fake->spans_hosts ? sqe->count : staging_piece_elements(sqe->opcode, fake->rank_count, 1);
    for (uint64_t piece = 0; piece * most < sqe->count; piece++) {
        uint64_t left = sqe->count - piece * most;
        if (in && !fake_await(fake, &window->filled, piece + 1))
            return;
        if (out && piece >= STAGING_SLOTS && !fake_await(fake, &window->drained, piece - STAGING_SLOTS + 1))
            return;
        fake_move(fake, sqe, piece, left < most ? left : most);
        atomic_store(&window->done, piece + 1);
        atomic_fetch_add(&fake->pieces, 1);
        if (atomic_load(&fake->ring.header->client_sleepers) != 0)
            ring_wake_client(&fake->ring);
    }
}

static void fake_take(fake_t *fake, const ring_sqe_t *sqe)
{
    uint32_t number = atomic_load(&fake->taken);
    if (number < LOG_MAX)
        fake->log[number] = *sqe;
    atomic_store(&fake->taken, number + 1);
    if (fake->take)
        fake->take(fake, sqe);
    else if ((sqe->flags & (RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED)) && fake->fail_with == BLINK_OK)
        fake_run_pieces(fake, sqe);
}

static void *fake_engine(void *argument)
{
    fake_t *fake = argument;
    const struct timespec nap = {.tv_nsec = fake->turn ? TURN_NAP_NS : IDLE_NAP_NS};
    static uint64_t queues[MEMBERS_MAX][1024];
    uint32_t heads[MEMBERS_MAX] = {0}, done = 0;
    ring_sqe_t sqe;
    while (!atomic_load(&fake->stop)) {
        while (!atomic_load(&fake->idle) && ring_take(&fake->ring, &sqe)) {
            fake_take(fake, &sqe);
            if (fake->take || sqe.flags & RING_SQE_MORE)
                continue;
            if (fake->pair_members > 0)
                queues[sqe.member][heads[sqe.member]++] = sqe.user_data;
            else
                fake_complete(fake, sqe.user_data);
            if (fake->pair_members > 0)
                complete_pairs(fake, queues, heads, &done);
        }
        if (fake->turn && !atomic_load(&fake->idle))
            fake->turn(fake);
        if (!fake->silent)
            ring_answer_ping(&fake->ring);
        struct pollfd doorbell = {.fd = fake->doorbell_fd, .events = POLLIN};
        uint64_t count;
        ring_set_engine_sleeping(&fake->ring, true);
        if (!ring_has_submission(&fake->ring) || atomic_load(&fake->idle))
            ppoll(&doorbell, 1, &nap, NULL);
        ring_set_engine_sleeping(&fake->ring, false);
        (void)!read(fake->doorbell_fd, &count, sizeof(count));
    }
    return NULL;
}

static const unique_id_t FAKE_HOME = {
    .version = UNIQUE_ID_VERSION, .port = 4711, .instance = 42, .addresses = {{1, 2, 3}, {4, 5, 6}}};

static void answer_hello(fake_t *fake, const Blinkwire__Request *request)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    Blinkwire__HelloReply hello = BLINKWIRE__HELLO_REPLY__INIT;
    int fds[3];
    reply.id = request->id;
    if (fake->answer_version == 0) {
        error.code = BLINK_ERR_PROTOCOL;
        error.text = (char[]){"client speaks versions 1 to 1, daemon 2 to 3"};
        reply.error = &error;
        fake_send(fake, &reply, NULL, 0);
        shutdown(fake->socket_fd, SHUT_RDWR);
        return;
    }
    assert_int_equal(ring_create(RING_ENTRIES, RING_ENTRIES, &fake->ring, &fds[0]), BLINK_OK);
    fds[1] = fake->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fds[2] = fake->completion_fd = ring_create_event();
    ring_set_wait_policy(&fake->ring, RING_WAIT_YIELD);
    assert_int_equal(pthread_create(&fake->engine, NULL, fake_engine, fake), 0);
    hello.version = fake->answer_version;
    hello.device_count = 8;
    hello.home = (ProtobufCBinaryData){UNIQUE_ID_HOME_BYTES, (uint8_t *)(uintptr_t)&FAKE_HOME};
    reply.body_case = BLINKWIRE__REPLY__BODY_HELLO;
    reply.hello = &hello;
    fake_send(fake, &reply, fds, 3);
    close(fds[0]);
}

/* The event first, as a daemon may well send it before anybody asks: right behind the answer to CommInit. */
static void send_comm_lost(fake_t *fake, uint32_t member)
{
    Blinkwire__Reply event = BLINKWIRE__REPLY__INIT;
    Blinkwire__CommLost lost = BLINKWIRE__COMM_LOST__INIT;
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    error.code = BLINK_ERR_ABORTED;
    error.text = (char[]){"rank 1 aborted"};
    lost.member = member;
    lost.error = &error;
    event.body_case = BLINKWIRE__REPLY__BODY_COMM_LOST;
    event.comm_lost = &lost;
    fake_send(fake, &event, NULL, 0);
}

static void answer_held_join(fake_t *fake)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    Blinkwire__CommInitReply joined = BLINKWIRE__COMM_INIT_REPLY__INIT;
    char text[] = "rank 0 gave up";
    reply.id = fake->held_join;
    if (fake->joins_at_last) {
        joined.member = ++fake->members;
        reply.body_case = BLINKWIRE__REPLY__BODY_COMM_INIT;
        reply.comm_init = &joined;
    } else {
        error.code = BLINK_ERR_ABORTED;
        error.text = text;
        reply.error = &error;
    }
    fake_send(fake, &reply, NULL, 0);
}

static void answer_staging(fake_t *fake, const Blinkwire__Request *request)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    Blinkwire__StagingCreateReply created = BLINKWIRE__STAGING_CREATE_REPLY__INIT;
    uint32_t number = atomic_load(&fake->arena_count);
    size_t bytes = request->staging_create->bytes;
    reply.id = request->id;
    if (number == (fake->arenas_max > 0 ? fake->arenas_max : ARENAS_MAX)) {
        error.code = BLINK_ERR_QUOTA;
        error.text = (char[]){"no more staging memory for you"};
        reply.error = &error;
        fake_send(fake, &reply, NULL, 0);
        return;
    }
    assert_int_equal(bytes % (size_t)sysconf(_SC_PAGESIZE), 0);
    int fd = memfd_create("fake-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    fake->arenas[number].base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fake->arenas[number].bytes = bytes;
    fake->arenas[number].region = created.region = ++fake->regions;
    if (request->staging_create->windows)
        fake->windows = (window_t *)fake->arenas[number].base;
    atomic_store(&fake->arena_count, number + 1);
    reply.body_case = BLINKWIRE__REPLY__BODY_STAGING_CREATE;
    reply.staging_create = &created;
    fake_send(fake, &reply, &fd, 1);
    close(fd);
}

/* The import that a message begins or goes on with, with a region. */
static fake_import_t *import_of(fake_t *fake, const Blinkwire__GpuMemRegister *body)
{
    uint32_t number = atomic_load(&fake->import_count);
    if (body->region != 0) {
        assert_int_equal(body->region, fake->imports[number - 1].region);
        return &fake->imports[number - 1];
    }
    const Blinkwire__GpuExtent *first = body->extents[0];
    fake->imports[number] = (fake_import_t){.region = ++fake->regions,
                                            .kind = first->kind,
                                            .offset_bytes = first->offset_bytes,
                                            .bytes = first->bytes,
                                            .pool = first->pool,
                                            .following_bytes = body->following_bytes};
    atomic_store(&fake->import_count, number + 1);
    return &fake->imports[number];
}

static void answer_import(fake_t *fake, const Blinkwire__Request *request, uint32_t fd_count)
{
    const Blinkwire__GpuMemRegister *body = request->gpu_mem_register;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
    Blinkwire__MemRegisterReply registered = BLINKWIRE__MEM_REGISTER_REPLY__INIT;
    reply.id = request->id;
    if (fake->refuse_imports != BLINK_OK) {
        atomic_fetch_add(&fake->refused_count, 1);
        error.code = fake->refuse_imports;
        error.text = (char[]){"not this memory"};
        reply.error = &error;
        fake_send(fake, &reply, NULL, 0);
        return;
    }
    fake_import_t *import = import_of(fake, body);
    import->messages++;
    import->extent_count += (uint32_t)body->n_extents;
    import->fd_count += fd_count;
    for (size_t i = 0; i < body->n_extents; i++)
        import->all_bytes += body->extents[i]->bytes;
    memcpy(import->gpu_uuid, body->gpu_uuid.data, body->gpu_uuid.len);
    registered.region = import->region;
    reply.body_case = BLINKWIRE__REPLY__BODY_MEM_REGISTER;
    reply.mem_register = &registered;
    fake_send(fake, &reply, NULL, 0);
}

static void answer(fake_t *fake, const Blinkwire__Request *request)
{
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    Blinkwire__MemRegisterReply registered = BLINKWIRE__MEM_REGISTER_REPLY__INIT;
    Blinkwire__CommInitReply joined = BLINKWIRE__COMM_INIT_REPLY__INIT;
    reply.id = request->id;
    if (request->body_case == BLINKWIRE__REQUEST__BODY_MEM_REGISTER) {
        registered.region = ++fake->regions;
        reply.body_case = BLINKWIRE__REPLY__BODY_MEM_REGISTER;
        reply.mem_register = &registered;
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_COMM_INIT && fake->holds_joins) {
        fake->held_join = request->id;
        return;
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_COMM_GIVE_UP) {
        assert_int_equal(request->comm_give_up->request, fake->held_join);
        answer_held_join(fake);
        usleep(fake->pause_us);
        atomic_store(&fake->given_up, true);
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_COMM_INIT) {
        const Blinkwire__CommInit *init = request->comm_init;
        memcpy(&fake->joined.id, init->unique_id.data, sizeof(fake->joined.id));
        fake->joined.rank_count = init->rank_count;
        joined.spans_hosts = fake->spans_hosts;
        fake->joined.rank = init->rank;
        fake->joined.device = init->device;
        fake->joined.algorithm = init->algorithm;
        fake->joined.op_timeout_ms = init->op_timeout_ms;
        fake->joined.has_gpu = init->gpu_uuid.len == 16;
        if (fake->joined.has_gpu)
            memcpy(fake->joined.gpu_uuid, init->gpu_uuid.data, 16);
        if (fake->gpu_uuid)
            joined.gpu_uuid = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)fake->gpu_uuid};
        joined.member = ++fake->members;
        joined.device =
            request->comm_init->device < 0 ? request->comm_init->rank : (uint32_t)request->comm_init->device;
        reply.body_case = BLINKWIRE__REPLY__BODY_COMM_INIT;
        reply.comm_init = &joined;
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_COMM_ABORT) {
        atomic_store(&fake->aborted, true);
        send_comm_lost(fake, request->comm_abort->member);
    } else if (request->body_case == BLINKWIRE__REQUEST__BODY_MEM_DEREGISTER) {
        uint32_t number = atomic_load(&fake->deregistered_count);
        fake->deregistered[number % IMPORTS_MAX] = request->mem_deregister->region;
        atomic_store(&fake->deregistered_count, number + 1);
    }
    fake_send(fake, &reply, NULL, 0);
}

static void *fake_control(void *argument)
{
    fake_t *fake = argument;
    frame_t frame;
    fake->socket_fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    while (frame_receive(fake->socket_fd, &frame) == BLINK_OK) {
        Blinkwire__Request *request = blinkwire__request__unpack(NULL, frame.byte_count, frame.bytes);
        if (request->body_case == BLINKWIRE__REQUEST__BODY_HELLO)
            answer_hello(fake, request);
        else if (request->body_case == BLINKWIRE__REQUEST__BODY_STAGING_CREATE)
            answer_staging(fake, request);
        else if (request->body_case == BLINKWIRE__REQUEST__BODY_GPU_MEM_REGISTER)
            answer_import(fake, request, frame.fd_count);
        else
            answer(fake, request);
        blinkwire__request__free_unpacked(request, NULL);
        frame_release(&frame);
    }
    usleep(fake->linger_us);
    atomic_store(&fake->gone, true);
    close(fake->socket_fd);
    return NULL;
}

static void fake_start(fake_t *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(fake->directory, sizeof(fake->directory), "/tmp/blink-test-XXXXXX");
    assert_non_null(mkdtemp(fake->directory));
    snprintf(fake->path, sizeof(fake->path), "%s/sock", fake->directory);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->path);
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listen_fd, 1), 0);
    assert_int_equal(pthread_create(&fake->control, NULL, fake_control, fake), 0);
    alarm(limit_s()); /* a hang is a failure */
}

/* After the client has gone, or to have the daemon die under it. */
static void fake_stop(fake_t *fake)
{
    shutdown(fake->socket_fd, SHUT_RDWR);
    pthread_join(fake->control, NULL);
    if (fake->ring.header) {
        uint64_t one = 1;
        atomic_store(&fake->stop, true);
        (void)!write(fake->doorbell_fd, &one, sizeof(one));
        pthread_join(fake->engine, NULL);
        for (uint32_t i = 0; i < atomic_load(&fake->arena_count); i++)
            munmap(fake->arenas[i].base, fake->arenas[i].bytes);
        ring_unmap(&fake->ring);
        close(fake->doorbell_fd);
        close(fake->completion_fd);
    }
    close(fake->listen_fd);
    unlink(fake->path);
    rmdir(fake->directory);
    alarm(0);
}

static blink_context_t *open_context(fake_t *fake)
{
    blink_context_t *context = NULL;
    fake->answer_version = BLINK_WIRE_VERSION_MAX;
    fake_start(fake);
    if (blink_open(fake->path, &context) != BLINK_OK)
        fail_msg("%s", blink_last_error());
    return context;
}

/* A submission it took, by its number from 0. */
static inline const ring_sqe_t *fake_seen(fake_t *fake, uint32_t number)
{
    assert_true(number < atomic_load(&fake->taken));
    return &fake->log[number];
}

static blink_comm_t *join(blink_context_t *context, int rank_count, int rank)
{
    blink_unique_id_t id = {{1}};
    blink_comm_t *comm = NULL;
    if (blink_comm_init_rank(context, &id, rank_count, rank, NULL, &comm) != BLINK_OK)
        fail_msg("%s", blink_last_error());
    return comm;
}

#define assert_fails(code, sentence, call)                                                                   \
    do {                                                                                                     \
        assert_int_equal((call), (code));                                                                    \
        if (!strstr(blink_last_error(), (sentence)))                                                         \
            fail_msg("\"%s\" does not say \"%s\"", blink_last_error(), (sentence));                          \
    } while (0)

#endif

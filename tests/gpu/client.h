/* What the tests of libblinkclient on GPUs share: the stand-in driver, and a fake daemon that runs ops of
 * streams, stored ops and staged ones as windows.h says, without any rank but the one. */
#ifndef TESTS_GPU_CLIENT_H
#define TESTS_GPU_CLIENT_H

#include "base/cuda_driver.h"
#include "unit/client/fake_daemon.h"

#define OPS_MAX    256u
#define STORED_MAX 512u

#define CU(name, ...)                                                                                        \
    do {                                                                                                     \
        CUresult cu_result_ = cu->name(__VA_ARGS__);                                                         \
        if (cu_result_ != CUDA_SUCCESS)                                                                      \
            fail_msg("%s:%d: " #name ": %d", __FILE__, __LINE__, (int)cu_result_);                           \
    } while (0)

#define BLINK(call)                                                                                          \
    do {                                                                                                     \
        if ((call) != BLINK_OK)                                                                              \
            fail_msg("%s:%d: %s", __FILE__, __LINE__, blink_last_error());                                   \
    } while (0)

static const cuda_driver_t *cu;

/* One op in the fake daemon. */
typedef struct gpu_op {
    ring_sqe_t sqe;
    uint32_t group;  /* the ops of one completion */
    uint64_t number; /* in its window, from 1 */
    uint64_t piece;
    bool is_over;
} gpu_op_t;

typedef struct gpu_daemon {
    fake_t fake;
    uint8_t uuid[16];
    gpu_op_t ops[OPS_MAX];
    uint32_t op_count, group;
    uint64_t numbers[STORED_MAX], ended[STORED_MAX]; /* of windows */
    ring_sqe_t stored[STORED_MAX];                   /* opcode 0: none */
    _Atomic uint32_t forgotten, runs;
    void (*run)(struct gpu_daemon *,
                const ring_sqe_t *); /* what an op does that is not staged; NULL: nothing */
    _Atomic bool hold;               /* start nothing */
    blink_context_t *context;
    CUcontext cuda;
} gpu_daemon_t;

static bool is_staged(const gpu_op_t *op)
{
    return op->sqe.flags & (RING_SQE_IN_STAGED | RING_SQE_OUT_STAGED);
}

static bool is_stream(const gpu_op_t *op)
{
    return op->sqe.flags & RING_SQE_STREAM;
}

static void run_op(gpu_daemon_t *daemon, const ring_sqe_t *sqe)
{
    if (daemon->run)
        daemon->run(daemon, sqe);
    atomic_fetch_add(&daemon->runs, 1);
}

static void take_op(fake_t *fake, const ring_sqe_t *sqe)
{
    gpu_daemon_t *daemon = (gpu_daemon_t *)fake;
    if (sqe->opcode == RING_OP_FORGET) {
        daemon->stored[sqe->window].opcode = RING_OP_NOP;
        atomic_fetch_add(&daemon->forgotten, 1);
        fake_complete(fake, sqe->user_data);
    } else if (sqe->flags & RING_SQE_STORED) {
        daemon->stored[sqe->window] = *sqe;
        if (!(sqe->flags & RING_SQE_MORE))
            fake_complete(fake, sqe->user_data);
    } else {
        assert_true(daemon->op_count < OPS_MAX);
        gpu_op_t *op = &daemon->ops[daemon->op_count++];
        *op = (gpu_op_t){.sqe = *sqe, .group = daemon->group};
        if (is_stream(op))
            op->number = ++daemon->numbers[sqe->window];
        daemon->group += !(sqe->flags & RING_SQE_MORE);
    }
}

/* An earlier op of the member that is not of the same group has to end first; so has the group to be
 * complete. */
static bool is_in_turn(const gpu_daemon_t *daemon, uint32_t index)
{
    const gpu_op_t *op = &daemon->ops[index];
    for (uint32_t i = 0; i < index; i++) {
        const gpu_op_t *other = &daemon->ops[i];
        if (!other->is_over && other->sqe.member == op->sqe.member && other->group != op->group)
            return false;
    }
    return op->group != daemon->group;
}

/* GCC does not read an atomic pointer atomically where it is subscripted: so it is loaded first. */
static window_t *window_of(gpu_daemon_t *daemon, const gpu_op_t *op)
{
    window_t *windows = atomic_load(&daemon->fake.windows);
    return &windows[op->sqe.window];
}

static void end_op(gpu_daemon_t *daemon, gpu_op_t *op)
{
    op->is_over = true;
    if (is_stream(op))
        atomic_store(&window_of(daemon, op)->stream.ended, ++daemon->ended[op->sqe.window]);
    const gpu_op_t *last = op;
    for (uint32_t i = 0; i < daemon->op_count; i++) {
        if (daemon->ops[i].group == op->group && !daemon->ops[i].is_over)
            return;
        if (daemon->ops[i].group == op->group && !(daemon->ops[i].sqe.flags & RING_SQE_MORE))
            last = &daemon->ops[i];
    }
    fake_complete(&daemon->fake, last->sqe.user_data);
}

static void move_pieces(gpu_daemon_t *daemon, gpu_op_t *op)
{
    bool in = op->sqe.flags & RING_SQE_IN_STAGED, out = op->sqe.flags & RING_SQE_OUT_STAGED;
    window_t *windows = (window_t *)fake_arena(&daemon->fake, in ? op->sqe.in_region : op->sqe.out_region);
    staging_words_t *window = &windows[op->sqe.window].staging;
    uint64_t most = staging_piece_elements(op->sqe.opcode, daemon->fake.rank_count, 1);
    uint64_t pieces = (op->sqe.count - 1) / most + 1;
    if (daemon->fake.fail_with != BLINK_OK) {
        end_op(daemon, op);
        return;
    }
    while (op->piece < pieces) {
        uint64_t left = op->sqe.count - op->piece * most;
        if ((in && atomic_load(&window->filled) <= op->piece) ||
            (out && atomic_load(&window->drained) + STAGING_SLOTS <= op->piece))
            return;
        fake_move(&daemon->fake, &op->sqe, op->piece, left < most ? left : most);
        atomic_store(&window->done, ++op->piece);
        ring_notify(&daemon->fake.ring);
    }
    end_op(daemon, op);
}

/* Whether an op's group is complete and all of it has ended. */
static bool is_group_over(const gpu_daemon_t *daemon, uint32_t group)
{
    for (uint32_t i = 0; i < daemon->op_count; i++) {
        if (daemon->ops[i].group == group && !daemon->ops[i].is_over)
            return false;
    }
    return group != daemon->group;
}

/* Wherever they stand: a client that never pauses always has a younger op under way. The log of the test is
 * the fake's. */
static void forget_ended(gpu_daemon_t *daemon)
{
    bool goes[OPS_MAX];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < daemon->op_count; i++)
        goes[i] = daemon->ops[i].is_over && is_group_over(daemon, daemon->ops[i].group);
    for (uint32_t i = 0; i < daemon->op_count; i++) {
        if (!goes[i])
            daemon->ops[kept++] = daemon->ops[i];
    }
    daemon->op_count = kept;
}

static void turn(fake_t *fake)
{
    gpu_daemon_t *daemon = (gpu_daemon_t *)fake;
    if (atomic_load(&daemon->hold))
        return;
    if (atomic_load(&fake->aborted)) {
        fake->fail_text = "aborted";
        fake->fail_with = BLINK_ERR_ABORTED;
    }
    for (uint32_t i = 0; i < daemon->op_count; i++) {
        gpu_op_t *op = &daemon->ops[i];
        if (op->is_over || !is_in_turn(daemon, i))
            continue;
        if (is_staged(op)) {
            move_pieces(daemon, op);
        } else if (atomic_load(&fake->aborted)) {
            end_op(daemon, op);
        } else if (!is_stream(op) || atomic_load(&window_of(daemon, op)->stream.reached) >= op->number) {
            run_op(daemon, &op->sqe);
            end_op(daemon, op);
        }
    }
    window_t *windows = atomic_load(&fake->windows);
    for (uint32_t window = 0; windows && window < STORED_MAX; window++) {
        if (daemon->stored[window].opcode == RING_OP_NOP ||
            atomic_load(&windows[window].graph.requested) != 1)
            continue;
        atomic_store(&windows[window].graph.requested, 0);
        run_op(daemon, &daemon->stored[window]);
        atomic_store(&windows[window].graph.ended, 1);
    }
    forget_ended(daemon);
}

static void uuid_of(int ordinal, uint8_t uuid[16])
{
    CUdevice device;
    CUuuid found;
    CU(cuDeviceGet, &device, ordinal);
    CU(cuDeviceGetUuid, &found, device);
    memcpy(uuid, found.bytes, 16);
}

/* A daemon whose devices are on GPU 0, and a context of it. `run` may be NULL. */
static gpu_daemon_t *start(void (*run)(gpu_daemon_t *, const ring_sqe_t *))
{
    gpu_daemon_t *daemon = calloc(1, sizeof(*daemon));
    daemon->run = run;
    uuid_of(0, daemon->uuid);
    CU(cuCtxGetCurrent, &daemon->cuda);
    daemon->fake.rank_count = 1;
    daemon->fake.gpu_uuid = daemon->uuid;
    daemon->fake.take = take_op;
    daemon->fake.turn = turn;
    daemon->context = open_context(&daemon->fake);
    return daemon;
}

static void finish(gpu_daemon_t *daemon)
{
    blink_close(daemon->context);
    fake_stop(&daemon->fake);
    free(daemon);
}

/* GPU 0 is current from here on. */
static int find_driver(void **state)
{
    (void)state;
    cu = cuda_driver_find(true);
    if (!cu)
        fail_msg("%s", blink_error_text());
    CUcontext context;
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    return 0;
}

static void *pointer_to(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

#endif

/*
 * libblinkclient: collectives through the blinkd daemon of this node.
 *
 * Link with `pkg-config --cflags --libs blinkclient` or CMake's `find_package(blinkclient)` (target
 * blink::client).
 *
 * How it is used: blink_open() connects to the daemon; blink_mem_alloc() makes memory that the daemon can
 * reach; every rank calls blink_comm_init_rank() with the id one of them made; collectives are submitted with
 * blink_all_reduce() and blink_broadcast() and return at once with an op to blink_wait() for.
 *
 * Units: sizes are bytes and counts are elements, as the names say.
 *
 * Errors: every call that can fail returns a blink_result_t; blink_last_error() then holds one sentence that
 * names the offending value. Unless a call says otherwise it may also return
 *   BLINK_ERR_INVALID_ARGUMENT  an argument is NULL or out of its domain,
 *   BLINK_ERR_NO_MEMORY         memory ran out,
 *   BLINK_ERR_DAEMON_LOST       the daemon ended or the connection broke; only closing and freeing still work.
 *
 * Threads: every function is thread-safe. Handles may be shared by threads; a handle must not be used during
 * or after the call that frees it. Collectives of one communicator are matched between ranks by the order of
 * submission, so threads that submit to one communicator must agree on an order themselves.
 *
 * Fork: a child must not use handles of its parent; it opens its own context.
 */
#ifndef BLINK_BLINK_H
#define BLINK_BLINK_H

#include <blink/types.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BLINK_VERSION_MAJOR 0
#define BLINK_VERSION_MINOR 1
#define BLINK_VERSION_PATCH 0

/** A connection to the daemon, with its rings and registered memory. */
typedef struct blink_context blink_context_t;

/** One rank of a communicator. */
typedef struct blink_comm blink_comm_t;

/** A submitted operation that has not been waited for yet. */
typedef struct blink_op blink_op_t;

/** Names a communicator while its ranks gather. 128 random bits: whoever knows it (and is the same user) may
 * join. */
typedef struct blink_unique_id {
    unsigned char bytes[16];
} blink_unique_id_t;

/** Options of blink_comm_init_rank(). Initialise with BLINK_COMM_CONFIG_INIT; all ranks must give the same
 * algorithm. */
typedef struct blink_comm_config {
    size_t struct_bytes;         /**< sizeof(blink_comm_config_t), set by the initialiser */
    int device;                  /**< device of this rank, 0-based; -1: the device whose number is the rank */
    blink_algorithm_t algorithm; /**< how collectives are planned */
} blink_comm_config_t;

#define BLINK_COMM_CONFIG_INIT                                                                               \
    {                                                                                                        \
        sizeof(blink_comm_config_t), -1, BLINK_ALGORITHM_AUTO                                                \
    }

/** Version of the library at run time, "major.minor.patch". Static. */
const char *blink_version(void);

/** The sentence that explains the last failure of a blink call on this thread; "" if none. Valid until this
 * thread's next failing blink call. */
const char *blink_last_error(void);

/** Constant name of a result, "BLINK_ERR_PEER_LOST" for instance. Static. */
const char *blink_result_name(blink_result_t result);

/* ---- connection ---- */

/**
 * Connect to the daemon.
 * @param socket_path  NULL: the environment variable BLINK_SOCKET if set, else /run/blinkd/blinkd.sock.
 * @param context      receives a context owned by the caller; blink_close() it.
 * Errors: BLINK_ERR_CONNECT (nobody listens; names the path), BLINK_ERR_PROTOCOL (versions do not meet; names
 * both), BLINK_ERR_QUOTA, BLINK_ERR_SYSTEM.
 */
blink_result_t blink_open(const char *socket_path, blink_context_t **context);

/**
 * Disconnect and free the context with everything made from it: communicators, unfinished ops (their memory
 * is not touched by the daemon any more once this returns), regions and blink_mem_alloc() memory. Peers of
 * communicators not destroyed before see BLINK_ERR_PEER_LOST. NULL is ignored.
 */
void blink_close(blink_context_t *context);

/** Devices the daemon offers. */
blink_result_t blink_device_count(blink_context_t *context, int *count);

/** Empty operation: completes as soon as the daemon has seen it. Measures the round trip. *op as for
 * collectives. */
blink_result_t blink_nop(blink_context_t *context, blink_op_t **op);

/* ---- memory ---- */

/**
 * Allocate zeroed, page-aligned memory that the daemon can reach (a memfd, with huge pages where the system
 * grants them). Freed by blink_mem_free() or blink_close(). Errors: BLINK_ERR_QUOTA, BLINK_ERR_SYSTEM.
 */
blink_result_t blink_mem_alloc(blink_context_t *context, size_t bytes, void **address);

/**
 * Free blink_mem_alloc() memory. Waits until no collective uses it. NULL is ignored.
 * Errors: BLINK_ERR_NOT_REGISTERED (not the start of such memory). Even when the daemon is lost the memory is
 * freed.
 */
blink_result_t blink_mem_free(blink_context_t *context, void *address);

/**
 * Make memory of your own known to the daemon: [address, address + bytes) must be a MAP_SHARED mapping of
 * descriptor `fd` at `offset_bytes` (page-aligned). The descriptor must be a memfd sealed with F_SEAL_SHRINK,
 * not sealed against writing and not of huge pages; it may be closed after the call. Regions must not
 * overlap. Errors: BLINK_ERR_INVALID_ARGUMENT (which of these does not hold), BLINK_ERR_EXISTS (overlaps a
 * region), BLINK_ERR_QUOTA, BLINK_ERR_SYSTEM.
 */
blink_result_t blink_mem_register(blink_context_t *context, void *address, size_t bytes, int fd,
                                  size_t offset_bytes);

/**
 * Undo blink_mem_register(). Waits until no collective uses the region; the mapping stays the caller's.
 * Errors: BLINK_ERR_NOT_REGISTERED (no region starts there).
 */
blink_result_t blink_mem_deregister(blink_context_t *context, void *address);

/* ---- communicators ---- */

/** Make an id for a new communicator; hand it to the other ranks by whatever means. Errors: BLINK_ERR_SYSTEM.
 */
blink_result_t blink_get_unique_id(blink_unique_id_t *id);

/**
 * Join a communicator as one of its ranks. Blocks until all `rank_count` ranks have joined (threads of one
 * process may be ranks of one communicator).
 * @param config  NULL for defaults.
 * @param comm    receives a handle owned by the caller; blink_comm_destroy() it.
 * Errors: BLINK_ERR_MISMATCH (rank counts or algorithms differ between ranks), BLINK_ERR_EXISTS (the rank or
 * its device is taken already; the ranks that joined are not harmed), BLINK_ERR_NOT_FOUND (no such device),
 * BLINK_ERR_PERMISSION (another user's communicator), BLINK_ERR_TIMEOUT (not all ranks came in time; names
 * the missing ones), BLINK_ERR_PEER_LOST (a rank that had joined went away), BLINK_ERR_QUOTA,
 * BLINK_ERR_UNREACHABLE.
 */
blink_result_t blink_comm_init_rank(blink_context_t *context, const blink_unique_id_t *id, int rank_count,
                                    int rank, const blink_comm_config_t *config, blink_comm_t **comm);

/**
 * Leave and free. Waits for this rank's ops. The other ranks may finish ops that all have submitted, and then
 * destroy theirs; later ops of theirs fail with BLINK_ERR_PEER_LOST. NULL is ignored.
 */
blink_result_t blink_comm_destroy(blink_comm_t *comm);

/** End the communicator for all ranks: ops under way and later ones fail with BLINK_ERR_ABORTED. The handle
 * remains to be destroyed. Returns without waiting for the peers. */
blink_result_t blink_comm_abort(blink_comm_t *comm);

/** Whether the communicator has failed by itself: *result is BLINK_OK or why it is of no more use
 * (BLINK_ERR_PEER_LOST, BLINK_ERR_ABORTED, BLINK_ERR_DAEMON_LOST…); blink_last_error() then has the sentence.
 * The notice and completions travel different ways: for a moment after an op has failed this may still say
 * BLINK_OK. */
blink_result_t blink_comm_async_error(blink_comm_t *comm, blink_result_t *result);

blink_result_t blink_comm_rank(const blink_comm_t *comm, int *rank);
blink_result_t blink_comm_size(const blink_comm_t *comm, int *rank_count);
blink_result_t blink_comm_device(const blink_comm_t *comm, int *device);

/* ---- collectives ----
 *
 * All ranks submit the same collectives with the same count, type, operator and root in the same order. A
 * submission returns at once; buffers belong to the daemon until the op has been waited for. *op is owned by
 * the caller and freed by blink_wait(), or by the blink_test() that reports it done. Buffers must lie in
 * memory of blink_mem_alloc() or blink_mem_register(). A count of zero succeeds and moves nothing, buffers
 * may then be NULL. All operators are applied in the order and precision that the plan fixes: results are
 * bit-identical on all ranks.
 *
 * Errors at submission: BLINK_ERR_NOT_REGISTERED, BLINK_ERR_OUT_OF_RANGE (the text names the overrun),
 * BLINK_ERR_INVALID_ARGUMENT (unknown enum, misaligned pointer, root outside the ranks, size overflow, buffers
 * that overlap without being equal).
 *
 * Errors at blink_wait()/blink_test(): BLINK_ERR_MISMATCH (the ranks disagree; names two of them and both
 * values), BLINK_ERR_PEER_LOST, BLINK_ERR_ABORTED, BLINK_ERR_TIMEOUT, BLINK_ERR_UNREACHABLE. The receive buffer
 * is then undefined.
 *
 * Limits: 1,048,576 ops not waited for per context (BLINK_ERR_NO_MEMORY beyond); what exceeds the ring is kept by
 * the library and moved on by later calls. 256 live ranks per context (BLINK_ERR_QUOTA at blink_comm_init_rank()).
 */

/** recv[i] = send of rank 0 [i] ⊕ … ⊕ send of rank n-1 [i], on every rank. In place: send == recv. */
blink_result_t blink_all_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_redop_t redop, blink_comm_t *comm, blink_op_t **op);

/** recv[i] = send of rank `root` [i], on every rank. `send` is read on the root only and may be NULL
 * elsewhere. In place on the root: send == recv. */
blink_result_t blink_broadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_op_t **op);

/** Wait for the op, free it and return how it ended. */
blink_result_t blink_wait(blink_op_t *op);

/** *done: whether the op has ended. If so it is freed and the return value is how it ended; else BLINK_OK. */
blink_result_t blink_test(blink_op_t *op, bool *done);

/** A descriptor, owned by the context, that becomes readable when ops complete: poll() it, then read 8 bytes
 * from it (it is non-blocking), then blink_test() the ops. Completions before the first call do not
 * count. */
blink_result_t blink_poll_fd(blink_context_t *context, int *fd);

#ifdef __cplusplus
}
#endif
#endif

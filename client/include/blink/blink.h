/*
 * libblinkclient: collectives through the blinkd daemon of this node.
 *
 * Link with `pkg-config --cflags --libs blinkclient` or CMake's `find_package(blinkclient)` (target
 * blink::client).
 *
 * How it is used: blink_open() connects to the daemon; blink_mem_alloc() makes memory that the daemon can
 * reach; every rank calls blink_comm_init_rank() with the id one of them made; collectives
 * (blink_all_reduce() and its like) are submitted and return at once with an op to blink_wait() for.
 *
 * Units: sizes are bytes and counts are elements, as the names say.
 *
 * Errors: every call that can fail returns a blink_result_t; blink_last_error() then holds one sentence that
 * names the offending value. Unless a call says otherwise it may also return
 *
 *   BLINK_ERR_INVALID_ARGUMENT  an argument is NULL or out of its domain;
 *   BLINK_ERR_NO_MEMORY         memory ran out;
 *   BLINK_ERR_DAEMON_LOST       the daemon ended or the connection broke:
 *                               only closing and freeing still work.
 *
 * Blocking: a call returns at once unless its comment says that it waits. No call waits for ever for a daemon
 * that is dead, stopped or stuck: while anything waits for the daemon (an op that has not ended, a call) the
 * library asks it for a sign of life, which a daemon that is merely busy gives. Without one for the *daemon
 * time-out*, the seconds in the environment variable BLINK_DAEMON_TIMEOUT when the context is opened (30 by
 * default, 0: for ever), the context is lost: what waits ends with BLINK_ERR_DAEMON_LOST, and the sentence
 * says whether the process is stopped, has ended or does not answer. A call that waits "for the daemon's
 * answer" waits no longer than that. What ops wait for is limited by the daemon (blink_comm_config_t, and
 * docs/run.md for its settings).
 *
 * Ownership: what a call makes is the caller's, to be freed by the call that its comment names. Arguments are
 * read before the call returns and stay the caller's; buffers of collectives are in use until the op has
 * ended.
 *
 * Threads: every function is thread-safe. Handles may be shared by threads; a handle must not be used during
 * or after the call that frees it. Collectives of one communicator are matched between ranks by the order of
 * submission, so threads that submit to one communicator must agree on an order themselves.
 *
 * Fork: a child must not use handles of its parent; it opens its own context.
 *
 * Environment: an empty variable is as good as none. A program that has been given privileges by being
 * started (set-user-ID and the like) has none of the variables. Those of a launcher are listed at
 * blink_comm_init_launched(). Three are read once, by the process's first blink_open():
 *
 *   BLINK_DEBUG      info: lines on stderr when contexts are opened, when communicators are joined, split,
 *                    left and aborted, and on every failure; trace: also when ops are submitted and end;
 *   BLINK_ALGORITHM  an algorithm's name, as blinkctl has it, where a program asks for BLINK_ALGORITHM_AUTO;
 *   BLINK_TIMEOUT    op_timeout_ms where a program leaves it 0, in seconds from 0.001 to 4,000,000.
 *
 * All ranks of a communicator must have the same in the last two. docs/program.md has more on all of them.
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

/** The version of this header as one number that grows: 1.2.3 is 10203. */
#define BLINK_VERSION_NUMBER (BLINK_VERSION_MAJOR * 10000 + BLINK_VERSION_MINOR * 100 + BLINK_VERSION_PATCH)

/** A connection to the daemon, with its rings and registered memory. */
typedef struct blink_context blink_context_t;

/** One rank of a communicator. */
typedef struct blink_comm blink_comm_t;

/** A submitted operation that has not been waited for yet. */
typedef struct blink_op blink_op_t;

/** A stream of CUDA: a cudaStream_t or CUstream is one. NULL is CUDA's legacy default stream, also in
 * programs that were compiled for per-thread ones: these pass cudaStreamPerThread. */
typedef struct CUstream_st *blink_stream_t;

/**
 * Names a communicator while its ranks gather: where they gather, and 128 random bits. Whoever knows it (and
 * is the same user) may join. Its bytes may go any way to the other ranks, but must come as they are.
 */
typedef struct blink_unique_id {
    unsigned char bytes[64];
} blink_unique_id_t;

/** What a communicator's name has at most, its NUL included. */
#define BLINK_NAME_BYTES 64

/**
 * Options of blink_comm_init_rank(). Initialise with BLINK_COMM_CONFIG_INIT; all ranks must give the same
 * algorithm and timeouts.
 */
typedef struct blink_comm_config {
    /** sizeof(blink_comm_config_t), set by the initialiser. Programs and libraries of different versions go
     * together: fields that an older program's struct lacks are 0, as in every later field's default, and of
     * a newer program's struct, fields that the library does not know must be 0 (BLINK_ERR_UNSUPPORTED). */
    size_t struct_bytes;

    /** Device of this rank, 0-based. -1: the device of the CUDA context that is current in the calling
     * thread, if there is one and the daemon serves its GPU; else the device whose number is the rank. */
    int device;

    /** How collectives are planned. BLINK_ALGORITHM_AUTO: as BLINK_ALGORITHM in the environment says, if it
     * is set. */
    blink_algorithm_t algorithm;

    /** How long an op may wait for ranks to submit it, in milliseconds. 0: what BLINK_TIMEOUT in the
     * environment says, else the daemon's setting. */
    unsigned int op_timeout_ms;

    /** How long the ranks may take to join, from the first one on, in milliseconds. 0: the daemon's setting.
     */
    unsigned int init_timeout_ms;

    /** What the communicator is called by blinkctl, in errors and in the daemon's log, in printable ASCII;
     * copied. NULL: it has a number alone. Of several names the daemon takes that of its host's first rank.
     */
    const char *name;
} blink_comm_config_t;

#define BLINK_COMM_CONFIG_INIT                                                                               \
    {                                                                                                        \
        sizeof(blink_comm_config_t), -1, BLINK_ALGORITHM_AUTO, 0, 0, NULL                                    \
    }

/** Version of the library at run time, "major.minor.patch". A constant string. */
const char *blink_version(void);

/** The same as a number, to be compared with BLINK_VERSION_NUMBER. */
int blink_version_number(void);

/**
 * The sentence that explains the last failure of a blink call on this thread; "" if there was none. Borrowed,
 * and valid until this thread's next failing blink call.
 */
const char *blink_last_error(void);

/** Name of a result, "BLINK_ERR_PEER_LOST" for instance. A constant string. */
const char *blink_result_name(blink_result_t result);

/** Bytes of one element of a blink_datatype_t; 0: the number is none. */
uint32_t blink_datatype_bytes(uint32_t datatype);

/* ---- connection ---- */

/**
 * Connect to the daemon. Waits for the daemon's answer. blinkctl shows the connection with the program's name
 * and the job's, which is the first of BLINK_JOB, SLURM_JOB_ID with SLURM_STEP_ID, PBS_JOBID, LSB_JOBID,
 * FLUX_JOB_ID, TORCHELASTIC_RUN_ID and PMIX_NAMESPACE that is set.
 * @param socket_path  NULL: the environment variable BLINK_SOCKET if set, else /run/blinkd/blinkd.sock.
 * @param context      receives a context; blink_close() frees it.
 *
 *     blink_context_t *context;
 *     if (blink_open(NULL, &context) != BLINK_OK) {
 *         fprintf(stderr, "%s\n", blink_last_error());
 *         return 1;
 *     }
 *
 * Errors: BLINK_ERR_CONNECT (nobody listens; names the path), BLINK_ERR_PROTOCOL (versions do not meet; names
 * both), BLINK_ERR_INVALID_ARGUMENT (BLINK_DAEMON_TIMEOUT, BLINK_DEBUG, BLINK_ALGORITHM or BLINK_TIMEOUT is
 * not what it should be; names the variable, its value and what would be right), BLINK_ERR_QUOTA,
 * BLINK_ERR_SYSTEM.
 */
blink_result_t blink_open(const char *socket_path, blink_context_t **context);

/**
 * Disconnect and free the context with everything made from it: communicators, unfinished ops, regions and
 * blink_mem_alloc() memory. Waits until the daemon has let go of the memory, which is not touched any more
 * once this returns, but no longer than 5 s. Peers of communicators that were not destroyed before see
 * BLINK_ERR_PEER_LOST. No other thread may be using the context. NULL is ignored.
 */
void blink_close(blink_context_t *context);

/**
 * Version of the daemon, as it told when the context was opened.
 * @param version  receives a text as that of blink_version(), borrowed, and valid until blink_close().
 */
blink_result_t blink_daemon_version(blink_context_t *context, const char **version);

/** How many devices the daemon offers. */
blink_result_t blink_device_count(blink_context_t *context, int *count);

/**
 * Submit an empty operation, which is complete as soon as the daemon has seen it: it measures the round trip.
 * *op as for collectives. Errors: those at submission that concern no buffers.
 */
blink_result_t blink_nop(blink_context_t *context, blink_op_t **op);

/* ---- memory ---- */

/**
 * Allocate `bytes` bytes of zeroed, page-aligned memory that the daemon can reach (a memfd, with huge pages
 * where the system grants them). Waits for the daemon's answer.
 * @param address  receives the memory; blink_mem_free() or blink_close() frees it.
 *
 *     void *memory;
 *     CHECK(blink_mem_alloc(context, 1000 * sizeof(float), &memory));
 *     float *values = memory;
 *
 * Errors: BLINK_ERR_QUOTA, BLINK_ERR_SYSTEM.
 */
blink_result_t blink_mem_alloc(blink_context_t *context, size_t bytes, void **address);

/**
 * Free blink_mem_alloc() memory. Waits until no collective uses it, that is until those which do have ended,
 * and for the daemon's answer. Even when the daemon is lost the memory is freed. NULL is ignored. Errors:
 * BLINK_ERR_NOT_REGISTERED (not the start of such memory).
 */
blink_result_t blink_mem_free(blink_context_t *context, void *address);

/**
 * Make memory of your own known to the daemon: [address, address + bytes) must be a MAP_SHARED mapping of
 * descriptor `fd` at `offset_bytes` (page-aligned). The descriptor must be a memfd sealed with F_SEAL_SHRINK,
 * not sealed against writing and not of huge pages; it may be closed after the call. Regions must not
 * overlap. The call has all pages of the mapping, and an op that comes to a page which has been punched out
 * since fails with BLINK_ERR_SYSTEM. The mapping stays the caller's, and must stay until
 * blink_mem_deregister() or blink_close(). Waits for the daemon's answer. Errors: BLINK_ERR_INVALID_ARGUMENT
 * (which of these does not hold), BLINK_ERR_EXISTS (overlaps a region), BLINK_ERR_QUOTA, BLINK_ERR_SYSTEM.
 */
blink_result_t blink_mem_register(blink_context_t *context, void *address, size_t bytes, int fd,
                                  size_t offset_bytes);

/**
 * Undo blink_mem_register(). Waits as blink_mem_free(); the mapping stays the caller's.
 * Errors: BLINK_ERR_NOT_REGISTERED (no region starts there).
 */
blink_result_t blink_mem_deregister(blink_context_t *context, void *address);

/**
 * Have the daemon open GPU memory before a collective uses it. Its first use does that as well, and takes the
 * time for it; and whether memory has to be staged, which the graph of a captured stream cannot hold, is
 * known before the capture. Opened are whole allocations: one call for a pool of buffers does. Memory of the
 * host that collectives on GPUs use in place is ready as it is. Waits for the daemon's answer. Memory that
 * was prepared is given back as memory that was used: see blink_mem_release().
 * @param address, bytes  all in one allocation, or in mappings that adjoin.
 * Returns BLINK_OK if collectives use it in place: memory of a GPU those on that GPU, memory of the host all.
 * Errors: BLINK_ERR_UNSUPPORTED (collectives on GPUs stage it; says what it is and why),
 * BLINK_ERR_OUT_OF_RANGE (it passes the end of its memory), BLINK_ERR_NOT_FOUND (the daemon has no device on
 * this GPU), BLINK_ERR_QUOTA, BLINK_ERR_SYSTEM.
 */
blink_result_t blink_mem_prepare(blink_context_t *context, const void *address, size_t bytes);

/**
 * Say that GPU memory is about to be freed: what an allocator calls before cudaFree(), cudaFreeAsync(),
 * cuMemUnmap() and their like. The daemon has open what collectives use in place, and CUDA frees nothing that
 * is open elsewhere; without this call the memory comes back only when the library finds out, about a second
 * later. Waits until no collective uses the memory, that is until those which do have ended (also on streams:
 * a stream may have to be waited for first), and for the daemon's answer, by when the daemon has closed it.
 * The memory stays the caller's, and nothing may be submitted with it until it has been freed or the call has
 * returned; afterwards it may be used again. Captured ops with it fail when they are replayed. What the
 * daemon has not open (memory of the host, memory that no collective has used) is ignored, so that the call
 * costs little. It calls no driver unless `address` is NULL.
 * @param address  any address in an allocation, which is given back as a whole; of several mappings that
 *                 adjoin, one in each that is unmapped. NULL: all that was freed without this call, which is
 *                 what an allocator asks for when CUDA is out of memory, before it tries again.
 * Errors: none but those of all calls.
 */
blink_result_t blink_mem_release(blink_context_t *context, const void *address);

/**
 * Promise that from now on blink_mem_release() is called for all GPU memory that collectives have used,
 * before it is freed. Memory of a pool (cudaMallocAsync()) is staged without this promise, for CUDA leaves
 * undefined what happens if it is freed while another process has it open, and forbids to ask about it once
 * it is freed. The library then looks for no freed memory by itself.
 */
blink_result_t blink_mem_promise_release(blink_context_t *context);

/* ---- communicators ---- */

/**
 * Make an id for a new communicator, to be handed to the other ranks by whatever means: the ranks gather at
 * the daemon of this context. The id outlives the context, so that a process may close it and start the
 * ranks then. Errors: BLINK_ERR_SYSTEM.
 */
blink_result_t blink_get_unique_id(blink_context_t *context, blink_unique_id_t *id);

/**
 * Join a communicator as one of its ranks. Waits until all `rank_count` ranks have joined (threads of one
 * process may be ranks of one communicator), no longer than the configuration's init_timeout_ms.
 * @param id      of blink_get_unique_id(), the same on all ranks.
 * @param rank    0 to rank_count - 1, another on each rank.
 * @param config  NULL for defaults.
 * @param comm    receives a handle; blink_comm_destroy() frees it.
 *
 *     blink_comm_t *comm;
 *     blink_comm_config_t config = BLINK_COMM_CONFIG_INIT;
 *     config.name = "gradients";
 *     CHECK(blink_comm_init_rank(context, &id, rank_count, rank, &config, &comm));
 *
 * Errors: BLINK_ERR_MISMATCH (rank counts, algorithms or timeouts differ between ranks), BLINK_ERR_EXISTS
 * (the rank or its device is taken already; the ranks that joined are not harmed), BLINK_ERR_NOT_FOUND (no
 * such device), BLINK_ERR_UNSUPPORTED (some devices are on GPUs, others on the host), BLINK_ERR_SYSTEM (the
 * daemon's GPU worker has ended and is being replaced: it can be tried again), BLINK_ERR_PERMISSION (another
 * tenant's communicator), BLINK_ERR_TIMEOUT (not all ranks came in time; names the missing ones),
 * BLINK_ERR_PEER_LOST (a rank that had joined went away; who comes later hears so, too: another try needs a
 * new id), BLINK_ERR_ABORTED (the same, of a rank that gave up: see blink_comm_init_begin()),
 * BLINK_ERR_QUOTA, BLINK_ERR_UNREACHABLE.
 */
blink_result_t blink_comm_init_rank(blink_context_t *context, const blink_unique_id_t *id, int rank_count,
                                    int rank, const blink_comm_config_t *config, blink_comm_t **comm);

/**
 * Begin to join a communicator, and return: blink_comm_init_wait() says when all ranks have joined, and how a
 * join has failed. Ranks that join so and ranks that call blink_comm_init_rank() may be of one communicator.
 * Arguments as for that call; init_timeout_ms counts as there, whether anybody waits or not.
 * @param comm  receives a handle; blink_comm_destroy() frees it, whatever becomes of the join.
 *
 * Until blink_comm_init_wait() has said that the communicator is ready, every call with it fails with
 * BLINK_ERR_INVALID_ARGUMENT, but for blink_comm_init_wait(), blink_comm_rank(), blink_comm_size(),
 * blink_comm_async_error(), blink_comm_abort() and blink_comm_destroy(). The last two give the join up: all
 * ranks of the communicator, on all hosts, also those that come later with the same id, fail with
 * BLINK_ERR_ABORTED, whose sentence names the rank that gave up. If all ranks have joined by then, the
 * communicator is aborted for all of them, as blink_comm_abort() does.
 *
 * Any thread may give up while another one waits:
 *
 *   a thread                                        another one
 *   blink_comm_init_wait(comm, UINT_MAX, &ready)    …
 *     waits                                         blink_comm_abort(comm)
 *     returns BLINK_ERR_ABORTED
 *   blink_comm_destroy(comm)
 *     waits until the other call has returned
 *
 * The one that waits may also find the communicator ready, if it became so just before; its ops then fail
 * with BLINK_ERR_ABORTED. Errors: those at once are BLINK_ERR_INVALID_ARGUMENT, BLINK_ERR_NO_MEMORY,
 * BLINK_ERR_UNSUPPORTED (of the configuration) and BLINK_ERR_SYSTEM (the daemon cannot be asked); nothing is
 * to be destroyed then.
 */
blink_result_t blink_comm_init_begin(blink_context_t *context, const blink_unique_id_t *id, int rank_count,
                                     int rank, const blink_comm_config_t *config, blink_comm_t **comm);

/**
 * Wait until a communicator of blink_comm_init_begin() is ready, no longer than `timeout_ms` milliseconds (0:
 * look and return; UINT_MAX: until the join has ended in one way or the other).
 * @param ready  receives whether it is: false together with BLINK_OK says that the ranks are still joining,
 *               and the call may be made again. That of a communicator which other calls have made is true.
 * Errors: how the join has failed, now and in every later call: those of blink_comm_init_rank(). The handle
 * can then only be destroyed.
 */
blink_result_t blink_comm_init_wait(blink_comm_t *comm, unsigned int timeout_ms, bool *ready);

/**
 * Which rank this process is of how many, as the launcher that started it says by environment variables:
 * those of blinkrun (BLINK_RANK, BLINK_SIZE, BLINK_LOCAL_RANK) come first, then torchrun's (RANK, WORLD_SIZE,
 * LOCAL_RANK), Open MPI's, MPICH's and Slurm's. Needs no daemon, and can be called before a GPU is chosen.
 * @param rank, rank_count  receive them; NULL is allowed, here and for the next.
 * @param local_rank        receives the number among the ranks of this host; -1: the launcher does not say.
 * Errors: BLINK_ERR_NOT_FOUND (no launcher has started this process), BLINK_ERR_INVALID_ARGUMENT (a variable
 * is not what it should be; names it).
 */
blink_result_t blink_launched(int *rank, int *rank_count, int *local_rank);

/**
 * Join a communicator of all ranks that a launcher has started, without an id: rank and number of ranks are
 * those of blink_launched(), and so is the device, if the configuration names none and no CUDA context is
 * current: that of the local rank. docs/program.md says for each launcher what it takes. How the ranks find
 * each other, by the first of these that is there:
 *
 *   BLINK_UNIQUE_ID    the text of an id, 128 hexadecimal digits; or 32 random ones: all ranks are on this
 *                      host;
 *   BLINK_RENDEZVOUS   a path, with a slash in it, that all ranks see and where nothing is yet; or host or
 *                      host:port, where a daemon listens for others, together with BLINK_JOB, a text that
 *                      tells this job from others; localhost: all ranks are on this host;
 *   the launcher's     the store of torchrun's agent; without an agent, the daemon at MASTER_ADDR; PMIx (Open
 *                      MPI; needs libpmix.so.2), PMI-1 (MPICH), and in Slurm the daemon of the step's first
 *                      node.
 *
 * The ranks find each other once, in the first call of the process, whatever its context. All ranks must make
 * the same calls in the same order, each of which makes another communicator; threads that call at the same
 * time are served one after the other, in an order that other ranks do not know. A call that has failed
 * counts. With PMI-1 and PMIx a program that uses MPI as well must not have MPI and this call in use at the
 * same time, and with PMI-1 not in one process: such a program hands an id around by MPI.
 *
 * Waits until the ranks have found each other and until all have joined, no longer than init_timeout_ms for
 * either; if that is 0, 60 s and the daemon's setting.
 * @param config  as for blink_comm_init_rank().
 * @param comm    receives a handle; blink_comm_destroy() frees it.
 * Errors: those of blink_launched() and blink_comm_init_rank(); BLINK_ERR_INVALID_ARGUMENT (a variable is
 * missing or not what it should be), BLINK_ERR_TIMEOUT (rank 0, or the launcher, does not give the id in
 * time), BLINK_ERR_EXISTS (the file is there already), BLINK_ERR_CONNECT (no daemon, or store, is where the
 * ranks are to meet), BLINK_ERR_PERMISSION (the daemon there does not name the address as its own),
 * BLINK_ERR_NOT_FOUND (the host has no address), BLINK_ERR_UNSUPPORTED (the ranks are on several hosts and
 * the daemon does not listen for others, or libpmix is missing), BLINK_ERR_PROTOCOL (launcher or store say
 * what is not understood), BLINK_ERR_SYSTEM; all name the launcher, the host or the file.
 */
blink_result_t blink_comm_init_launched(blink_context_t *context, const blink_comm_config_t *config,
                                        blink_comm_t **comm);

/**
 * Leave the communicator and free the handle. Waits for this rank's ops and the daemon's answer;
 * blink_comm_abort() before it ends the ops at once. The other ranks may finish ops that all have submitted,
 * and then destroy theirs; later ops of theirs fail with BLINK_ERR_PEER_LOST. A join that has not ended is
 * given up (blink_comm_init_begin()). NULL is ignored. Errors: BLINK_ERR_INVALID_ARGUMENT (another thread
 * submitted meanwhile: blink_close() then frees the handle), BLINK_ERR_NO_MEMORY (of a join that has not
 * ended: it goes on, and the call may be made again).
 */
blink_result_t blink_comm_destroy(blink_comm_t *comm);

/**
 * Wait until every op this rank has submitted has ended, and accept no more: later submissions fail with
 * BLINK_ERR_INVALID_ARGUMENT. The handle remains to be destroyed. Returns the first failure the communicator
 * itself has met (as blink_comm_async_error()), BLINK_OK if none.
 */
blink_result_t blink_comm_finalize(blink_comm_t *comm);

/** The `color` of a rank that takes no part in a new communicator. */
#define BLINK_SPLIT_NO_COLOR (-1)

/**
 * Divide a communicator: a collective call on `comm` (in order with its other ops) that makes a new
 * communicator of the ranks that give the same `color`, ranked by `key` and, where keys are equal, by their
 * rank in `comm`. Devices stay. Waits until all ranks have called: op_timeout_ms of `comm`, then
 * init_timeout_ms of the new one at most.
 * @param color   not negative; BLINK_SPLIT_NO_COLOR: take no part, *split is NULL.
 * @param config  as for blink_comm_init_rank(), but its device is ignored. NULL: the algorithm, timeouts and
 *                name of `comm`.
 * @param split   receives a handle; blink_comm_destroy() frees it.
 * Errors: those of an allgather and of blink_comm_init_rank(); on an error no rank's parent is harmed.
 */
blink_result_t blink_comm_split(blink_comm_t *comm, int color, int key, const blink_comm_config_t *config,
                                blink_comm_t **split);

/**
 * Make a second communicator of the same ranks and devices, whose ops are ordered apart from those of `comm`.
 * Collective, waits and fails as blink_comm_split(); blink_comm_destroy() frees *duplicate.
 */
blink_result_t blink_comm_duplicate(blink_comm_t *comm, blink_comm_t **duplicate);

/**
 * Change how long ops may wait for ranks to submit them, for those that wait already too: op_timeout_ms of
 * the configuration, which communicators that are split from `comm` later inherit. It is one number for all
 * ranks of a host, and the last call counts, so all ranks call it, each with the same number. Waits for the
 * daemon's answer, not for the other ranks.
 * @param op_timeout_ms  milliseconds; 0: the daemon's setting, whatever BLINK_TIMEOUT says.
 */
blink_result_t blink_comm_set_timeout(blink_comm_t *comm, unsigned int op_timeout_ms);

/**
 * End the communicator for all ranks: ops under way and later ones fail with BLINK_ERR_ABORTED, and so does a
 * join that has not ended (blink_comm_init_begin()); the sentence names the rank that called. The handle
 * remains, for blink_comm_shrink() and to be destroyed. Waits for the daemon's answer, not for the other
 * ranks.
 */
blink_result_t blink_comm_abort(blink_comm_t *comm);

/**
 * The same call, by the name that MPI and NCCL give to what it does. A rank that has met a failure revokes
 * the communicator so that ranks which wait for something else come to blink_comm_shrink(), too. What a
 * rank's death has ended needs no revoking: the daemon has told all ranks.
 */
blink_result_t blink_comm_revoke(blink_comm_t *comm);

/**
 * Make a communicator of the ranks of `comm` that are still there, after others were lost, or it was revoked
 * or aborted, or ranks left it. Only those that are there call, and each calls once:
 *
 *     if (blink_wait(op) == BLINK_ERR_PEER_LOST) {
 *         blink_comm_t *shrunk;
 *         CHECK(blink_comm_shrink(comm, NULL, &shrunk));
 *         CHECK(blink_comm_destroy(comm));
 *         comm = shrunk;
 *     }
 *
 * Who is there is the daemon's word, and the same for all: the first call fixes it. A rank is there until its
 * process has ended, its context is closed or it has left; whether it has heard of the loss does not matter.
 * If another rank goes before all have joined, the call begins again without it. The ranks keep their order,
 * and are numbered anew from 0; devices stay. `comm` remains to be destroyed, at any time after the call.
 * Waits until all have called, no longer than init_timeout_ms for each rank that goes meanwhile.
 * @param config  as for blink_comm_init_rank(), but its device is ignored. NULL: the algorithm, timeouts and
 *                name of `comm`.
 * @param shrunk  receives a handle; blink_comm_destroy() frees it.
 * Errors: those of blink_comm_init_rank(), among them BLINK_ERR_TIMEOUT (a rank that is there has not called:
 * one that hangs has to be ended before it counts as gone), after which the call may be made again;
 * BLINK_ERR_UNSUPPORTED (the daemon of another host is too old), BLINK_ERR_EXISTS (another thread shrinks
 * `comm` by this handle). Of a communicator on several hosts each part goes on for itself if hosts have lost
 * each other: compare blink_comm_size() where that would be wrong.
 */
blink_result_t blink_comm_shrink(blink_comm_t *comm, const blink_comm_config_t *config,
                                 blink_comm_t **shrunk);

/**
 * Whether the communicator, or the join to it, has failed by itself.
 * @param result  receives BLINK_OK, or why the communicator is of no more use (BLINK_ERR_PEER_LOST,
 *                BLINK_ERR_ABORTED, BLINK_ERR_DAEMON_LOST…); blink_last_error() then has the sentence.
 * Who has synchronised with a stream hears of every op that failed on it, replayed ones too. Otherwise the
 * notice and completions travel different ways: for a moment after an op that was waited for has failed this
 * may still say BLINK_OK.
 */
blink_result_t blink_comm_async_error(blink_comm_t *comm, blink_result_t *result);

/** This rank's number, how many ranks there are, and the number of this rank's device. */
blink_result_t blink_comm_rank(const blink_comm_t *comm, int *rank);
blink_result_t blink_comm_size(const blink_comm_t *comm, int *rank_count);
blink_result_t blink_comm_device(const blink_comm_t *comm, int *device);

/* ---- reductions ----
 *
 * Within one step of the plan operands are combined in the order the plan fixes; floats of 8 and 16 bits are
 * combined in float32 and rounded once, to nearest even, when the step stores them; float32 and float64 in
 * their own precision. A direct exchange (plain host memory) has a single step. The order does not depend on
 * the rank: results are bit-identical on all ranks, and from run to run for the same plan. Where GPUs leave
 * sums of floats to switches (BLINK_ALGORITHM_MULTICAST, or nvswitch_reduces = all in blinkd.conf) the order
 * is the switch's own: then results are bit-identical on all ranks, but not from run to run.
 *
 * Integers wrap (two's complement). BLINK_SUM, BLINK_PROD of floats follow IEEE 754: infinities and NaN arise
 * and propagate. BLINK_MAX, BLINK_MIN give NaN if any operand is one; of zeros of different sign either.
 * float16 and bfloat16 overflow to infinity; float8 saturates at its largest finite value, keeps NaN, and an
 * infinity becomes that value. BLINK_AVG divides the whole sum by the number of ranks: integers towards zero,
 * after the sum has wrapped. The payload of a NaN is not kept.
 */

/**
 * Make an operator that multiplies this rank's input by a scalar before summing: Σ scalar_r · send_r. The
 * product is rounded where the step's result is. Every rank makes its own, with its own scalar, and passes it
 * where a blink_redop_t is expected, with the same datatype; BLINK_PRE_MUL_SUM itself is no valid argument.
 * @param scalar  one element of `datatype`, in memory of the host or of the rank's GPU; copied now, so what
 *                writes it must have ended.
 * @param redop   receives the operator, valid for `comm` until blink_redop_destroy() or blink_comm_destroy().
 *
 *     float weight = 1.0f / (float)rank_count;
 *     blink_redop_t weighted;
 *     CHECK(blink_redop_create_pre_mul_sum(comm, &weight, BLINK_FLOAT32, &weighted));
 *     CHECK(blink_all_reduce(values, values, 1000, BLINK_FLOAT32, weighted, comm, &op));
 *     CHECK(blink_wait(op));
 *     CHECK(blink_redop_destroy(comm, weighted));
 *
 * Errors: BLINK_ERR_QUOTA (more than 65,536 operators live), BLINK_ERR_SYSTEM (the GPU does not give the
 * scalar).
 */
blink_result_t blink_redop_create_pre_mul_sum(blink_comm_t *comm, const void *scalar,
                                              blink_datatype_t datatype, blink_redop_t *redop);

/** Free an operator; ops submitted with it are not affected. Errors: BLINK_ERR_INVALID_ARGUMENT (it is none
 * of this communicator). */
blink_result_t blink_redop_destroy(blink_comm_t *comm, blink_redop_t redop);

/* ---- collectives ----
 *
 * All ranks submit the same collectives with the same count, type, operator and root in the same order. A
 * submission returns at once; buffers belong to the daemon until the op has been waited for. *op is the
 * caller's, freed by blink_wait() and blink_wait_all(), or by the blink_test(), blink_wait_for() or
 * blink_wait_any() that reports it done. A count of zero succeeds and moves nothing, buffers may then be
 * NULL. `count` is in elements of one block: what one rank gives or gets.
 *
 *     blink_op_t *op;
 *     CHECK(blink_all_reduce(values, values, 1000, BLINK_FLOAT32, BLINK_SUM, comm, &op));
 *     CHECK(blink_wait(op)); // all ranks have the sum in `values`
 *
 * Memory. Buffers of blink_mem_alloc() or blink_mem_register() are read and written in place. Any other
 * memory works too: the library copies it through a staging region of the daemon, a piece at a time while the
 * op runs; it does so in the threads that submit, wait and test, and once a millisecond in one of its own. A
 * buffer that begins in registered memory must end there (BLINK_ERR_OUT_OF_RANGE). Buffers must be aligned to
 * their elements.
 *
 * In place: send and recv may be the same memory in the form that each call names; other overlap is refused.
 * What a root broadcasts or scatters in place is only read, unless it is registered memory.
 *
 * Order. Ops of one communicator run in the order of submission, those of different communicators
 * concurrently.
 *
 * Errors at submission: BLINK_ERR_OUT_OF_RANGE (the text names the overrun), BLINK_ERR_INVALID_ARGUMENT
 * (unknown enum, misaligned pointer, root outside the ranks, size overflow, overlap), BLINK_ERR_QUOTA (no
 * more staging memory), BLINK_ERR_UNSUPPORTED (memory of a GPU, by a driver that the library cannot use).
 *
 * Errors at blink_wait()/blink_test(): BLINK_ERR_MISMATCH (the ranks disagree; names two of them and both
 * values), BLINK_ERR_PEER_LOST, BLINK_ERR_ABORTED, BLINK_ERR_TIMEOUT, BLINK_ERR_UNREACHABLE, BLINK_ERR_QUOTA
 * (more than 65,536 ops of the communicator begun and not complete: that ends it). The receive buffer is then
 * undefined.
 *
 * Limits: 1,048,576 ops not waited for per context (BLINK_ERR_NO_MEMORY beyond); what exceeds the ring is
 * kept by the library and moved on by later calls. If more communicators of one context than half the ring's
 * entries have unfinished ops at once, all processes must submit to them in the same order (or, where no more
 * than the ring's entries are live at all, in any).
 */

/** Reduce: recv[i] = send of rank 0 [i] ⊕ … ⊕ send of rank n-1 [i], on every rank. In place: send == recv. */
blink_result_t blink_all_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_redop_t redop, blink_comm_t *comm, blink_op_t **op);

/**
 * Copy: recv[i] = send of rank `root` [i], on every rank. `send` is read on the root only and may be NULL
 * elsewhere. In place on the root: send == recv.
 */
blink_result_t blink_broadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_op_t **op);

/**
 * As blink_all_reduce(), but only the root receives; `recv` may be NULL elsewhere. In place on the root:
 * send == recv.
 */
blink_result_t blink_reduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                            blink_redop_t redop, int root, blink_comm_t *comm, blink_op_t **op);

/**
 * Every rank gives `count` elements; recv, of rank_count × count, holds them in rank order on every rank.
 * In place: send == recv + rank × count.
 */
blink_result_t blink_all_gather(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_comm_t *comm, blink_op_t **op);

/**
 * send has rank_count × count elements; rank r receives the reduction of block r, `count` elements.
 * In place: recv == send + rank × count.
 */
blink_result_t blink_reduce_scatter(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                    blink_redop_t redop, blink_comm_t *comm, blink_op_t **op);

/**
 * As blink_all_gather(), but only the root receives; `recv` may be NULL elsewhere. In place on the root:
 * send == recv + root × count.
 */
blink_result_t blink_gather(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                            blink_comm_t *comm, blink_op_t **op);

/**
 * The root's `send` has rank_count × count elements (NULL elsewhere); rank r receives block r. In place on
 * the root: recv == send + root × count.
 */
blink_result_t blink_scatter(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                             blink_comm_t *comm, blink_op_t **op);

/**
 * send and recv have rank_count × count elements; block j of rank i's send becomes block i of rank j's recv.
 * Never in place.
 */
blink_result_t blink_all_to_all(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                blink_comm_t *comm, blink_op_t **op);

/**
 * The same with blocks of any length: to rank j go send_counts[j] elements from send + send_offsets[j], from
 * rank i come recv_counts[i] elements to recv + recv_offsets[i]. What rank i sends to j must be what j
 * expects of i, else both fail with BLINK_ERR_MISMATCH. Never in place.
 *
 * This and the next four have counts and offsets (MPI's displacements) in elements, in arrays of rank_count
 * entries, which are read before the call returns. Counts may be 0, and offsets leave gaps; blocks that are
 * received must not overlap. Each of these calls is a group of other ops, counted among them and named by
 * them in errors: this one of sends and receives, see blink_send().
 */
blink_result_t blink_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                  void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                  blink_datatype_t datatype, blink_comm_t *comm, blink_op_t **op);

/**
 * As blink_all_gather(), but rank r gives recv_counts[r] elements, which come to recv + recv_offsets[r]. All
 * ranks give the same counts, and send_count is that of this rank; offsets may differ between ranks. In
 * place: send == recv + recv_offsets[rank]. A group of broadcasts, one from each rank: for blocks of one
 * length blink_all_gather() is faster, most of all for small ones.
 */
blink_result_t blink_all_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                                  const size_t *recv_offsets, blink_datatype_t datatype, blink_comm_t *comm,
                                  blink_op_t **op);

/**
 * As blink_reduce_scatter(), but block r has send_counts[r] elements from send + send_offsets[r]. All ranks
 * give the same counts, and recv_count is that of this rank; offsets may differ between ranks. In place:
 * recv == send + send_offsets[rank]. A group of reductions, one to each rank: for blocks of one length
 * blink_reduce_scatter() is faster, most of all for small ones.
 */
blink_result_t blink_reduce_scatter_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                      void *recv, size_t recv_count, blink_datatype_t datatype,
                                      blink_redop_t redop, blink_comm_t *comm, blink_op_t **op);

/**
 * As blink_gather(), but rank r gives send_count elements, which come to recv + recv_offsets[r] on the root.
 * The root expects recv_counts[r] of rank r, else both fail with BLINK_ERR_MISMATCH; recv, counts and offsets
 * are read on the root only and may be NULL elsewhere. In place on the root: send == recv +
 * recv_offsets[root]. A group of sends and receives: ranks that name different roots wait until the op
 * timeout.
 */
blink_result_t blink_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                              const size_t *recv_offsets, blink_datatype_t datatype, int root,
                              blink_comm_t *comm, blink_op_t **op);

/**
 * As blink_scatter(), but rank r receives send_counts[r] elements from send + send_offsets[r] of the root.
 * Rank r expects recv_count, else both fail with BLINK_ERR_MISMATCH; send, counts and offsets are read on the
 * root only and may be NULL elsewhere. In place on the root: recv == send + send_offsets[root]. A group as
 * that of blink_gather_v().
 */
blink_result_t blink_scatter_v(const void *send, const size_t *send_counts, const size_t *send_offsets,
                               void *recv, size_t recv_count, blink_datatype_t datatype, int root,
                               blink_comm_t *comm, blink_op_t **op);

/**
 * Send to, and receive from, one other rank (or oneself). The k-th send from a to b meets the k-th receive of
 * b from a, whatever else either submits; count and datatype must agree. A send is complete when its buffer
 * has been read. Outside a group both keep their place in the order of their rank's ops: two ranks that each
 * send before they receive wait for each other until the op timeout. In a group any order works.
 */
blink_result_t blink_send(const void *send, size_t count, blink_datatype_t datatype, int peer,
                          blink_comm_t *comm, blink_op_t **op);
blink_result_t blink_recv(void *recv, size_t count, blink_datatype_t datatype, int peer, blink_comm_t *comm,
                          blink_op_t **op);

/** Submit a barrier: an op that is complete once every rank has submitted it and all earlier ops of the ranks
 * are complete. */
blink_result_t blink_barrier(blink_comm_t *comm, blink_op_t **op);

/* ---- groups ----
 *
 * Between blink_group_start() and blink_group_end() of a thread, submissions of that thread are collected,
 * for any communicators and contexts; `op` must be NULL in these calls. blink_group_end() submits them: of
 * one communicator they run concurrently, in any order, free of deadlock however sends and receives are
 * mixed, and start only when the whole group is there; small ones share the start. Groups nest: the outermost
 * end counts.
 *
 *     CHECK(blink_group_start());
 *     CHECK(blink_send(&values[0], 1, BLINK_FLOAT32, (rank + 1) % rank_count, comm, NULL));
 *     CHECK(blink_recv(&values[1], 1, BLINK_FLOAT32, (rank + rank_count - 1) % rank_count, comm, NULL));
 *     CHECK(blink_group_end(&op));
 *     CHECK(blink_wait(op));
 *
 * A call that fails in a group (a bad argument, say) fails the whole group: nothing of it is submitted, and
 * blink_group_end() returns that error.
 */

/** Begin a group on this thread. Errors: BLINK_ERR_INVALID_ARGUMENT (groups nest too deep). */
blink_result_t blink_group_start(void);

/**
 * End the group and submit it.
 * @param op  receives an op that covers the whole group and ends with its first failure, freed as a
 *            collective's; NULL if the group was empty, and where this end is not the outermost one (`op` may
 *            then be NULL).
 * Errors: those of the submissions; BLINK_ERR_INVALID_ARGUMENT (no group was started, more than 65,536
 * entries).
 */
blink_result_t blink_group_end(blink_op_t **op);

/* ---- streams ----
 *
 * The same calls, in the order of a CUDA stream: the op starts when the stream has come to it on every rank,
 * and the stream goes on when it has ended. They return at once and no thread of the host waits. Only for
 * communicators whose devices are GPUs; the stream belongs to the rank's GPU. A rank's ops are ordered by
 * their submission, whatever their streams are.
 *
 *     CHECK(blink_all_reduce_on(values, values, 1000, BLINK_FLOAT32, BLINK_SUM, comm, stream));
 *     cudaStreamSynchronize(stream);
 *     blink_result_t result;
 *     CHECK(blink_comm_async_error(comm, &result)); // how it went is in `result`
 *
 * There is no op to wait for: synchronise with the stream. An op that fails lets its stream go on, leaves its
 * receive buffer undefined, and blink_comm_async_error() says why from then on.
 *
 * Streams that wait. CUDA runs the streams of a process over a few queues (CUDA_DEVICE_MAX_CONNECTIONS in the
 * environment: 8 unless set, 32 at most), and an op that waits on one stream may hold up whatever was put on
 * another one later. So where ops of several communicators are under way on several streams, all ranks must
 * submit them in one order, as NCCL asks for, too; or each stream must have a queue of its own, that is the
 * variable at 32 and no more streams than that. Else ranks may wait for each other until the op timeout,
 * whose sentence says so.
 *
 * Capture. On a stream that is being captured the op becomes part of the graph, and every replay of the graph
 * runs it once, in the order in which the replays come to it on every rank, which is apart from that of the
 * communicator's other ops. The first capture of a communicator waits until all its ranks have come to
 * theirs. The op is forgotten when the last graph that holds it is destroyed. The communicator and the
 * buffers must live until then, and replays of graphs that hold one op must not overlap.
 *
 * Groups may hold such calls, on any streams: each of these streams then waits for the whole of its own
 * calls; in a capture a group has one stream for each communicator. A context keeps up to 512 pairs of stream
 * and communicator and captured ops (BLINK_ERR_QUOTA beyond; a captured group counts as one). All calls of a
 * group are of this kind, or none is; blink_group_end() takes NULL for `op` then.
 *
 * Memory. GPU memory is read and written in place if it can be exported: what cuMemCreate() made with
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, what comes from a memory pool with that type (in allocations of 4
 * GiB at most, after blink_mem_promise_release()), and, if the daemon's configuration allows it, what
 * cudaMalloc() gave: see blink_mem_release() for how it is freed. So is registered memory of the host
 * (blink_mem_alloc()) that was registered while a CUDA driver was loaded, if the GPUs reach it. Anything else
 * is copied through staging memory on the stream.
 *
 * Errors at submission, besides those of the other calls: BLINK_ERR_UNSUPPORTED (the library was built
 * without CUDA, no driver is loaded in this process, the communicator is not on GPUs, or memory that has to
 * be staged is used in a graph), BLINK_ERR_INVALID_ARGUMENT (the stream is of another GPU than the rank's
 * device).
 */
blink_result_t blink_all_reduce_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                   blink_redop_t redop, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_broadcast_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                  int root, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_reduce_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               blink_redop_t redop, int root, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_all_gather_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                   blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_reduce_scatter_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                       blink_redop_t redop, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_gather_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               int root, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_scatter_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                int root, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_all_to_all_on(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                                   blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_all_to_all_v_on(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                     void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                                     blink_datatype_t datatype, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_all_gather_v_on(const void *send, size_t send_count, void *recv,
                                     const size_t *recv_counts, const size_t *recv_offsets,
                                     blink_datatype_t datatype, blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_reduce_scatter_v_on(const void *send, const size_t *send_counts,
                                         const size_t *send_offsets, void *recv, size_t recv_count,
                                         blink_datatype_t datatype, blink_redop_t redop, blink_comm_t *comm,
                                         blink_stream_t stream);
blink_result_t blink_gather_v_on(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
                                 const size_t *recv_offsets, blink_datatype_t datatype, int root,
                                 blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_scatter_v_on(const void *send, const size_t *send_counts, const size_t *send_offsets,
                                  void *recv, size_t recv_count, blink_datatype_t datatype, int root,
                                  blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_send_on(const void *send, size_t count, blink_datatype_t datatype, int peer,
                             blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_recv_on(void *recv, size_t count, blink_datatype_t datatype, int peer,
                             blink_comm_t *comm, blink_stream_t stream);
blink_result_t blink_barrier_on(blink_comm_t *comm, blink_stream_t stream);

/* ---- completion ---- */

/** Wait until the op has ended, free it and return how it ended. What an op may wait for is limited by the
 * daemon, and how long it may run: see blink_comm_config_t and the daemon's settings. */
blink_result_t blink_wait(blink_op_t *op);

/**
 * The same, but for no longer than `timeout_ms` milliseconds.
 *
 *     CHECK(blink_barrier(comm, &op));
 *     while (blink_wait_for(&op, 1000) == BLINK_ERR_TIMEOUT && op)
 *         fprintf(stderr, "still waiting\n");
 *
 * @param op  becomes NULL when the op has ended, and is freed. Else the result is BLINK_ERR_TIMEOUT, and the
 * op is still under way and may be waited for again.
 */
blink_result_t blink_wait_for(blink_op_t **op, unsigned int timeout_ms);

/**
 * Look whether the op has ended.
 * @param done  receives whether it has: then the op is freed, and the result is how it ended. Else BLINK_OK.
 */
blink_result_t blink_test(blink_op_t *op, bool *done);

/**
 * Wait until one of `count` ops has ended, free it, and return how it ended. NULL entries are skipped. Ops
 * may be of different contexts; a thread that has waited awake for a while then looks at them anew every 50
 * µs.
 * @param ops    the entry of the op that has ended becomes NULL.
 * @param index  receives its place; -1, with the result BLINK_OK, if all entries are NULL.
 */
blink_result_t blink_wait_any(blink_op_t **ops, size_t count, ptrdiff_t *index);

/**
 * Wait until all of `count` ops have ended, also if some have failed, and free them. NULL entries are
 * skipped. Ops may be of different contexts; none may be there twice.
 * @param ops  all entries become NULL.
 * Returns how the first one in the array that has failed did, with its sentence; BLINK_OK if none has.
 */
blink_result_t blink_wait_all(blink_op_t **ops, size_t count);

/**
 * A descriptor that becomes readable when ops complete: poll() it, then read 8 bytes from it (it is
 * non-blocking), then blink_test() the ops. Completions before the first call do not count.
 * @param fd  receives the descriptor, which stays the context's.
 */
blink_result_t blink_poll_fd(blink_context_t *context, int *fd);

#ifdef __cplusplus
}
#endif
#endif

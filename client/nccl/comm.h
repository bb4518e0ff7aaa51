/*
 * What an ncclComm_t points to: one rank of a communicator of libblinkclient, with what NCCL's calls need
 * besides. A thread that aborts waits until others have come out of their calls, then frees it.
 */
#ifndef CLIENT_NCCL_COMM_H
#define CLIENT_NCCL_COMM_H

#include "calls.h"
#include "gpu.h"
#include "redop.h"

#include <pthread.h>
#include <stdatomic.h>

struct nccl_comm {
    blink_context_t *context; /* of home.h */
    blink_comm_t *comm;
    nccl_gpu_t gpu;
    int rank, rank_count;
    bool is_blocking;        /* else calls that wait for other ranks go on after they have returned */
    blink_unique_id_t line;  /* the same on all ranks: what shrunk communicators gather under comes from it */
    atomic_uint users;       /* calls that are under way */
    atomic_uint backgrounds; /* those of them that go on after they have returned */
    atomic_bool is_leaving, is_finalized, is_revoked;
    nccl_comm_t *next_of_parent; /* under the lock of the communicator that this is being made of */
    pthread_mutex_t lock;        /* for what follows */
    nccl_comm_t *joining;        /* those that are being made of it */
    abi_result_t outcome;        /* of the last call that went on so */
    char outcome_text[NCCL_SENTENCE_BYTES];
    nccl_redops_t redops;
    uint64_t split_count, grow_count;
    bool has_grow_id; /* the program has the id of the next growing */
    uint64_t *shrunk; /* what was excluded in each shrinking, as a number */
    size_t shrunk_count;
};

/** What a configuration means here; NULL: all is left open. */
typedef struct nccl_options {
    blink_comm_config_t config;
    char name[BLINK_NAME_BYTES];
    bool is_blocking;
} nccl_options_t;

/** Errors: INVALID_ARGUMENT (not initialised, or a value that is none). */
abi_result_t nccl_options_take(const abi_config_t *config, nccl_options_t *options);

/** The same for a communicator that is made of another one, which says what is left open. */
abi_result_t nccl_options_inherit(const nccl_comm_t *parent, const abi_config_t *config,
                                  nccl_options_t *options);

/** What a program hands around as 128 bytes. Errors: INVALID_ARGUMENT (NVIDIA's library has made it). */
abi_result_t nccl_id_read(const abi_unique_id_t *id, blink_unique_id_t *inner);
void nccl_id_write(const blink_unique_id_t *inner, abi_unique_id_t *id);

/** What an id is made for. */
typedef enum nccl_line { NCCL_LINE_SPLIT = 1, NCCL_LINE_SHRINK = 2, NCCL_LINE_GROW = 3 } nccl_line_t;

/** An id, that all who know the same of it make alike: from a communicator's and numbers. */
void nccl_id_derive(const blink_unique_id_t *from, nccl_line_t kind, uint64_t first, uint64_t second,
                    blink_unique_id_t *id);

/** Begin to join on a GPU, which is taken over, also on an error. nccl_comm_await() or nccl_comm_discard() is
 * next. */
abi_result_t nccl_comm_begin(const blink_unique_id_t *id, int rank_count, int rank,
                             const nccl_options_t *options, const nccl_gpu_t *gpu, nccl_comm_t **comm);

/** A handle for a communicator that libblinkclient has made of this one. It takes it over, also on an error.
 */
abi_result_t nccl_comm_wrap(const nccl_comm_t *parent, blink_comm_t *inner, const blink_unique_id_t *line,
                            const nccl_options_t *options, nccl_comm_t **comm);

/** In a call with it, which ends: wait until all ranks have joined. On an error the communicator is freed, by
 * who aborts it if somebody does. */
abi_result_t nccl_comm_await(nccl_comm_t *comm);

/** The same for one that nobody else knows yet: it is given up if `parent`, of which it is made, is aborted.
 */
abi_result_t nccl_comm_await_child(nccl_comm_t *parent, nccl_comm_t *child);

/** Give up those that are being made of it. */
void nccl_comm_abort_children(nccl_comm_t *comm);

/** Leave and free it, whatever its state. */
abi_result_t nccl_comm_discard(nccl_comm_t *comm);

/** Begin a call with it, and end it. Errors: INVALID_ARGUMENT (NULL, or another call still goes on),
 * INVALID_USAGE (being aborted). */
abi_result_t nccl_comm_enter(nccl_comm_t *comm, const char *call);
void nccl_comm_leave(nccl_comm_t *comm);

/** Begin one that can be made at any time. Errors: INVALID_ARGUMENT (NULL), INVALID_USAGE. */
abi_result_t nccl_comm_enter_any_time(nccl_comm_t *comm, const char *call);

/** In a call: another one begins that needs the same. */
void nccl_comm_enter_again(nccl_comm_t *comm);

/** From now on nobody enters. Errors: INVALID_USAGE (another thread has said so). */
abi_result_t nccl_comm_close(nccl_comm_t *comm, const char *call);

/** Wait until all calls have ended. */
void nccl_comm_await_calls(nccl_comm_t *comm);

/** A call that has begun goes on after it has returned; and it has ended, with the sentence of this thread if
 * it has failed. It leaves after that. */
void nccl_comm_go_on(nccl_comm_t *comm);
void nccl_comm_end(nccl_comm_t *comm, abi_result_t outcome);

/** Errors: INVALID_ARGUMENT (such a call still goes on). */
abi_result_t nccl_comm_check_idle(nccl_comm_t *comm, const char *call);

/** What such calls have come to: IN_PROGRESS, or how the last one has ended. */
abi_result_t nccl_comm_outcome(nccl_comm_t *comm);

#endif

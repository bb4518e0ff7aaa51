/*
 * Groups of a thread. Collectives go to a group of libblinkclient, which begins with the first of them; joins
 * are begun at once and waited for at the end, and so is what other ranks have to be waited for besides:
 * splitting and shrinking become tasks. A group does not have both.
 */
#ifndef CLIENT_NCCL_GROUP_H
#define CLIENT_NCCL_GROUP_H

#include "comm.h"

/** Something that waits for other ranks: done in a thread of its own if the communicator does not block, or
 * if a group has such tasks of several. */
typedef struct nccl_task {
    struct nccl_task *then; /* of the same communicator: done after this */
    struct nccl_task *next; /* of another one */
    nccl_comm_t *comm;
    abi_result_t (*run)(struct nccl_task *task);
    abi_result_t result;
    char sentence[NCCL_SENTENCE_BYTES]; /* of a failure */
} nccl_task_t;

/** Before a collective, with the rank's GPU current: if the thread is in a group, libblinkclient hears of it.
 * Errors: INVALID_USAGE (default streams of two GPUs). */
abi_result_t nccl_group_enter(const nccl_gpu_t *gpu, blink_stream_t stream);

/** Before what cannot be in a group with collectives. Errors: INVALID_USAGE. */
abi_result_t nccl_group_check_plain(const char *call);

/** Before a communicator is freed, which waits for all calls with it: this thread's group must have none that
 * its end is to do. Errors: INVALID_USAGE. */
abi_result_t nccl_group_check_free(const nccl_comm_t *comm, const char *call);

/** The call's result: the first failure in a group is the group's, and if there is none, that something is in
 * progress. */
abi_result_t nccl_group_note(abi_result_t result);

/** Begin to join, and wait for it or leave that to the end of the group, unless the communicator does not
 * block. *place is the program's for the handle, which other threads may look at; NULL after a failure. The
 * GPU is taken over. */
abi_result_t nccl_group_join(nccl_comm_t **place, int rank_count, const blink_unique_id_t *id, int rank,
                             const nccl_options_t *options, const nccl_gpu_t *gpu);

/** In a call with the task's communicator: do the task, or leave that to the end of the group; then it is
 * freed by free(). */
abi_result_t nccl_group_do(nccl_task_t *task);

#endif

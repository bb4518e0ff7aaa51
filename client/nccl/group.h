/*
 * Groups of a thread. Collectives go to a group of libblinkclient, which begins with the first of them; joins
 * are begun at once and waited for at the end, and so is what other ranks have to be waited for besides:
 * splitting and shrinking become tasks. A group does not have both.
 */
#ifndef CLIENT_NCCL_GROUP_H
#define CLIENT_NCCL_GROUP_H

#include "calls.h"
#include "gpu.h"

/** Something that waits for other ranks, done in a thread of its own if there are several in a group. */
typedef struct nccl_task {
    struct nccl_task *next;
    abi_result_t (*run)(struct nccl_task *task);
    abi_result_t result;
    char sentence[NCCL_SENTENCE_BYTES]; /* of a failure */
} nccl_task_t;

/** Before a collective, with the rank's GPU current: if the thread is in a group, libblinkclient hears of it.
 * Errors: INVALID_USAGE (default streams of two GPUs). */
abi_result_t nccl_group_enter(const nccl_gpu_t *gpu, blink_stream_t stream);

/** Before what cannot be in a group with collectives. Errors: INVALID_USAGE. */
abi_result_t nccl_group_check_plain(const char *call);

/** The call's result: the first failure in a group is the group's. */
abi_result_t nccl_group_note(abi_result_t result);

/** Wait for a join, or leave that to the end of the group. *place is the program's for the handle, NULL after
 * a failure. */
abi_result_t nccl_group_await(nccl_comm_t *comm, nccl_comm_t **place);

/** Do the task, or leave that to the end of the group; then it is freed by free(). */
abi_result_t nccl_group_do(nccl_task_t *task);

#endif

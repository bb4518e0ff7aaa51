/*
 * A service for worker_test.c: starts the worker as a process of its own, with an environment of the test's
 * choice, and speaks link.h with it. What goes wrong with that itself fails the running test.
 */
#ifndef WORKER_HARNESS_H
#define WORKER_HARNESS_H

#include "base/cuda_driver.h"
#include "gpu_worker/link.h"
#include "ring.h"

#include <sys/types.h>

#define HARNESS_ARENA_BYTES (1u << 20)

typedef struct harness {
    pid_t worker;
    int socket_fd, doorbell_fd, completion_fd;
    ring_t ring;
    char *arena;
    size_t arena_used;
    uint64_t last_token, last_user_data;
    uint32_t last_object;
    gpu_hello_t hello;
    int exported_fds[GPU_MAX]; /* that came with it */
    uint32_t exported_count;
    uint32_t opening_count; /* signs of life before it */
} harness_t;

/** The program's main calls this first: a process that is to be the worker does not return. */
void harness_become_worker(int argument_count, char **arguments);

/** Start a worker and hear its hello. The arena is the harness's; all else that `start` says is the caller's.
 * `environment` holds "NAME=value" up to NULL; a NAME alone is unset. */
void harness_start(harness_t *harness, gpu_start_t start, const char *const *environment);
/** Hang up; the worker must end by itself. Returns its exit status. */
int harness_stop(harness_t *harness);
/** Wait for the worker's end. Returns its exit status. */
int harness_await_end(harness_t *harness);

/** Send a request, with descriptors along. It gets a new token unless it has one. */
void harness_send(harness_t *harness, gpu_request_t *request, const int *fds, uint32_t fd_count);
/** The next reply. false: the worker has ended. */
bool harness_hear(harness_t *harness, gpu_reply_t *reply);
/** Both; the worker must not end. */
gpu_reply_t harness_ask(harness_t *harness, gpu_request_t *request, const int *fds, uint32_t fd_count);

/** Space in the arena; it is not given back. */
void *harness_place(harness_t *harness, size_t bytes);
/** Submit; `place` is where in the arena, or NULL. Returns the user data of the completion to come. */
uint64_t harness_submit(harness_t *harness, ring_sqe_t sqe, const void *place);
/** The next completion, for which the event must have been raised. */
ring_cqe_t harness_completion(harness_t *harness);
/** Submit and wait: the result. Its sentence is in blink_error_text(). */
blink_result_t harness_do(harness_t *harness, ring_sqe_t sqe, const void *place);

/** That a sentence contains this part of one. */
void harness_assert_text(const char *text, const char *part);

/** A new object of these bytes (NULL: of zeros) on the GPUs of a mask. */
uint32_t harness_object(harness_t *harness, const void *bytes, size_t count, uint32_t gpus);
/** Memory that both sides see. */
void *harness_map_host(harness_t *harness, size_t bytes, uint64_t *address, uint64_t *token);

#endif

/* What the scenarios of blink-nccl share: one rank, which is a process or a thread, and expectations that end
 * the process. */
#ifndef TESTS_NCCL_PLAYER_H
#define TESTS_NCCL_PLAYER_H

#include "base/cuda_driver.h"
#include "calls.h"

#define COUNT 3000u

typedef struct player {
    int rank, rank_count;
    abi_unique_id_t id;
    nccl_comm_t *comm;
    CUcontext context;
    CUstream stream;
} player_t;

extern const cuda_driver_t *cu;

void fail(const player_t *p, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void must(const player_t *p, abi_result_t result, const char *what);
void must_fail(const player_t *p, abi_result_t result, abi_result_t expected, const char *text,
               const char *what);
void cuda_must(const player_t *p, CUresult result, const char *what);

/** Make this rank's GPU current, and a stream on it the first time. */
void use_gpu(player_t *p);

void *device_memory(const player_t *p, size_t bytes);
void free_memory(const player_t *p, void *memory);
void write_to(const player_t *p, void *memory, const void *values, size_t bytes);
void read_from(const player_t *p, void *values, const void *memory, size_t bytes);
void synchronize(const player_t *p);

/** The communicator's ranks' numbers from 1 on, summed up in place: what every communicator can do. */
void sum_must_work(const player_t *p, nccl_comm_t *comm, const char *what);

/* collectives.c; these are for threads, too. */
void play_collectives(player_t *p);
void play_groups(player_t *p);
void play_operators(player_t *p);

/* lives.c */
void play_split(player_t *p);
void play_shrink(player_t *p);
void play_shrink_after_a_loss(player_t *p);
void play_revoke(player_t *p);
void play_grow(player_t *p);
void play_nonblocking(player_t *p);
void play_nonblocking_calls(player_t *p);
void play_nonblocking_abort(player_t *p);
void play_abort_from_a_thread(player_t *p);
void play_abort_of_a_join(player_t *p);
void play_abort_of_a_blocking_join(player_t *p);
void play_abort_of_a_split(player_t *p);
void play_abort_of_a_shrink(player_t *p);

/* others.c */
void play_memory(player_t *p);
void play_capture(player_t *p);
void play_refused(player_t *p);
void play_without_daemon(player_t *p);
void play_one_thread(player_t *p);

#endif

/* Starting and joining the threads. */
#include "ranks/threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct thread {
    const perf_run_t *run;
    uint32_t rank;
    pthread_t id;
} thread_t;

static void *run_rank(void *argument)
{
    const thread_t *thread = argument;
    int status = perf_rank_status(thread->run, thread->rank);
    if (status != EXIT_SUCCESS)
        _exit(status); /* what was printed has been flushed; the other threads may be anywhere */
    return NULL;
}

int perf_threads_run(const perf_run_t *shared)
{
    thread_t threads[PERF_RANKS_MAX];
    perf_run_t run = *shared;
    if (blink_open(run.socket_path, &run.context) != BLINK_OK) {
        fprintf(stderr, "blink-perf: %s\n", blink_last_error());
        return PERF_EXIT_FAILED;
    }
    for (uint32_t rank = 0; rank < run.options->rank_count; rank++) {
        threads[rank] = (thread_t){.run = &run, .rank = rank};
        if (pthread_create(&threads[rank].id, NULL, run_rank, &threads[rank]) != 0) {
            fprintf(stderr, "blink-perf: rank %u: no thread can be made\n", rank);
            _exit(PERF_EXIT_FAILED);
        }
    }
    for (uint32_t rank = 0; rank < run.options->rank_count; rank++)
        pthread_join(threads[rank].id, NULL);
    blink_close(run.context);
    return EXIT_SUCCESS;
}

/*
 * The run thread.
 */
#ifndef BLINK_WORKER_RUN_H
#define BLINK_WORKER_RUN_H

/* The run thread's life; `worker` is a worker_t. */
void *worker_run_main(void *worker);

#endif

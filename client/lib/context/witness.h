/*
 * Threads that the daemon watches to hear early of a process that is killed.
 *
 * The kernel takes the memory of a killed process apart in its last thread, which takes 100 ms and more for a
 * gigabyte, and closes its sockets and tells of its end after that. Threads that are not the last end at
 * once, and a pidfd of a thread tells so (Linux 6.9). Any thread may be the last, so two are watched.
 */
#ifndef CLIENT_WITNESS_H
#define CLIENT_WITNESS_H

#include "submit/connection.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

typedef struct witness {
    connection_t *connection;
    pthread_t thread; /* the second one, which does nothing else */
    sem_t over;
    bool runs;
} witness_t;

/** Have the daemon watch the calling thread, which is to live as long as the connection, and another one.
 * Nothing is done where the kernel or the daemon does not know that: the process is watched in any case. */
void witness_start(witness_t *witness, connection_t *connection);

/** The calling thread is about to end. */
void witness_stop(witness_t *witness);

#endif

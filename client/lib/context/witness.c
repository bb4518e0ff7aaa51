/* Threads whose end tells of the process's. */
#include "context/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since Linux 6.9; the headers of older systems lack the name. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* A number of a thread says nothing in another pid namespace, so the calling thread itself is handed over. */
static bool give_thread(connection_t *connection)
{
    int fd = connection->watches_threads ? (int)syscall(SYS_pidfd_open, gettid(), PIDFD_THREAD) : -1;
    if (fd < 0)
        return false;
    Blinkwire__WatchThread body = BLINKWIRE__WATCH_THREAD__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_WATCH_THREAD;
    request.watch_thread = &body;
    blink_result_t result = connection_post(connection, &request, fd);
    close(fd);
    return result == BLINK_OK;
}

static void *live(void *argument)
{
    witness_t *witness = argument;
    (void)give_thread(witness->connection);
    while (sem_wait(&witness->over) != 0 && errno == EINTR)
        continue;
    return NULL;
}

void witness_start(witness_t *witness, connection_t *connection)
{
    *witness = (witness_t){.connection = connection};
    if (!give_thread(connection))
        return;
    sem_init(&witness->over, 0, 0);
    witness->runs = pthread_create(&witness->thread, NULL, live, witness) == 0;
    if (!witness->runs)
        sem_destroy(&witness->over);
}

void witness_stop(witness_t *witness)
{
    if (!witness->runs)
        return;
    sem_post(&witness->over);
    pthread_join(witness->thread, NULL);
    sem_destroy(&witness->over);
}

/* What processes that share GPUs tell each other. */
#include "standin/streams/share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* between threads; the file's is between processes */
    int file;
    share_t *gpus; /* of the machine */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void open_table(void)
{
    const size_t bytes = STANDIN_GPUS_MAX * sizeof(share_t);
    void *map = MAP_FAILED;
    table.file = open(standin_settings()->shared, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (table.file >= 0 && !ftruncate(table.file, (off_t)bytes))
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, table.file, 0);
    if (map == MAP_FAILED) {
        perror("stand-in: STANDIN_CUDA_SHARED");
        abort();
    }
    table.gpus = map;
}

static bool has_ended(int32_t pid)
{
    return pid && kill(pid, 0) && errno == ESRCH;
}

share_t *share_open(CUdevice ordinal)
{
    pthread_mutex_lock(&table.lock);
    if (!table.gpus)
        open_table();
    flock(table.file, LOCK_EX);
    share_t *share = &table.gpus[standin_settings()->gpus[ordinal]];
    for (int i = 0; i < SHARE_USERS_MAX; i++)
        if (has_ended(share->users[i].pid))
            share->users[i] = (share_user_t){0};
    if (has_ended(share->holder))
        share->holder = 0;
    return share;
}

void share_close(void)
{
    flock(table.file, LOCK_UN);
    pthread_mutex_unlock(&table.lock);
}

share_user_t *share_own(share_t *share)
{
    share_user_t *free_one = NULL;
    for (int i = SHARE_USERS_MAX - 1; i >= 0; i--) {
        if (share->users[i].pid == getpid())
            return &share->users[i];
        if (!share->users[i].pid)
            free_one = &share->users[i];
    }
    if (!free_one) {
        fprintf(stderr, "stand-in: STANDIN_CUDA_SHARED: more than %d processes\n", SHARE_USERS_MAX);
        abort();
    }
    free_one->pid = getpid();
    return free_one;
}

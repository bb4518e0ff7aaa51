/* Room on the multiprocessors: what a launch waits for (STANDIN_CUDA_RESIDENCY). Processes that share the
 * GPUs as under MPS (STANDIN_CUDA_SHARED) have a table of what each has taken, in a file. */
#include "standin/streams/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { USERS_MAX = 64, NAP_NS = 200000 };

/* A process with blocks on a GPU. One that has ended, however, has none. */
typedef struct user {
    int32_t pid; /* 0: free */
    uint32_t blocks;
} user_t;

typedef struct table {
    user_t users[STANDIN_GPUS_MAX][USERS_MAX]; /* by GPU of the machine; under the file's lock */
} table_t;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    uint32_t taken[STANDIN_GPUS_MAX]; /* blocks of this process, by ordinal */
    int file;                         /* STANDIN_CUDA_SHARED */
    table_t *table;
} room = {.lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};

static void open_table(void)
{
    const char *path = standin_settings()->shared;
    room.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (room.file >= 0 && !ftruncate(room.file, sizeof(*room.table)))
        room.table = mmap(NULL, sizeof(*room.table), PROT_READ | PROT_WRITE, MAP_SHARED, room.file, 0);
    if (!room.table || room.table == MAP_FAILED) {
        perror("stand-in: STANDIN_CUDA_SHARED");
        abort();
    }
}

static bool has_ended(const user_t *user)
{
    return user->pid && kill(user->pid, 0) && errno == ESRCH;
}

/* What others have taken of a GPU. With the file's lock held, as the next. */
static uint32_t count_others(user_t *users)
{
    uint32_t blocks = 0;
    for (int i = 0; i < USERS_MAX; i++) {
        if (has_ended(&users[i]))
            users[i] = (user_t){0};
        if (users[i].pid != getpid())
            blocks += users[i].blocks;
    }
    return blocks;
}

static void note(user_t *users, uint32_t blocks)
{
    int own = 0;
    while (own < USERS_MAX && users[own].pid != getpid())
        own++;
    for (int i = 0; own == USERS_MAX && i < USERS_MAX; i++)
        own = users[i].pid ? own : i;
    if (own == USERS_MAX) {
        fprintf(stderr, "stand-in: STANDIN_CUDA_SHARED: more than %d processes\n", USERS_MAX);
        abort();
    }
    users[own] = blocks ? (user_t){getpid(), blocks} : (user_t){0};
}

/* Have so many blocks from now on, if there is room for them beside what others have. */
static bool change_share(CUdevice ordinal, uint32_t blocks, uint32_t most)
{
    if (!room.table)
        open_table();
    user_t *users = room.table->users[standin_settings()->gpus[ordinal]];
    flock(room.file, LOCK_EX);
    const bool fits = blocks + count_others(users) <= most;
    if (fits)
        note(users, blocks);
    flock(room.file, LOCK_UN);
    return fits;
}

static bool try_to_take(CUdevice ordinal, uint32_t blocks, uint32_t most)
{
    const uint32_t wanted = room.taken[ordinal] + blocks;
    if (standin_settings()->has_residency && wanted > most)
        return false;
    if (standin_settings()->shared && !change_share(ordinal, wanted, most))
        return false;
    room.taken[ordinal] = wanted;
    return true;
}

/* Another process tells nobody here that it has given something back. */
static void await_room(void)
{
    if (!standin_settings()->shared) {
        pthread_cond_wait(&room.freed, &room.lock);
        return;
    }
    pthread_mutex_unlock(&room.lock);
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    pthread_mutex_lock(&room.lock);
}

void room_take(CUdevice ordinal, uint32_t blocks, uint32_t most)
{
    pthread_mutex_lock(&room.lock);
    while (!try_to_take(ordinal, blocks, most))
        await_room();
    pthread_mutex_unlock(&room.lock);
}

void room_give(CUdevice ordinal, uint32_t blocks)
{
    pthread_mutex_lock(&room.lock);
    room.taken[ordinal] -= blocks;
    if (standin_settings()->shared)
        change_share(ordinal, room.taken[ordinal], UINT32_MAX);
    pthread_cond_broadcast(&room.freed);
    pthread_mutex_unlock(&room.lock);
}

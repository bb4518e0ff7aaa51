/* Room on the multiprocessors: what a launch waits for (STANDIN_CUDA_RESIDENCY). Processes that share the
 * GPUs as under MPS (STANDIN_CUDA_SHARED) count what each has taken. */
#include "standin/streams/share.h"
#include "standin/streams/stream.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { NAP_NS = 200000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    uint32_t taken[STANDIN_GPUS_MAX]; /* blocks of this process, by ordinal */
} room = {.lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};

/* What others have taken of a GPU. */
static uint32_t count_others(const share_t *share)
{
    uint32_t blocks = 0;
    for (int i = 0; i < SHARE_USERS_MAX; i++)
        if (share->users[i].pid != getpid())
            blocks += share->users[i].blocks;
    return blocks;
}

/* Have so many blocks from now on, if there is room for them beside what others have. */
static bool change_share(CUdevice ordinal, uint32_t blocks, uint32_t most)
{
    share_t *share = share_open(ordinal);
    const bool fits = blocks + count_others(share) <= most;
    if (fits)
        share_own(share)->blocks = blocks;
    share_close();
    return fits;
}

static bool is_shared(void)
{
    return standin_settings()->shared && standin_settings()->has_mps;
}

static bool try_to_take(CUdevice ordinal, uint32_t blocks, uint32_t most)
{
    const uint32_t wanted = room.taken[ordinal] + blocks;
    if (standin_settings()->has_residency && wanted > most)
        return false;
    if (is_shared() && !change_share(ordinal, wanted, most))
        return false;
    room.taken[ordinal] = wanted;
    return true;
}

/* Another process tells nobody here that it has given something back. */
static void await_room(void)
{
    if (!is_shared()) {
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
    if (is_shared())
        change_share(ordinal, room.taken[ordinal], UINT32_MAX);
    pthread_cond_broadcast(&room.freed);
    pthread_mutex_unlock(&room.lock);
}

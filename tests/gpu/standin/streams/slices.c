/* Time slices: kernels of one process at a time run on a GPU, and are stopped wherever they are when their
 * slice is over and another process wants the GPU. A signal stops them, for they ask nobody. */
#include "standin/streams/share.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_NS = 2000000, NAP_NS = 100000, THREADS_MAX = 512 };

/* A GPU's kernels in this process. */
typedef struct slices {
    pthread_mutex_t lock; /* held with the signal blocked */
    pthread_t threads[THREADS_MAX];
    _Atomic unsigned thread_count; /* changed under the lock */
    bool has_keeper;
    _Atomic bool runs;
    _Atomic unsigned stopped; /* threads that await the turn */
    uint64_t since_ns;
    CUdevice ordinal;
} slices_t;

static slices_t slices[STANDIN_GPUS_MAX];
static _Thread_local slices_t *own; /* the calling thread's */

static int stop_signal(void)
{
    return SIGRTMAX - 1;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* With the signal blocked, so that a thread counts once. */
static void await_turn(slices_t *s)
{
    atomic_fetch_add(&s->stopped, 1);
    while (!atomic_load(&s->runs))
        nap();
    atomic_fetch_sub(&s->stopped, 1);
}

static void on_stop(int number)
{
    const int error = errno;
    (void)number;
    if (own)
        await_turn(own);
    errno = error;
}

/* A thread that leaves meanwhile needs no stopping, and one that enters waits by itself. */
static void stop_all(slices_t *s)
{
    atomic_store(&s->runs, false);
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < atomic_load(&s->thread_count); i++)
        pthread_kill(s->threads[i], stop_signal());
    pthread_mutex_unlock(&s->lock);
    while (atomic_load(&s->stopped) < atomic_load(&s->thread_count))
        nap();
}

static bool others_wait(const share_t *share)
{
    bool wait = false;
    for (int i = 0; i < SHARE_USERS_MAX; i++)
        wait |= share->users[i].waits && share->users[i].pid != getpid();
    return wait;
}

/* Whoever has just had a turn lets others take theirs. */
static void take_turn(slices_t *s, share_t *share)
{
    share_own(share)->waits = atomic_load(&s->thread_count) > 0;
    if (!share_own(share)->waits || share->holder || (share->former == getpid() && others_wait(share)))
        return;
    share_own(share)->waits = false;
    share->holder = getpid();
    s->since_ns = now_ns();
    atomic_store(&s->runs, true);
}

static void end_turn(slices_t *s, share_t *share)
{
    stop_all(s);
    share->holder = 0;
    share->former = getpid();
}

static void *keep_turns(void *argument)
{
    slices_t *s = argument;
    for (;; nap()) {
        share_t *share = share_open(s->ordinal);
        if (share->holder != getpid())
            take_turn(s, share);
        else if (!atomic_load(&s->thread_count) || (now_ns() - s->since_ns > SLICE_NS && others_wait(share)))
            end_turn(s, share);
        share_close();
    }
    return NULL;
}

static void start_keeper(slices_t *s, CUdevice ordinal)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    s->has_keeper = true;
    s->ordinal = ordinal;
    if (sigaction(stop_signal(), &action, NULL) || pthread_create(&thread, NULL, keep_turns, s))
        abort();
    pthread_detach(thread);
}

static void lock_slices(slices_t *s, sigset_t *before)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, stop_signal());
    pthread_sigmask(SIG_BLOCK, &stop, before);
    pthread_mutex_lock(&s->lock);
}

static bool takes_turns(void)
{
    return standin_settings()->shared && !standin_settings()->has_mps;
}

void slice_enter(CUdevice ordinal)
{
    slices_t *s = &slices[ordinal];
    sigset_t before;
    if (!takes_turns())
        return;
    own = s;
    lock_slices(s, &before);
    if (!s->has_keeper)
        start_keeper(s, ordinal);
    const unsigned count = atomic_load(&s->thread_count);
    if (count == THREADS_MAX)
        abort();
    s->threads[count] = pthread_self();
    atomic_store(&s->thread_count, count + 1);
    pthread_mutex_unlock(&s->lock);
    await_turn(s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void slice_leave(CUdevice ordinal)
{
    slices_t *s = &slices[ordinal];
    sigset_t before;
    if (!takes_turns())
        return;
    lock_slices(s, &before);
    const unsigned last = atomic_load(&s->thread_count) - 1;
    for (unsigned i = 0; i < last; i++)
        if (pthread_equal(s->threads[i], pthread_self()))
            s->threads[i] = s->threads[last];
    atomic_store(&s->thread_count, last);
    own = NULL;
    pthread_mutex_unlock(&s->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

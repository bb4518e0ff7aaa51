/* References, counted under the lock; whoever drops the last one frees the keeper. */
#include "stream/keeper.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

stream_keeper_t *keeper_create(int pump_fd)
{
    stream_keeper_t *keeper = calloc(1, sizeof(*keeper));
    if (!keeper)
        return NULL;
    pthread_mutex_init(&keeper->lock, NULL);
    keeper->pump_fd = pump_fd;
    keeper->references = 1;
    return keeper;
}

/* Drops a reference and unlocks. */
static void put(stream_keeper_t *keeper)
{
    bool last = --keeper->references == 0;
    pthread_mutex_unlock(&keeper->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

/* Under the lock. The references of what is taken are dropped: the context's is still there. */
static stream_stored_t *take(stream_keeper_t *keeper)
{
    stream_stored_t *released = keeper->released;
    keeper->released = NULL;
    for (stream_stored_t *stored = released; stored; stored = stored->next)
        keeper->references--;
    return released;
}

stream_stored_t *keeper_take_released(stream_keeper_t *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    stream_stored_t *released = take(keeper);
    pthread_mutex_unlock(&keeper->lock);
    return released;
}

void keeper_close(stream_keeper_t *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    for (stream_stored_t *stored = take(keeper), *next; stored; stored = next) {
        next = stored->next;
        free(stored);
    }
    keeper->pump_fd = -1;
    put(keeper);
}

stream_stored_t *keeper_add(stream_keeper_t *keeper, struct stream_window *window)
{
    stream_stored_t *stored = malloc(sizeof(*stored));
    if (!stored)
        return NULL;
    *stored = (stream_stored_t){.keeper = keeper, .window = window};
    pthread_mutex_lock(&keeper->lock);
    keeper->references++;
    pthread_mutex_unlock(&keeper->lock);
    return stored;
}

void keeper_drop(stream_stored_t *stored)
{
    stream_keeper_t *keeper = stored->keeper;
    pthread_mutex_lock(&keeper->lock);
    put(keeper);
    free(stored);
}

void keeper_release(stream_stored_t *stored)
{
    stream_keeper_t *keeper = stored->keeper;
    uint64_t one = 1;
    pthread_mutex_lock(&keeper->lock);
    if (keeper->pump_fd < 0) {
        free(stored);
        put(keeper);
        return;
    }
    stored->next = keeper->released;
    keeper->released = stored;
    (void)!write(keeper->pump_fd, &one, sizeof(one)); /* fails only if it is readable already */
    pthread_mutex_unlock(&keeper->lock);
}

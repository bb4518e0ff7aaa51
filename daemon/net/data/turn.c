#include "net/data/turn.h"

void turn_init(turn_t *turn)
{
    pthread_mutex_init(&turn->mutex, NULL);
    pthread_cond_init(&turn->passed, NULL);
    turn->next = turn->serving = 0;
}

void turn_fini(turn_t *turn)
{
    pthread_cond_destroy(&turn->passed);
    pthread_mutex_destroy(&turn->mutex);
}

void turn_take(turn_t *turn)
{
    pthread_mutex_lock(&turn->mutex);
    uint64_t own = turn->next++;
    while (turn->serving != own)
        pthread_cond_wait(&turn->passed, &turn->mutex);
    pthread_mutex_unlock(&turn->mutex);
}

bool turn_try(turn_t *turn)
{
    pthread_mutex_lock(&turn->mutex);
    bool is_free = turn->serving == turn->next;
    if (is_free)
        turn->next++;
    pthread_mutex_unlock(&turn->mutex);
    return is_free;
}

void turn_pass(turn_t *turn)
{
    pthread_mutex_lock(&turn->mutex);
    turn->serving++;
    if (turn->serving != turn->next)
        pthread_cond_broadcast(&turn->passed);
    pthread_mutex_unlock(&turn->mutex);
}

/*
 * The turn: a lock that is given in the order in which threads ask for it, so that a thread that takes it
 * again and again keeps nobody out.
 */
#ifndef BLINK_DATA_TURN_H
#define BLINK_DATA_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct turn {
    pthread_mutex_t mutex;
    pthread_cond_t passed;
    uint64_t next, serving; /* under the mutex: the next number to be drawn, and whose turn it is */
} turn_t;

void turn_init(turn_t *turn);
void turn_fini(turn_t *turn);

/* Wait for the turn. */
void turn_take(turn_t *turn);

/* Take it unless somebody has it or waits for it. */
bool turn_try(turn_t *turn);

/* Pass it on. */
void turn_pass(turn_t *turn);

#endif

/*
 * A walk through all states that choices lead to, depth first. A state cannot be copied, as it contains
 * stacks of running code: each path is walked again from the start. Of two ways to one state one is followed.
 */
#ifndef WALK_H
#define WALK_H

#include <stdbool.h>
#include <stdint.h>

#define WALK_STEPS_MAX 4000u

/** What is walked through. */
typedef struct walk_world {
    void (*restart)(void);         /* everything as it begins */
    uint64_t (*choices)(void);     /* bit c: choice c can be taken. 0: the end */
    void (*take)(uint32_t choice); /* go on to the next state */
    uint64_t (*hash)(void);        /* of all that the future depends on */
    bool (*is_wrong)(bool end);    /* the walk ends at such a state */
} walk_world_t;

typedef struct walk_result {
    uint64_t states, runs, ends;
    bool wrong;
    uint32_t depth;               /* of the state that is wrong, and … */
    uint8_t path[WALK_STEPS_MAX]; /* … the choices that lead there */
} walk_result_t;

/** Walk through all states, or up to the first that is wrong. */
void walk(const walk_world_t *world, walk_result_t *result);

/** Go to the state that is wrong once more. */
void walk_again(const walk_world_t *world, const walk_result_t *result);

#endif

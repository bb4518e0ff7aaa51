/*
 * Threads of a model: coroutines on stacks of their own, which a scheduler enters and which leave at every
 * step. A restart begins them anew on the same stacks.
 */
#ifndef COROUTINE_H
#define COROUTINE_H

#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

#define COROUTINE_STACK_BYTES (256u << 10)

typedef struct coroutine {
    jmp_buf place, scheduler;
    char *stack;
} coroutine_t;

/* From the coroutine: back to whom has entered it. */
static inline void coroutine_leave(coroutine_t *coroutine)
{
    if (_setjmp(coroutine->place) == 0)
        _longjmp(coroutine->scheduler, 1);
}

/* From the scheduler: go on until it leaves. */
static inline void coroutine_enter(coroutine_t *coroutine)
{
    if (_setjmp(coroutine->scheduler) == 0)
        _longjmp(coroutine->place, 1);
}

/* Run `main` on the stack until it leaves. It must not return. */
static inline void coroutine_begin(coroutine_t *coroutine, void (*main)(void))
{
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = coroutine->stack;
    start.uc_stack.ss_size = COROUTINE_STACK_BYTES;
    makecontext(&start, main, 0);
    if (_setjmp(coroutine->scheduler) == 0)
        setcontext(&start);
}

#endif

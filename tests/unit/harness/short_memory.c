/* The linker has what the program calls by these names come here (--wrap). */
#include "unit/harness/short_memory.h"

#include <stdatomic.h>
#include <stddef.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static pthread_t victim;
static _Atomic uint32_t
    left; /* times that the victim may ask, and the one at which it is refused; 0: no matter */
static _Atomic bool refused;

static bool refuses(void)
{
    /* Acquire: pairs with the store in short_memory_begin(). */
    if (atomic_load_explicit(&left, memory_order_acquire) == 0 || !pthread_equal(victim, pthread_self()))
        return false;
    bool now = atomic_fetch_sub_explicit(&left, 1, memory_order_relaxed) == 1;
    if (now)
        atomic_store_explicit(&refused, true, memory_order_relaxed);
    return now;
}

void short_memory_begin(pthread_t thread, uint32_t nth)
{
    victim = thread;
    atomic_store_explicit(&refused, false, memory_order_relaxed);
    atomic_store_explicit(&left, nth, memory_order_release);
}

bool short_memory_end(void)
{
    atomic_store_explicit(&left, 0, memory_order_release);
    return atomic_load_explicit(&refused, memory_order_relaxed);
}

void *__wrap_malloc(size_t bytes)
{
    return refuses() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return refuses() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return refuses() ? NULL : __real_realloc(memory, bytes);
}

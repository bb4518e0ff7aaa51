/* The threads, their store buffers, and what a walk over choices of who goes on must know of them. */
#include "explore.h"

#include "coroutine.h"
#include "seen.h"
#include "story.h"
#include "walk.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_MAX 8u

/* A store that has not reached memory. */
typedef struct buffered {
    void *word;
    size_t bytes;
    uint64_t value;
    bool adds;
} buffered_t;

typedef struct thread {
    coroutine_t coroutine;
    buffered_t buffer[BUFFER_MAX];
    uint32_t buffered;
    uint64_t history; /* hash of what it has read and how far it has come */
    bool finished;
    const void *futex;      /* asleep on this word; NULL: not asleep */
    const uint32_t *awaits; /* waits for this word; NULL: does not wait */
    bool awaits_nonzero;
} thread_t;

static struct explorer {
    const scenario_t *scenario;
    thread_t threads[EXPLORE_THREADS_MAX];
    uint32_t thread_count, running;
    char *initial; /* the shared bytes as they begin */
    story_t trace;
} explorer;

__attribute__((format(printf, 1, 2))) static void trace(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    story_add(&explorer.trace, format, arguments);
    va_end(arguments);
}

/* ---- memory ---- */

static uint64_t memory_read(const void *word, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, word, bytes);
    return value;
}

static void memory_apply(const buffered_t *store)
{
    uint64_t value = store->value + (store->adds ? memory_read(store->word, store->bytes) : 0);
    memcpy(store->word, &value, store->bytes);
}

static void buffer_drain_one(thread_t *thread)
{
    memory_apply(&thread->buffer[0]);
    memmove(thread->buffer, thread->buffer + 1, --thread->buffered * sizeof(thread->buffer[0]));
}

static void buffer_drain(thread_t *thread)
{
    while (thread->buffered > 0)
        buffer_drain_one(thread);
}

/* What the thread sees: memory, and its own stores above it. */
static uint64_t view(const thread_t *thread, const void *word, size_t bytes)
{
    uint64_t value = memory_read(word, bytes);
    for (uint32_t i = 0; i < thread->buffered; i++) {
        if (thread->buffer[i].word == word)
            value = thread->buffer[i].value + (thread->buffer[i].adds ? value : 0);
    }
    return bytes < sizeof(value) ? value & ((1ull << 8 * bytes) - 1) : value;
}

/* ---- threads ---- */

static thread_t *self(void)
{
    return &explorer.threads[explorer.running];
}

/* Let the scheduler choose who takes the next step. */
static thread_t *step(void)
{
    thread_t *thread = self();
    thread->history = seen_mix(thread->history, 1);
    coroutine_leave(&thread->coroutine);
    return thread;
}

static void write_word(const char *name, buffered_t store, memory_order order)
{
    thread_t *thread = self();
    bool strong = order == memory_order_seq_cst;
    trace("thread %u: %s %s %lld%s\n", explorer.running, name, store.adds ? "+=" : "=",
          (long long)(int64_t)store.value, strong ? "" : ", buffered");
    if (strong || thread->buffered == BUFFER_MAX)
        buffer_drain(thread);
    if (strong)
        memory_apply(&store);
    else
        thread->buffer[thread->buffered++] = store;
}

uint64_t explore_load(const char *name, const void *word, size_t bytes, memory_order order)
{
    thread_t *thread = step();
    uint64_t value = view(thread, word, bytes);
    (void)order;
    thread->history = seen_mix(thread->history, value);
    trace("thread %u: %s is %llu\n", explorer.running, name, (unsigned long long)value);
    return value;
}

void explore_store(const char *name, void *word, size_t bytes, uint64_t value, memory_order order)
{
    step();
    write_word(name, (buffered_t){word, bytes, value, false}, order);
}

uint64_t explore_add(const char *name, void *word, size_t bytes, uint64_t value, memory_order order)
{
    thread_t *thread = step();
    uint64_t before = view(thread, word, bytes);
    write_word(name, (buffered_t){word, bytes, value, true}, order);
    thread->history = seen_mix(thread->history, before);
    return before;
}

void explore_await(const char *name, uint32_t *word, bool nonzero, uint32_t then)
{
    thread_t *thread = self();
    thread->awaits = word;
    thread->awaits_nonzero = nonzero;
    step();
    thread->awaits = NULL;
    *word = then;
    trace("thread %u: %s\n", explorer.running, name);
}

void explore_forget(uint64_t local)
{
    self()->history = seen_mix(0, local);
}

void explore_futex_wait(const void *word, uint32_t value)
{
    thread_t *thread = step();
    buffer_drain(thread);
    bool sleeps = memory_read(word, sizeof(value)) == value;
    trace("thread %u: %s\n", explorer.running, sleeps ? "sleeps" : "does not sleep, the futex has changed");
    thread->history = seen_mix(thread->history, sleeps);
    if (!sleeps)
        return;
    thread->futex = word;
    step();
}

void explore_futex_wake(const void *word)
{
    thread_t *thread = step();
    buffer_drain(thread);
    for (uint32_t i = 0; i < explorer.thread_count; i++) {
        if (explorer.threads[i].futex == word)
            explorer.threads[i].futex = NULL;
    }
    trace("thread %u: wakes the sleepers\n", explorer.running);
}

static void thread_main(void)
{
    thread_t *thread = self();
    explorer.scenario->threads[explorer.running](explorer.scenario->shared);
    thread->finished = true;
    trace("thread %u: is through\n", explorer.running);
    coroutine_leave(&thread->coroutine);
}

/* Up to its first step. */
static void begin(thread_t *thread)
{
    *thread = (thread_t){.coroutine.stack = thread->coroutine.stack};
    explorer.running = (uint32_t)(thread - explorer.threads);
    coroutine_begin(&thread->coroutine, thread_main);
}

/* ---- runs ---- */

static bool can_go_on(const thread_t *thread)
{
    return !thread->finished && !thread->futex &&
           (!thread->awaits || (*thread->awaits != 0) == thread->awaits_nonzero);
}

/* Bit t: thread t goes on. Bit EXPLORE_THREADS_MAX + t: its oldest store reaches memory. */
static uint64_t choices(void)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < explorer.thread_count; i++) {
        mask |= (uint32_t)can_go_on(&explorer.threads[i]) << i;
        mask |= (uint32_t)(explorer.threads[i].buffered > 0) << (EXPLORE_THREADS_MAX + i);
    }
    return mask;
}

static void take(uint32_t choice)
{
    if (choice >= EXPLORE_THREADS_MAX) {
        buffer_drain_one(&explorer.threads[choice - EXPLORE_THREADS_MAX]);
        trace("thread %u: its oldest store reaches memory\n", choice - EXPLORE_THREADS_MAX);
        return;
    }
    explorer.running = choice;
    coroutine_enter(&explorer.threads[choice].coroutine);
}

/* Everything as it begins; each thread stands before its first step. */
static void restart(void)
{
    memcpy(explorer.scenario->shared, explorer.initial, explorer.scenario->shared_bytes);
    for (uint32_t i = 0; i < explorer.thread_count; i++)
        begin(&explorer.threads[i]);
}

/* Nobody can go on, and not all are through. */
static bool is_stuck(bool end)
{
    bool all_finished = true;
    for (uint32_t i = 0; i < explorer.thread_count; i++)
        all_finished &= explorer.threads[i].finished;
    return end && !all_finished;
}

/* ---- states ---- */

static uint64_t state_hash(void)
{
    const scenario_t *scenario = explorer.scenario;
    uint64_t hash = seen_hash(scenario->shared, scenario->shared_bytes);
    for (uint32_t i = 0; i < explorer.thread_count; i++) {
        const thread_t *thread = &explorer.threads[i];
        hash = seen_mix(hash, thread->history);
        hash = seen_mix(hash, (uint64_t)(uintptr_t)thread->futex);
        for (uint32_t j = 0; j < thread->buffered; j++) {
            hash = seen_mix(hash, (uint64_t)(uintptr_t)thread->buffer[j].word);
            hash = seen_mix(hash, thread->buffer[j].value);
        }
        hash = seen_mix(hash, thread->buffered * 2 + thread->finished);
    }
    return hash;
}

static const walk_world_t WORLD = {restart, choices, take, state_hash, is_stuck};

static void *must_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    return memory;
}

void explore(const scenario_t *scenario, exploration_t *found)
{
    static walk_result_t result;
    *found = (exploration_t){0};
    explorer = (struct explorer){.scenario = scenario};
    explorer.initial = must_alloc(scenario->shared_bytes);
    memcpy(explorer.initial, scenario->shared, scenario->shared_bytes);
    while (explorer.thread_count < EXPLORE_THREADS_MAX && scenario->threads[explorer.thread_count])
        explorer.threads[explorer.thread_count++].coroutine.stack = must_alloc(COROUTINE_STACK_BYTES);
    walk(&WORLD, &result);
    found->states = result.states;
    found->runs = result.runs;
    found->stuck = result.wrong;
    explorer.trace = (story_t){.text = found->trace, .bytes = sizeof(found->trace)};
    if (found->stuck)
        walk_again(&WORLD, &result);
    memcpy(scenario->shared, explorer.initial, scenario->shared_bytes);
    for (uint32_t i = 0; i < explorer.thread_count; i++)
        free(explorer.threads[i].coroutine.stack);
    free(explorer.initial);
}

#include "base/guard.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Where guard_run() goes on without the page; NULL outside of it. Volatile: the signal handler reads it in
 * the middle of what the compiler sees as plain code. */
static _Thread_local sigjmp_buf *volatile way_out;

/* The mapped ranges, for the signal handler, which can reach nothing that is not global. A slot is taken
 * while `bytes` is not 0, and is written before that. There are as many slots as a process may have mappings.
 */
#define GUARDED_RANGES 65536u

static struct {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    _Atomic bool poisoned; /* a page was not there */
} guarded[GUARDED_RANGES];

/* The control thread's: the slots that have been given back, each with the one before it, and how many have
 * ever been taken. */
static uint32_t free_after[GUARDED_RANGES], first_free = GUARD_NONE, taken_count;

static uint32_t take_slot(void)
{
    uint32_t slot = first_free;
    if (slot != GUARD_NONE)
        first_free = free_after[slot];
    else if (taken_count < GUARDED_RANGES)
        slot = taken_count++;
    return slot;
}

blink_result_t guard_add(void *base, size_t bytes, uint32_t *range)
{
    uint32_t slot = take_slot();
    if (slot == GUARD_NONE)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "the daemon can map no more memory of clients");
    atomic_store_explicit(&guarded[slot].base, (uintptr_t)base, memory_order_relaxed);
    atomic_store_explicit(&guarded[slot].poisoned, false, memory_order_relaxed);
    /* Release: pairs with the acquire load in find_guarded(). */
    atomic_store_explicit(&guarded[slot].bytes, bytes, memory_order_release);
    *range = slot;
    return BLINK_OK;
}

void guard_remove(uint32_t range)
{
    if (range == GUARD_NONE)
        return;
    /* Release: pairs with the acquire load in find_guarded(). */
    atomic_store_explicit(&guarded[range].bytes, 0, memory_order_release);
    free_after[range] = first_free;
    first_free = range;
}

const _Atomic bool *guard_mark(uint32_t range)
{
    return &guarded[range].poisoned;
}

/* The poison mark of the range that holds an address; NULL if no range does. */
static _Atomic bool *find_guarded(uintptr_t address)
{
    for (uint32_t i = 0; i < GUARDED_RANGES; i++) {
        /* Acquire: pairs with the release store in guard_add(). */
        size_t bytes = atomic_load_explicit(&guarded[i].bytes, memory_order_acquire);
        uintptr_t base = atomic_load_explicit(&guarded[i].base, memory_order_relaxed);
        if (bytes != 0 && address - base < bytes)
            return &guarded[i].poisoned;
    }
    return NULL;
}

/* Have the page replaced by a private one of zeros. mmap is a plain system call here, safe in a handler. */
static bool replace_page(uintptr_t address)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t page = address & ~(uintptr_t)(page_bytes - 1);
    return mmap((void *)page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

/* Mark the range, so that the engine fails the ops that use it, and leave the access. */
static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    const ucontext_t *interrupted = context;
    _Atomic bool *poisoned = find_guarded((uintptr_t)info->si_addr);
    /* Relaxed: the engine looks at the mark after the end of the run, and that end is handed over in order.
     */
    if (poisoned)
        atomic_store_explicit(poisoned, true, memory_order_relaxed);
    if (poisoned && way_out) {
        /* guard_run() saved no mask, and the next such signal must find itself unblocked. */
        pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
        siglongjmp(*way_out, 1);
    }
    if (poisoned && replace_page((uintptr_t)info->si_addr))
        return;
    /* Not ours: the access is repeated, and then ends the process as if there were no handler. */
    signal(signal_number, SIG_DFL);
}

blink_result_t guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, NULL) != 0)
        return BLINK_FAIL_ERRNO("SIGBUS handler");
    return BLINK_OK;
}

/* ---- accesses ---- */

bool guard_run(void (*work)(void *context), void *context)
{
    sigjmp_buf here;
    bool whole = sigsetjmp(here, 0) == 0;
    if (whole) {
        way_out = &here;
        work(context);
    }
    way_out = NULL;
    return whole;
}

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
} copy_t;

static void copy(void *context)
{
    const copy_t *work = context;
    memcpy(work->to, work->from, work->bytes);
}

bool guard_copy(void *to, const void *from, size_t bytes)
{
    copy_t work = {to, from, bytes};
    return guard_run(copy, &work);
}

typedef struct word_load {
    const _Atomic uint64_t *word;
    uint64_t value;
} word_load_t;

static void load(void *context)
{
    word_load_t *access = context;
    access->value = atomic_load_explicit(access->word, memory_order_seq_cst);
}

uint64_t guard_load(const _Atomic uint64_t *word)
{
    word_load_t access = {.word = word};
    (void)guard_run(load, &access);
    return access.value;
}

typedef struct word_store {
    _Atomic uint64_t *word;
    uint64_t value;
} word_store_t;

static void store(void *context)
{
    const word_store_t *access = context;
    atomic_store_explicit(access->word, access->value, memory_order_seq_cst);
}

void guard_store(_Atomic uint64_t *word, uint64_t value)
{
    (void)guard_run(store, &(word_store_t){word, value});
}

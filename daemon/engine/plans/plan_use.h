/*
 * What the ops of a communicator have run by, and how long that took beside what was predicted, for those who
 * ask (blinkctl explain --comm). One thread adds; any thread may read.
 */
#ifndef BLINK_ENGINE_PLAN_USE_H
#define BLINK_ENGINE_PLAN_USE_H

#include "base/budget.h"
#include "blink/types.h"

#include <stdatomic.h>

/* Ops of one kind, by one plan and of a like size. Entries stay where they are, and as they are but for the
 * atomic fields, which are counters that are read relaxed, each right by itself. */
typedef struct plan_use {
    struct plan_use *next;
    uint8_t opcode;
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
    const char *transport; /* static */
    uint64_t plan;         /* plan_bytes_digest() of a plan for several hosts; 0: of one host */
    uint32_t size_class;   /* plan_size_class() */
    _Atomic uint64_t op_count;
    _Atomic uint64_t bytes_least, bytes_most;
    /* How many of the ops were measured; for these alone: the sum of their times, the least of them, and the
     * sum of the times that were predicted. */
    _Atomic uint64_t measured_count;
    _Atomic uint64_t measured_ns, measured_ns_least, predicted_ns;
} plan_use_t;

typedef struct plan_uses {
    _Atomic(plan_use_t *) first; /* entries are only ever added in front */
    plan_use_t *last_noted;      /* the one thread's, as what follows */
    account_t *account;          /* charged with the entries (BUDGET_OP_BYTES); not followed by … */
    uint64_t charged_bytes;      /* … plan_uses_free(), so plan_uses_credit() comes first */
} plan_uses_t;

/* An op that has run. */
typedef struct plan_ran {
    uint8_t opcode;
    blink_algorithm_t algorithm;
    blink_protocol_t protocol;
    const char *transport; /* static */
    uint64_t plan;
    uint64_t bytes;       /* payload */
    uint64_t measured_ns; /* of its runs on the executor, without what was between them; 0: not known */
    double predicted_us;
} plan_ran_t;

/* Payloads by size: class c has those of more than 4^(c-1) and up to 4^c bytes, class 1 also the smaller
 * ones. */
static inline uint32_t plan_size_class(uint64_t bytes)
{
    return bytes > 4 ? (64u - (uint32_t)__builtin_clzll(bytes - 1) + 1u) / 2u : 1;
}

/* The largest payload of a class. */
static inline uint64_t plan_class_bytes(uint32_t class)
{
    return class < 32 ? 1ull << (2 * class) : UINT64_MAX;
}

/* Count an op. Without memory or budget it is only not shown. */
void plan_uses_note(plan_uses_t *uses, const plan_ran_t *ran);

/* The newest entry, or NULL. Thread-safe. */
const plan_use_t *plan_uses_first(const plan_uses_t *uses);

/* No op follows: credit the account, which may go before the entries do. */
void plan_uses_credit(plan_uses_t *uses);

void plan_uses_free(plan_uses_t *uses);

#endif

#include "engine/plans/plan_use.h"

#include "base/counter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_use(const plan_use_t *use, const plan_ran_t *ran, uint32_t size_class)
{
    return use->opcode == ran->opcode && use->size_class == size_class && use->algorithm == ran->algorithm &&
           use->protocol == ran->protocol && use->plan == ran->plan &&
           strcmp(use->transport, ran->transport) == 0;
}

static plan_use_t *add_use(plan_uses_t *uses, const plan_ran_t *ran, uint32_t size_class)
{
    bool has_left = account_has_left(uses->account, BUDGET_OP_BYTES, sizeof(plan_use_t));
    plan_use_t *use = has_left ? calloc(1, sizeof(*use)) : NULL;
    if (!use)
        return NULL;
    account_add(uses->account, BUDGET_OP_BYTES, sizeof(*use));
    uses->charged_bytes += sizeof(*use);
    use->opcode = ran->opcode;
    use->algorithm = ran->algorithm;
    use->protocol = ran->protocol;
    use->transport = ran->transport;
    use->plan = ran->plan;
    use->size_class = size_class;
    atomic_init(&use->bytes_least, UINT64_MAX);
    atomic_init(&use->measured_ns_least, UINT64_MAX);
    /* Relaxed: only this thread adds entries. */
    use->next = atomic_load_explicit(&uses->first, memory_order_relaxed);
    /* Release: pairs with the load in plan_uses_first(), so the entry is seen whole. */
    atomic_store_explicit(&uses->first, use, memory_order_release);
    return use;
}

/* Mostly it is the entry of the op before. */
static plan_use_t *find_use(plan_uses_t *uses, const plan_ran_t *ran)
{
    uint32_t size_class = plan_size_class(ran->bytes);
    plan_use_t *use = uses->last_noted;
    if (use && is_use(use, ran, size_class))
        return use;
    /* Relaxed: only this thread adds entries. */
    use = atomic_load_explicit(&uses->first, memory_order_relaxed);
    while (use && !is_use(use, ran, size_class))
        use = use->next;
    uses->last_noted = use ? use : add_use(uses, ran, size_class);
    return uses->last_noted;
}

/* Relaxed, here and below: counters of one writer, each right by itself. */
static void lower(_Atomic uint64_t *least, uint64_t value)
{
    if (value < atomic_load_explicit(least, memory_order_relaxed))
        atomic_store_explicit(least, value, memory_order_relaxed);
}

static void raise(_Atomic uint64_t *most, uint64_t value)
{
    if (value > atomic_load_explicit(most, memory_order_relaxed))
        atomic_store_explicit(most, value, memory_order_relaxed);
}

void plan_uses_note(plan_uses_t *uses, const plan_ran_t *ran)
{
    plan_use_t *use = find_use(uses, ran);
    if (!use)
        return;
    lower(&use->bytes_least, ran->bytes);
    raise(&use->bytes_most, ran->bytes);
    counter_add(&use->op_count, 1);
    if (ran->measured_ns == 0)
        return;
    lower(&use->measured_ns_least, ran->measured_ns);
    counter_add(&use->measured_ns, ran->measured_ns);
    counter_add(&use->predicted_ns, (uint64_t)(ran->predicted_us * 1e3));
    counter_add(&use->measured_count, 1);
}

const plan_use_t *plan_uses_first(const plan_uses_t *uses)
{
    /* Acquire: pairs with the store in add_use(). */
    return atomic_load_explicit(&uses->first, memory_order_acquire);
}

void plan_uses_credit(plan_uses_t *uses)
{
    account_credit(uses->account, BUDGET_OP_BYTES, uses->charged_bytes);
    uses->charged_bytes = 0;
}

void plan_uses_free(plan_uses_t *uses)
{
    /* Relaxed: nobody adds entries any more. */
    plan_use_t *use = atomic_load_explicit(&uses->first, memory_order_relaxed);
    while (use) {
        plan_use_t *next = use->next;
        free(use);
        use = next;
    }
}

#include "base/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Of the descriptors that the process may have, connections and clients may each use one in so many: a client
 * needs four. */
#define DESCRIPTORS_PER_CLIENT 8u

/* Where there are very few descriptors, shares of them would be of no use to anybody. */
#define CLIENTS_LEAST 256u

/* Of one tenant: tools, and those that have not said hello yet. */
#define CONNECTIONS_BESIDE_CLIENTS 32u

/* Mappings that the kernel gives a process where nobody says otherwise. Regions may use three of four. */
#define MAPPINGS_DEFAULT 65530u

const char *budget_name(budget_kind_t kind)
{
    static const char *const names[BUDGET_KINDS] = {[BUDGET_CONNECTIONS] = "connections",
                                                    [BUDGET_CLIENTS] = "clients",
                                                    [BUDGET_COMMUNICATORS] = "communicators",
                                                    [BUDGET_GATHERING_RANKS] = "gathering_ranks",
                                                    [BUDGET_REGIONS] = "regions",
                                                    [BUDGET_REGISTERED_BYTES] = "registered_bytes",
                                                    [BUDGET_PINNED_BYTES] = "pinned_bytes",
                                                    [BUDGET_REPLY_BYTES] = "reply_bytes",
                                                    [BUDGET_OP_BYTES] = "op_bytes",
                                                    [BUDGET_SCRATCH_BYTES] = "scratch_bytes",
                                                    [BUDGET_GPU_SCRATCH_BYTES] = "gpu_scratch_bytes"};
    return names[kind];
}

/* ---- the node ---- */

static uint64_t most_clients(void)
{
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0 || descriptors.rlim_cur == RLIM_INFINITY)
        return UINT32_MAX;
    uint64_t most = descriptors.rlim_cur / DESCRIPTORS_PER_CLIENT;
    return most > CLIENTS_LEAST ? most : CLIENTS_LEAST;
}

static uint64_t most_regions(void)
{
    unsigned long mappings = MAPPINGS_DEFAULT;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file && fscanf(file, "%lu", &mappings) != 1)
        mappings = MAPPINGS_DEFAULT;
    if (file)
        fclose(file);
    return mappings / 4 * 3;
}

void budget_init(budget_t *budget, const budget_limit_t limits[BUDGET_KINDS])
{
    *budget = (budget_t){0};
    for (uint32_t kind = 0; kind < BUDGET_KINDS; kind++)
        budget->limits[kind] = limits[kind];
    if (limits[BUDGET_CONNECTIONS].tenant == 0)
        budget->limits[BUDGET_CONNECTIONS].tenant =
            limits[BUDGET_CLIENTS].tenant + CONNECTIONS_BESIDE_CLIENTS;
    if (limits[BUDGET_CONNECTIONS].node == 0)
        budget->limits[BUDGET_CONNECTIONS].node = most_clients();
    if (limits[BUDGET_CLIENTS].node == 0)
        budget->limits[BUDGET_CLIENTS].node = most_clients();
    if (limits[BUDGET_REGIONS].node == 0)
        budget->limits[BUDGET_REGIONS].node = most_regions();
}

/* ---- accounts ---- */

/* Relaxed, here and below: counters of one writer, each right by itself. */
static uint64_t look(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void change(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_store_explicit(counter, look(counter) + amount, memory_order_relaxed);
}

static uint64_t tenant_count(const budget_t *budget)
{
    return atomic_load_explicit(&budget->account_count, memory_order_relaxed);
}

void account_open(account_t *account, budget_t *budget, const char *holder)
{
    *account = (account_t){.budget = budget, .holder = holder};
    atomic_fetch_add_explicit(&budget->account_count, 1, memory_order_relaxed);
}

void account_close(account_t *account)
{
    atomic_fetch_sub_explicit(&account->budget->account_count, 1, memory_order_relaxed);
}

uint64_t budget_used(const budget_t *budget, budget_kind_t kind)
{
    return look(&budget->used[kind]);
}

uint64_t account_used(const account_t *account, budget_kind_t kind)
{
    return look(&account->used[kind]);
}

/* What the others have left of the node's. */
static uint64_t left_by_others(const account_t *account, budget_kind_t kind)
{
    const budget_t *budget = account->budget;
    uint64_t all = look(&budget->used[kind]), own = look(&account->used[kind]);
    uint64_t others = all > own ? all - own : 0, node = budget->limits[kind].node;
    return others < node ? node - others : 0;
}

static uint64_t share(const account_t *account, budget_kind_t kind)
{
    return left_by_others(account, kind) / (tenant_count(account->budget) + 1);
}

uint64_t account_limit(const account_t *account, budget_kind_t kind)
{
    uint64_t most = account->budget->limits[kind].tenant, shared = share(account, kind);
    return shared < most ? shared : most;
}

bool account_has_left(const account_t *account, budget_kind_t kind, uint64_t amount)
{
    /* Every op asks: account_limit() would divide. */
    uint64_t wanted, of_all;
    return !__builtin_add_overflow(look(&account->used[kind]), amount, &wanted) &&
           wanted <= account->budget->limits[kind].tenant &&
           !__builtin_mul_overflow(wanted, tenant_count(account->budget) + 1, &of_all) &&
           of_all <= left_by_others(account, kind);
}

static blink_result_t refuse(const account_t *account, budget_kind_t kind, uint64_t amount)
{
    const budget_t *budget = account->budget;
    unsigned long used = look(&account->used[kind]), most = budget->limits[kind].tenant;
    if (used <= most && amount <= most - used)
        return BLINK_FAIL(BLINK_ERR_QUOTA,
                          "%s uses %lu and asks for %lu more; its share beside %lu tenants is %lu of the "
                          "%lu of %s_per_node",
                          account->holder, used, (unsigned long)amount,
                          (unsigned long)(tenant_count(budget) - 1), (unsigned long)share(account, kind),
                          (unsigned long)budget->limits[kind].node, budget_name(kind));
    return BLINK_FAIL(BLINK_ERR_QUOTA, "%s uses %lu and asks for %lu more; the limit is %lu, %s_per_tenant",
                      account->holder, used, (unsigned long)amount, most, budget_name(kind));
}

blink_result_t account_check(const account_t *account, budget_kind_t kind, uint64_t amount)
{
    return account_has_left(account, kind, amount) ? BLINK_OK : refuse(account, kind, amount);
}

blink_result_t account_charge(account_t *account, budget_kind_t kind, uint64_t amount)
{
    BLINK_TRY(account_check(account, kind, amount));
    account_add(account, kind, amount);
    return BLINK_OK;
}

void account_add(account_t *account, budget_kind_t kind, uint64_t amount)
{
    change(&account->used[kind], amount);
    change(&account->budget->used[kind], amount);
}

void account_credit(account_t *account, budget_kind_t kind, uint64_t amount)
{
    change(&account->used[kind], -amount);
    change(&account->budget->used[kind], -amount);
}

blink_result_t account_charge_all(account_t *account, const charge_t *charges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        blink_result_t result = account_charge(account, charges[i].kind, charges[i].amount);
        if (result != BLINK_OK) {
            account_credit_all(account, charges, i);
            return result;
        }
    }
    return BLINK_OK;
}

void account_credit_all(account_t *account, const charge_t *charges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        account_credit(account, charges[i].kind, charges[i].amount);
}

/* ---- texts ---- */

char *account_copy_text(account_t *account, budget_kind_t kind, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = account_has_left(account, kind, bytes) ? malloc(bytes) : NULL;
    if (!copy)
        return NULL;
    account_add(account, kind, bytes);
    return memcpy(copy, text, bytes);
}

void account_free_text(account_t *account, budget_kind_t kind, char *text)
{
    if (!text)
        return;
    account_credit(account, kind, strlen(text) + 1);
    free(text);
}

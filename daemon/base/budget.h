/*
 * What tenants make the daemon keep, and the limits of that. The node has one budget; every tenant has an
 * account, which is charged before anything is allocated and credited after it is freed.
 *
 * Of each resource a tenant may have no more than the limit per tenant, and no more than its share of the
 * node's: what the others have left of it, divided by the number of tenants plus one. So no number of tenants
 * uses all of it, and whoever comes late finds something left.
 *
 * One thread charges and credits a resource for all tenants: the engine thread BUDGET_OP_BYTES and
 * those of scratch, the control thread the others. Any thread may read what is used.
 */
#ifndef BLINK_BUDGET_H
#define BLINK_BUDGET_H

#include "error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum budget_kind {
    BUDGET_CONNECTIONS,
    BUDGET_CLIENTS,
    BUDGET_COMMUNICATORS,
    BUDGET_GATHERING_RANKS, /* places in communicators whose ranks have not all joined */
    BUDGET_REGIONS,
    BUDGET_REGISTERED_BYTES,
    BUDGET_PINNED_BYTES,      /* of staging regions that GPUs reach */
    BUDGET_REPLY_BYTES,       /* that the peers have not read */
    BUDGET_OP_BYTES,          /* ops that have not ended, ops that are stored, records of the plans used */
    BUDGET_SCRATCH_BYTES,     /* of the instances that runs are lent */
    BUDGET_GPU_SCRATCH_BYTES, /* and of the memory of GPUs that these take */
    BUDGET_KINDS
} budget_kind_t;

typedef struct budget_limit {
    uint64_t tenant, node;
} budget_limit_t;

typedef struct budget {
    budget_limit_t limits[BUDGET_KINDS];
    _Atomic uint64_t used[BUDGET_KINDS]; /* by all accounts together */
    _Atomic uint32_t account_count;
} budget_t;

typedef struct account {
    budget_t *budget;
    const char *holder; /* for messages; borrowed */
    _Atomic uint64_t used[BUDGET_KINDS];
} account_t;

/* "clients", "scratch_bytes": as in the names of the settings, with _per_tenant and _per_node behind it. */
const char *budget_name(budget_kind_t kind);

/* A limit of 0 for the node's connections, clients and regions stands for what the process's descriptors and
 * mappings allow, and one of 0 for a tenant's connections for some more than its clients. */
void budget_init(budget_t *budget, const budget_limit_t limits[BUDGET_KINDS]);

/* Control thread: a tenant has come, or goes with nothing on its account. */
void account_open(account_t *account, budget_t *budget, const char *holder);
void account_close(account_t *account);

/* Charge, or change nothing. Errors: QUOTA, which names the limit, what is used, and the setting. */
blink_result_t account_charge(account_t *account, budget_kind_t kind, uint64_t amount);

/* Amounts of several resources that come and go together. */
typedef struct charge {
    budget_kind_t kind;
    uint64_t amount;
} charge_t;

/* Charge all of them, or change nothing. Errors: QUOTA, as of account_charge(). */
blink_result_t account_charge_all(account_t *account, const charge_t *charges, uint32_t count);
void account_credit_all(account_t *account, const charge_t *charges, uint32_t count);

/* Fails as account_charge() would, and charges nothing. Errors: QUOTA. */
blink_result_t account_check(const account_t *account, budget_kind_t kind, uint64_t amount);

/* The same, without a message. */
bool account_has_left(const account_t *account, budget_kind_t kind, uint64_t amount);

/* Charge what is there already, be it more than the limit: later charges are refused instead. */
void account_add(account_t *account, budget_kind_t kind, uint64_t amount);

void account_credit(account_t *account, budget_kind_t kind, uint64_t amount);

/* A charged copy of the text; NULL, and no error text, without memory or budget. And its end (NULL: nothing
 * to free). */
char *account_copy_text(account_t *account, budget_kind_t kind, const char *text);
void account_free_text(account_t *account, budget_kind_t kind, char *text);

/* Thread-safe: what all accounts together use. */
uint64_t budget_used(const budget_t *budget, budget_kind_t kind);

/* Thread-safe. The limit is what the account may have at this moment. */
uint64_t account_used(const account_t *account, budget_kind_t kind);
uint64_t account_limit(const account_t *account, budget_kind_t kind);

#endif

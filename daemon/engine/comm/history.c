#include "engine/comm/history.h"

#include <stdlib.h>

#define HISTORY_FIRST_OPS 64u

void history_init(history_t *history, account_t *account, uint32_t members)
{
    *history = (history_t){.stride = record_bytes(record_ranks(members)), .account = account};
}

static bool leaves_half(const account_t *account, uint64_t bytes)
{
    return account_has_left(account, BUDGET_OP_BYTES, account_used(account, BUDGET_OP_BYTES) + 2 * bytes);
}

/* Twice as many places, while none has been used again: records stay where they are in order. */
static void grow(history_t *history)
{
    uint32_t capacity = history->capacity > 0 ? 2 * history->capacity : HISTORY_FIRST_OPS;
    uint64_t more_bytes = (capacity - history->capacity) * history->stride;
    char *records = NULL;
    if (capacity <= HISTORY_OPS && leaves_half(history->account, more_bytes))
        records = realloc(history->records, capacity * history->stride);
    history->is_full = !records;
    if (!records)
        return;
    account_add(history->account, BUDGET_OP_BYTES, more_bytes);
    history->records = records;
    history->capacity = capacity;
}

static op_record_t *place(const history_t *history, uint64_t number)
{
    return (op_record_t *)(void *)(history->records + number % history->capacity * history->stride);
}

op_record_t *history_add(history_t *history)
{
    if (!history->is_full && history->total == history->capacity)
        grow(history);
    return history->capacity > 0 ? place(history, history->total++) : NULL;
}

const op_record_t *history_get(const history_t *history, uint64_t number)
{
    bool is_there = number < history->total && number + history->capacity >= history->total;
    return is_there ? place(history, number) : NULL;
}

void history_credit(history_t *history)
{
    account_credit(history->account, BUDGET_OP_BYTES, history->capacity * history->stride);
}

void history_trim(history_t *history)
{
    if (history->total == 0 || history->total >= history->capacity)
        return;
    char *records = realloc(history->records, history->total * history->stride);
    if (!records)
        return;
    history->records = records;
    history->capacity = (uint32_t)history->total;
}

void history_free(history_t *history)
{
    free(history->records);
}

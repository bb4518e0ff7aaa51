/*
 * Who may cause a line in the log by being refused: every address once a second, and all together no more
 * than a budget of lines allows. What is withheld is counted. One thread.
 */
#ifndef BLINK_NET_REFUSALS_H
#define BLINK_NET_REFUSALS_H

#include "base/log.h"
#include "net/address.h"

/* Addresses that are remembered; of more at a time the one whose line is oldest is forgotten. */
#define REFUSALS_REMEMBERED 64u

typedef struct refusal {
    net_address_t address; /* its network stands for it: address_same_network() */
    uint64_t logged_ns;    /* 0: the place is free */
    uint32_t withheld_count;
} refusal_t;

/* Zeros are a fresh one. */
typedef struct refusals {
    refusal_t places[REFUSALS_REMEMBERED];
    log_budget_t budget;
} refusals_t;

/* Whether a line about the address may be written at this time; if so, *withheld_count is the number of lines
 * withheld since the last one about it. */
bool refusals_may_log(refusals_t *refusals, const net_address_t *address, uint64_t now_ns,
                      uint32_t *withheld_count);

/* Write "refused ADDRESS: WHY" if that may be written now. */
void refusals_log(refusals_t *refusals, const net_address_t *address, const char *why);

#endif

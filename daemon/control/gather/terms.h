/*
 * What the ranks of a communicator must agree on, and the sentences that refuse a rank: the same whether the
 * ranks are on one host or on many.
 */
#ifndef BLINK_TERMS_H
#define BLINK_TERMS_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What every rank asks for. */
typedef struct terms {
    uint32_t rank_count, algorithm, op_timeout_ms, init_timeout_ms;
    double pace_scale; /* of the rank's daemon: settings_t */
} terms_t;

/* A rank, as a sentence names it. */
typedef struct terms_rank {
    uint32_t rank, device;
    bool on_gpu;
    const char *host; /* NULL: all ranks are on this one, and it is not named */
} terms_rank_t;

/* Whether it makes sense by itself. Errors: INVALID_ARGUMENT. */
blink_result_t terms_check(const terms_t *terms, uint32_t rank);

/* Whether a rank asks for what the first one asked for. Errors: MISMATCH, which names both. */
blink_result_t terms_check_agreement(const terms_t *agreed, const terms_rank_t *first, const terms_t *asked,
                                     const terms_rank_t *rank);

/* Whether a rank's device is of the same kind as the first one's. Errors: UNSUPPORTED. */
blink_result_t terms_check_kind(const terms_rank_t *first, const terms_rank_t *rank);

/* The communicator is another user's. */
blink_result_t terms_fail_other_user(void);

/* The rank is there already, as `holder`; its device is, as `holder`'s, of so many that the host has (0: not
 * known). */
blink_result_t terms_fail_rank_taken(const terms_rank_t *rank, const terms_rank_t *holder);
blink_result_t terms_fail_device_taken(const terms_rank_t *rank, const terms_rank_t *holder,
                                       uint32_t device_count);

/* "1, 3 and 5 more": numbers or names, as far as they fit. Zeroed to begin with; the text is whole after the
 * end. */
#define TERMS_LIST_BYTES 96

typedef struct terms_list {
    char text[TERMS_LIST_BYTES];
    size_t used;
    uint32_t unnamed;
} terms_list_t;

void terms_list_add(terms_list_t *list, const char *name);
void terms_list_add_number(terms_list_t *list, uint32_t number);
const char *terms_list_end(terms_list_t *list);

/* Whether a gathering that has failed with this code has failed for good: nobody who comes later can make up
 * for a rank that has gone. */
static inline bool terms_is_final(blink_result_t code)
{
    return code == BLINK_ERR_PEER_LOST || code == BLINK_ERR_ABORTED;
}

/* What a gathering remembers of a rank that may be one of those that lack. */
#define TERMS_NOTE_BYTES 144

typedef struct terms_note {
    char text[TERMS_NOTE_BYTES]; /* "": of none */
} terms_note_t;

/* The rank was refused; or it gathers for itself, under another id. Of several the first is remembered. */
void terms_note_refused(terms_note_t *note, const terms_t *agreed, const terms_t *asked,
                        const terms_rank_t *rank);
void terms_note_apart(terms_note_t *note, uint32_t rank_count, const terms_rank_t *rank);

/* Not all ranks have come in time. `hosts`: where the others are; NULL: all on this one. */
blink_result_t terms_fail_late(uint32_t joined_count, uint32_t rank_count, uint64_t timeout_ms,
                               const terms_note_t *note, terms_list_t *missing, terms_list_t *hosts);

#endif

/*
 * What NCCL's RAS tells of communicators, taken from what the daemon answers: which ranks there are, which
 * are missing, and to how many ops of each kind each rank has come.
 */
#ifndef CTL_RAS_VIEW_H
#define CTL_RAS_VIEW_H

#include "ctl/ctl.h"

#include <stdint.h>
#include <stdio.h>

typedef struct ras_view {
    Blinkwire__Reply *status, *devices, *clients, *comms;
    Blinkwire__Reply **ops; /* by communicator: those under way; NULL: not all ranks have joined */
    char host[256];         /* this host's name */
    double took_s;
} ras_view_t;

/** Ask the daemon. ras_close() the view in any case. Errors: as query_ask_for(). */
blink_result_t ras_open(const ctl_options_t *options, ras_view_t *view);
void ras_close(ras_view_t *view);

typedef enum ras_place {
    RAS_HERE,
    RAS_ELSEWHERE, /* on another host: its daemon knows about the rank */
    RAS_NOT_JOINED,
    RAS_LEFT
} ras_place_t;

/* All is borrowed, and NULL where it is not known. */
typedef struct ras_rank {
    ras_place_t place;
    const Blinkwire__Client *client;
    const Blinkwire__Device *device;
} ras_rank_t;

ras_rank_t ras_rank(const ras_view_t *view, const Blinkwire__Comm *comm, uint32_t rank);
static inline bool ras_is_missing(ras_place_t place)
{
    return place == RAS_NOT_JOINED || place == RAS_LEFT;
}
/** How many ranks of the communicator are missing. */
uint32_t ras_missing(const ras_view_t *view, const Blinkwire__Comm *comm);

bool ras_is_aborted(const Blinkwire__Comm *comm);
bool ras_is_ready(const Blinkwire__Comm *comm);

/** The oldest op under way of the communicator with this index; NULL: there is none. Borrowed. */
const Blinkwire__Op *ras_oldest(const ras_view_t *view, size_t comm);
/** Whether the rank is not known to lack. */
bool ras_came(const Blinkwire__Op *op, uint32_t rank);
/** Whether some rank of this host has not come to an op that another one has come to. */
bool ras_mismatches(const ras_view_t *view, size_t comm);

/* Kinds of ops, as RAS counts them: those of NCCL's names, and all others together: barriers, transfers,
 * AllToAllv, ops without a payload and those that have failed. */
#define RAS_KINDS 9u
const char *ras_kind_name(unsigned kind);
/** Of the communicator with this index: how many ops of the kind have ended, or the rank has come to. */
uint64_t ras_count(const ras_view_t *view, size_t comm, uint32_t rank, unsigned kind);

/** Write the view for people, with all ranks if it is to be verbose, or as the JSON of NCCL's RAS. Errors:
 * NO_MEMORY. */
blink_result_t ras_write_text(const ras_view_t *view, bool verbose, FILE *out);
blink_result_t ras_write_json(const ras_view_t *view, FILE *out);

#endif

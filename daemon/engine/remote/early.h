/*
 * What hosts say of communicators that this host does not know yet, since READY comes by another way than
 * their words. It is kept in its order until the communicator is known here, or known to have ended; then it
 * is heeded, some of it in each turn of the engine, and what comes meanwhile waits behind it. Who keeps a
 * word charges it to the endpoint that it came by.
 */
#ifndef BLINK_ENGINE_EARLY_H
#define BLINK_ENGINE_EARLY_H

#include "base/table.h"
#include "net/data/data.h"

/* A word; the caller's again once one of the two is called. */
typedef struct early_word {
    list_t of_all, of_comm;
    struct early_comm *comm;
    const data_endpoint_t *endpoint;
    void (*heed)(struct early_word *word);
    void (*drop)(struct early_word *word); /* nobody would hear the answer */
} early_word_t;

typedef struct early {
    table_t comms; /* early_comm_t.of_names */
    list_t ripe;   /* early_comm_t.of_ripe: to be heeded */
    list_t all;    /* early_word_t.of_all */
    size_t count;  /* of these */
} early_t;

void early_init(early_t *early);

/* Drop all. */
void early_fini(early_t *early);

/* Keep a word about the communicator of this name. Errors: NO_MEMORY, PEER_LOST. */
blink_result_t early_keep(early_t *early, uint64_t home, uint32_t number, early_word_t *word);

/* Whether words about the communicator wait: later ones are to be kept, too. */
bool early_waits(const early_t *early, uint64_t home, uint32_t number);

/* The communicator is known, or has ended: the words about it are due. */
void early_ripen(early_t *early, uint64_t home, uint32_t number);

/* Heed at most so many of those that are due. Returns how many. */
uint32_t early_heed_some(early_t *early, uint32_t most);

/* Drop the next word, if it came by this endpoint, and else put it behind the others. */
void early_check_next(early_t *early, const data_endpoint_t *lost);

#endif

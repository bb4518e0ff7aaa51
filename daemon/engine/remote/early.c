#include "engine/remote/early.h"

#include <stdlib.h>

/* A communicator that words wait for. */
typedef struct early_comm {
    table_link_t of_names;
    list_t of_ripe;
    uint64_t home;
    uint32_t number;
    list_t words; /* early_word_t.of_comm, oldest first; never empty */
} early_comm_t;

void early_init(early_t *early)
{
    list_init(&early->ripe);
    list_init(&early->all);
}

static uint64_t hash_of(uint64_t home, uint32_t number)
{
    return table_hash(home ^ table_hash(number));
}

static early_comm_t *find(const early_t *early, uint64_t home, uint32_t number)
{
    table_link_t *link = table_find(&early->comms, hash_of(home, number));
    for (; link; link = table_find_next(link)) {
        early_comm_t *comm = CONTAINER_OF(link, early_comm_t, of_names);
        if (comm->home == home && comm->number == number)
            return comm;
    }
    return NULL;
}

bool early_waits(const early_t *early, uint64_t home, uint32_t number)
{
    return early->count > 0 && find(early, home, number);
}

static early_comm_t *add(early_t *early, uint64_t home, uint32_t number)
{
    early_comm_t *comm = calloc(1, sizeof(*comm));
    if (!comm || !table_add(&early->comms, &comm->of_names, hash_of(home, number))) {
        free(comm);
        return NULL;
    }
    comm->home = home;
    comm->number = number;
    list_init(&comm->of_ripe);
    list_init(&comm->words);
    return comm;
}

blink_result_t early_keep(early_t *early, uint64_t home, uint32_t number, early_word_t *word)
{
    early_comm_t *comm = find(early, home, number);
    if (data_endpoint_is_lost(word->endpoint))
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "the data connections are gone");
    if (!comm)
        comm = add(early, home, number);
    if (!comm)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for words about a communicator to come");
    word->comm = comm;
    list_init(&word->of_all);
    list_init(&word->of_comm);
    list_append(&early->all, &word->of_all);
    list_append(&comm->words, &word->of_comm);
    early->count++;
    return BLINK_OK;
}

static void take_out(early_t *early, early_word_t *word)
{
    early_comm_t *comm = word->comm;
    list_remove(&word->of_all);
    list_remove(&word->of_comm);
    early->count--;
    if (!list_is_empty(&comm->words))
        return;
    table_remove(&early->comms, &comm->of_names);
    list_remove(&comm->of_ripe);
    free(comm);
}

void early_ripen(early_t *early, uint64_t home, uint32_t number)
{
    early_comm_t *comm = find(early, home, number);
    if (comm && list_is_empty(&comm->of_ripe))
        list_append(&early->ripe, &comm->of_ripe);
}

uint32_t early_heed_some(early_t *early, uint32_t most)
{
    uint32_t count = 0;
    for (early_comm_t *comm; count < most && (comm = LIST_FIRST(&early->ripe, early_comm_t, of_ripe));
         count++) {
        early_word_t *word = LIST_FIRST(&comm->words, early_word_t, of_comm);
        take_out(early, word);
        word->heed(word);
    }
    return count;
}

void early_check_next(early_t *early, const data_endpoint_t *lost)
{
    early_word_t *word = LIST_FIRST(&early->all, early_word_t, of_all);
    if (!word)
        return;
    if (word->endpoint == lost) {
        take_out(early, word);
        word->drop(word);
        return;
    }
    list_remove(&word->of_all);
    list_append(&early->all, &word->of_all);
}

void early_fini(early_t *early)
{
    for (early_word_t *word; (word = LIST_FIRST(&early->all, early_word_t, of_all));) {
        take_out(early, word);
        word->drop(word);
    }
    table_fini(&early->comms);
}

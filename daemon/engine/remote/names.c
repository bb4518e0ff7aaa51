/*
 * What ops of several hosts are called, and what is known by their names: ops that live, and those that have
 * ended here.
 */
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <stdlib.h>

/* ---- transfers, by their ranks ---- */

/* Transfers that have begun here, from one rank to another. */
typedef struct pair {
    table_link_t of_pairs;
    uint32_t root, peer;
    uint64_t begun;
    struct pair *next; /* remote_comm_t.first_pair */
} pair_t;

static uint64_t hash_of_pair(uint32_t root, uint32_t peer)
{
    return table_hash((uint64_t)root << 32 | peer);
}

static pair_t *find_pair(const remote_comm_t *remote, uint32_t root, uint32_t peer)
{
    table_link_t *link = table_find(&remote->pairs, hash_of_pair(root, peer));
    while (link && (CONTAINER_OF(link, pair_t, of_pairs)->root != root ||
                    CONTAINER_OF(link, pair_t, of_pairs)->peer != peer))
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, pair_t, of_pairs) : NULL;
}

/* The pair, made if there is none. NULL: no memory. */
static pair_t *get_pair(remote_comm_t *remote, uint32_t root, uint32_t peer)
{
    pair_t *pair = find_pair(remote, root, peer);
    if (pair)
        return pair;
    pair = calloc(1, sizeof(*pair));
    if (!pair || !table_add(&remote->pairs, &pair->of_pairs, hash_of_pair(root, peer))) {
        free(pair);
        return NULL;
    }
    pair->root = root;
    pair->peer = peer;
    pair->next = remote->first_pair;
    remote->first_pair = pair;
    return pair;
}

void remote_pairs_free(remote_comm_t *remote)
{
    for (pair_t *pair = remote->first_pair, *next; pair; pair = next) {
        next = pair->next;
        free(pair);
    }
    table_fini(&remote->pairs);
}

/* ---- names ---- */

uint64_t remote_name_hash(const op_name_t *name)
{
    return table_hash(name->number ^ hash_of_pair(name->root, name->peer));
}

bool remote_name_equals(const op_name_t *a, const op_name_t *b)
{
    return a->number == b->number && a->root == b->root && a->peer == b->peer;
}

/* How many ops of its kind have begun here; NULL: no memory. */
static uint64_t *find_count(const remote_op_t *of)
{
    pair_t *pair;
    if (of->name.root == OP_NAME_NONE)
        return &of->remote->collectives;
    pair = get_pair(of->remote, of->name.root, of->name.peer);
    return pair ? &pair->begun : NULL;
}

blink_result_t remote_name_op(remote_op_t *of)
{
    const comm_op_t *op = of->op;
    remote_comm_t *remote = of->remote;
    bool is_transfer = op->shape.is_transfer;
    of->name = (op_name_t){.home = remote->home,
                           .comm = remote->number,
                           .host = remote->own_host,
                           .root = is_transfer ? op->signature.root : OP_NAME_NONE,
                           .peer = is_transfer ? op->signature.peer : OP_NAME_NONE};
    uint64_t *count = find_count(of);
    of->name.number = count ? *count : 0;
    if (!count || !table_add(&remote->live, &of->of_live, remote_name_hash(&of->name)))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another op");
    ++*count;
    return BLINK_OK;
}

bool remote_takes_part(const remote_comm_t *remote, const op_name_t *name, uint32_t host)
{
    return name->root == OP_NAME_NONE || remote->host_of_rank[name->root] == host ||
           remote->host_of_rank[name->peer] == host;
}

uint64_t remote_count_ended(const remote_comm_t *remote)
{
    const remote_op_t *first = LIST_FIRST(&remote->unended, remote_op_t, of_unended);
    return first ? first->name.number : remote->collectives;
}

/* ---- what is known by a name ---- */

remote_op_t *remote_find_live(const remote_comm_t *remote, const op_name_t *name)
{
    table_link_t *link = table_find(&remote->live, remote_name_hash(name));
    while (link && !remote_name_equals(&CONTAINER_OF(link, remote_op_t, of_live)->name, name))
        link = table_find_next(link);
    return link ? CONTAINER_OF(link, remote_op_t, of_live) : NULL;
}

bool remote_has_begun(const remote_comm_t *remote, const op_name_t *name)
{
    if (name->root == OP_NAME_NONE)
        return name->number < remote->collectives;
    const pair_t *pair = find_pair(remote, name->root, name->peer);
    return pair && name->number < pair->begun;
}

void remote_remember(const remote_op_t *of, blink_result_t code)
{
    if (of->name.root != OP_NAME_NONE)
        return;
    of->remote->past[of->name.number % REMOTE_PAST_OPS] = (remote_past_t){.number = of->name.number,
                                                                          .is_set = true,
                                                                          .succeeded = code == BLINK_OK,
                                                                          .signature = of->op->signature,
                                                                          .rank = of->op->first_rank};
}

bool remote_find_past(const remote_comm_t *remote, const begin_t *begin, remote_past_t *past)
{
    const op_name_t *name = &begin->op;
    const remote_past_t *found = &remote->past[name->number % REMOTE_PAST_OPS];
    if (name->root == OP_NAME_NONE) {
        *past = *found;
        return found->is_set && found->number == name->number && found->succeeded;
    }
    bool gives = remote->host_of_rank[name->root] == remote->own_host;
    *past = (remote_past_t){.number = name->number,
                            .is_set = true,
                            .succeeded = true,
                            .rank = gives ? name->root : name->peer,
                            .signature = {.opcode = begin->opcode,
                                          .datatype = begin->datatype,
                                          .redop = begin->redop,
                                          .root = name->root,
                                          .peer = name->peer}};
    return true;
}

#include "control/comms/survivors.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* So many ranks that are looked at are a step of the loop's turn. */
#define RANKS_PER_STEP 16u

/* Those who live, as they are hashed: their id is the same for all that are told the same. */
typedef struct survivors {
    uint8_t parent[UNIQUE_ID_BYTES];
    uint32_t comm, count; /* the first: tells communicators apart that gathered under one id */
    uint32_t ranks[];     /* ascending */
} survivors_t;

static_assert(sizeof(survivors_t) == UNIQUE_ID_BYTES + 8, "no padding: it is hashed");

/* To be freed. Errors: NO_MEMORY. */
static blink_result_t collect(const roster_t *roster, survivors_t **collected)
{
    survivors_t *survivors = calloc(1, sizeof(*survivors) + roster->rank_count * sizeof(survivors->ranks[0]));
    if (!survivors)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u ranks", roster->rank_count);
    memcpy(survivors->parent, roster->unique_id, sizeof(survivors->parent));
    survivors->comm = roster->number;
    for (uint32_t rank = 0; rank < roster->rank_count; rank++) {
        if (member_lives(&roster->members[rank]))
            survivors->ranks[survivors->count++] = rank;
    }
    turns_count(&roster->control->turns, roster->rank_count / RANKS_PER_STEP);
    *collected = survivors;
    return BLINK_OK;
}

/* Under which they gather. Only who knows the parent's id can tell it. */
static blink_result_t derive_id(const survivors_t *survivors, unique_id_t *id)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    size_t bytes = sizeof(*survivors) + survivors->count * sizeof(survivors->ranks[0]);
    if (EVP_Digest(survivors, bytes, digest, NULL, EVP_sha256(), NULL) != 1)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "no id for survivors: OpenSSL has no SHA-256");
    *id = (unique_id_t){.version = UNIQUE_ID_VERSION};
    memcpy(id->nonce, digest, sizeof(id->nonce));
    return BLINK_OK;
}

static void reply_survivors(const client_t *client, uint64_t request, survivors_t *survivors, unique_id_t *id)
{
    Blinkwire__CommSurvivorsReply body = BLINKWIRE__COMM_SURVIVORS_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    body.unique_id.data = (uint8_t *)id;
    body.unique_id.len = sizeof(*id);
    body.ranks = survivors->ranks;
    body.n_ranks = survivors->count;
    reply.id = request;
    reply.body_case = BLINKWIRE__REPLY__BODY_COMM_SURVIVORS;
    reply.comm_survivors = &body;
    connection_send(client->connection, &reply, NULL, 0);
}

static blink_result_t tell(const client_t *client, uint64_t request, uint32_t number)
{
    member_t *member;
    survivors_t *survivors;
    unique_id_t id;
    BLINK_TRY(roster_find_member(client, number, &member));
    const roster_t *roster = member->roster;
    if (roster->hosts && roster->hosts->count > 1)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "%s has ranks on %u hosts, and no daemon knows which of them live: the survivors "
                          "need a new id, by blink_get_unique_id()",
                          roster->title, roster->hosts->count);
    BLINK_TRY(collect(roster, &survivors));
    blink_result_t result = derive_id(survivors, &id);
    if (result == BLINK_OK)
        reply_survivors(client, request, survivors, &id);
    free(survivors);
    return result;
}

void roster_tell_survivors(client_t *client, uint64_t request, uint32_t member)
{
    blink_result_t result = tell(client, request, member);
    if (result != BLINK_OK)
        connection_reply_error(client->connection, request, result);
}

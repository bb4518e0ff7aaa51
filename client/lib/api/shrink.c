/* Communicators of the ranks that are left. Those that were lost cannot take part in a call: the daemon says
 * who lives. */
#include "api/config.h"
#include "api/group.h"
#include "context/comm.h"

#include <string.h>

/* On success *answer is to be released. */
static blink_result_t ask_survivors(blink_comm_t *comm, connection_answer_t *answer)
{
    Blinkwire__CommSurvivors body = BLINKWIRE__COMM_SURVIVORS__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    body.member = comm->member;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_SURVIVORS;
    request.comm_survivors = &body;
    return connection_call(&comm->context->connection, &request, NULL, 0, answer);
}

/* This rank's number among the survivors. Errors: PROTOCOL. */
static blink_result_t find_own(const blink_comm_t *comm, const Blinkwire__Reply *reply, uint32_t *rank)
{
    const Blinkwire__CommSurvivorsReply *survivors = reply->comm_survivors;
    if (reply->body_case != BLINKWIRE__REPLY__BODY_COMM_SURVIVORS ||
        survivors->unique_id.len != sizeof(blink_unique_id_t) || survivors->n_ranks > comm->rank_count)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon does not say which ranks survive");
    for (*rank = 0; *rank < survivors->n_ranks; ++*rank) {
        if (survivors->ranks[*rank] == comm->rank)
            return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon says that rank %u does not survive", comm->rank);
}

static blink_result_t join(blink_comm_t *comm, const Blinkwire__Reply *reply,
                           const blink_comm_config_t *config, uint32_t *count, blink_comm_t **shrunk)
{
    uint32_t rank;
    blink_unique_id_t id;
    BLINK_TRY(find_own(comm, reply, &rank));
    const Blinkwire__CommSurvivorsReply *survivors = reply->comm_survivors;
    const comm_parent_t parent = {.comm = comm, .ranks = survivors->ranks, .of_survivors = true};
    memcpy(id.bytes, survivors->unique_id.data, sizeof(id.bytes));
    *count = (uint32_t)survivors->n_ranks;
    return comm_create(comm->context, &parent, &id, *count, rank, config, shrunk);
}

/* A host may have begun and another one have failed, if a rank goes at that moment: after an op of all ranks
 * every one has the communicator. Else nobody is to keep it. */
static blink_result_t meet(blink_comm_t *shrunk)
{
    blink_op_t *op;
    blink_result_t result = blink_barrier(shrunk, &op);
    if (result == BLINK_OK)
        result = blink_wait(op);
    if (result == BLINK_OK)
        return BLINK_OK;
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    (void)comm_destroy(shrunk);
    return blink_error_set(result, "%s", text);
}

/* *count receives how many survive. Errors: PEER_LOST (one of them has gone since). */
static blink_result_t try_to_join(blink_comm_t *comm, const blink_comm_config_t *config, uint32_t *count,
                                  blink_comm_t **shrunk)
{
    connection_answer_t answer;
    BLINK_TRY(ask_survivors(comm, &answer));
    blink_result_t result = join(comm, answer.reply, config, count, shrunk);
    connection_answer_release(&answer);
    return result == BLINK_OK && (*shrunk)->spans_hosts ? meet(*shrunk) : result;
}

blink_result_t blink_comm_shrink(blink_comm_t *comm, const blink_comm_config_t *config, blink_comm_t **shrunk)
{
    if (!comm || !shrunk)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_shrink: %s is NULL",
                         comm ? "shrunk" : "comm");
    CALL_TRY(group_refuse("blink_comm_shrink"));
    CALL_TRY(comm_check_ready(comm, "blink_comm_shrink"));
    blink_comm_config_t chosen;
    CALL_TRY(config_inherit(comm, config, &chosen));
    uint32_t before, count = comm->rank_count + 1;
    blink_result_t result;
    do {
        before = count;
        result = try_to_join(comm, &chosen, &count, shrunk);
    } while (result == BLINK_ERR_PEER_LOST && count < before);
    return CALL_RESULT(result);
}

blink_result_t blink_comm_revoke(blink_comm_t *comm)
{
    return blink_comm_abort(comm);
}

/* Communicators of the ranks that are left. Those that were lost cannot take part in a call: the daemon says
 * who lives. */
#include "api/config.h"
#include "api/group.h"
#include "context/comm.h"

#include <string.h>

/* On the way from one communicator to the next, which may have to be made several times. */
typedef struct shrinking {
    blink_comm_t *comm;
    const blink_comm_config_t *config;
    bool may_go_back;   /* it was itself made on the way, from one to which all survivors can go back */
    bool has_gone_back; /* and has to be, for some of them do not have it */
    uint32_t count;     /* how many survive, as the daemon said last; 0: it has not */
} shrinking_t;

/* On success *answer is to be released. */
static blink_result_t ask_survivors(const shrinking_t *shrinking, connection_answer_t *answer)
{
    Blinkwire__CommSurvivors body = BLINKWIRE__COMM_SURVIVORS__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    body.member = shrinking->comm->member;
    body.fewer_than = shrinking->count;
    request.body_case = BLINKWIRE__REQUEST__BODY_COMM_SURVIVORS;
    request.comm_survivors = &body;
    return connection_call(&shrinking->comm->context->connection, &request, NULL, 0, answer);
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

static blink_result_t join(shrinking_t *shrinking, const Blinkwire__Reply *reply, blink_comm_t **joined)
{
    blink_comm_t *comm = shrinking->comm;
    uint32_t rank;
    blink_unique_id_t id;
    BLINK_TRY(find_own(comm, reply, &rank));
    const Blinkwire__CommSurvivorsReply *survivors = reply->comm_survivors;
    const comm_parent_t parent = {.comm = comm, .ranks = survivors->ranks, .of_survivors = true};
    shrinking->count = (uint32_t)survivors->n_ranks;
    shrinking->has_gone_back = shrinking->may_go_back && survivors->partial;
    if (shrinking->has_gone_back)
        return BLINK_FAIL(BLINK_ERR_PEER_LOST, "some survivors have not come to the communicator of %u ranks",
                          comm->rank_count);
    memcpy(id.bytes, survivors->unique_id.data, sizeof(id.bytes));
    return comm_create(comm->context, &parent, &id, shrinking->count, rank, shrinking->config, joined);
}

/* Errors: PEER_LOST (one of them has gone since). */
static blink_result_t try_to_join(shrinking_t *shrinking, blink_comm_t **joined)
{
    connection_answer_t answer;
    BLINK_TRY(ask_survivors(shrinking, &answer));
    blink_result_t result = join(shrinking, answer.reply, joined);
    connection_answer_release(&answer);
    return result;
}

static blink_result_t shrink(shrinking_t *shrinking, blink_comm_t **shrunk);

static blink_result_t meet(blink_comm_t *joined)
{
    blink_op_t *op;
    BLINK_TRY(blink_barrier(joined, &op));
    return blink_wait(op);
}

/* Where a rank goes while hosts begin a communicator, some may have begun it, and others have failed. Once an
 * op of all ranks has ended, all have it. If none has, then nobody has kept it, and it is known who does not
 * have it; else who has it, and failed, goes on from it as those will who kept it. */
static blink_result_t confirm(blink_comm_t *joined, const blink_comm_config_t *config, blink_comm_t **shrunk)
{
    blink_result_t result = joined->spans_hosts ? meet(joined) : BLINK_OK;
    if (result == BLINK_OK) {
        *shrunk = joined;
        return BLINK_OK;
    }
    if (result == BLINK_ERR_PEER_LOST) {
        shrinking_t next = {.comm = joined, .config = config, .may_go_back = true};
        result = shrink(&next, shrunk);
    }
    char text[BLINK_ERROR_TEXT_BYTES];
    memcpy(text, blink_error_text(), sizeof(text));
    (void)comm_destroy(joined);
    return result == BLINK_OK ? BLINK_OK : blink_error_set(result, "%s", text);
}

static blink_result_t shrink(shrinking_t *shrinking, blink_comm_t **shrunk)
{
    blink_result_t result;
    do {
        blink_comm_t *joined;
        result = try_to_join(shrinking, &joined);
        if (result == BLINK_OK)
            result = confirm(joined, shrinking->config, shrunk);
    } while (result == BLINK_ERR_PEER_LOST && !shrinking->has_gone_back);
    return result;
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
    return CALL_RESULT(shrink(&(shrinking_t){.comm = comm, .config = &chosen}, shrunk));
}

blink_result_t blink_comm_revoke(blink_comm_t *comm)
{
    if (!comm)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_comm_revoke: comm is NULL");
    return blink_comm_abort(comm);
}

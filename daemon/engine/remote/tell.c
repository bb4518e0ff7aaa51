/* What this host tells others of ops of several hosts: BEGIN and FAIL. */
#include "engine/loop.h"
#include "engine/remote/remote.h"
#include "error.h"

#include <string.h>

/* That this daemon stops is what its ranks hear. Other hosts hear it as the end of their sessions with it,
 * and their ranks that it is lost. */
static bool is_own_matter(blink_result_t code)
{
    return code == BLINK_ERR_DAEMON_LOST;
}

void remote_answer(data_endpoint_t *endpoint, const op_name_t *name, uint32_t own_host, blink_result_t code,
                   const char *text)
{
    uint32_t payload[FAIL_MOST_BYTES / sizeof(uint32_t) + 1];
    fail_t fail = {.op = *name, .code = (uint16_t)code, .flags = FAIL_IS_ANSWER};
    fail.op.host = own_host;
    if (is_own_matter(code))
        return;
    uint32_t bytes = fail_write(&fail, NULL, text, payload);
    (void)data_send(endpoint, WIRE_FAIL, payload,
                    bytes); /* if that fails the endpoint is lost, and says so */
}

void remote_answer_begin(const remote_comm_t *remote, const begin_t *begin, blink_result_t code,
                         const char *text)
{
    remote_answer(remote->endpoints[begin->op.host], &begin->op, remote->own_host, code, text);
}

void remote_tell_fail(remote_op_t *of, uint32_t host)
{
    uint32_t sent[FAIL_FLOWS_MOST], payload[FAIL_MOST_BYTES / sizeof(uint32_t) + 1];
    data_endpoint_t *endpoint = of->remote->endpoints[host];
    if (!endpoint || of->flags[host] & REMOTE_TOLD_FAIL || is_own_matter(of->code))
        return;
    of->flags[host] |= REMOTE_TOLD_FAIL;
    fail_t fail = {.op = of->name, .code = (uint16_t)of->code};
    if (of->run && of->flags[host] & REMOTE_JOINED)
        fail.sent_count = data_run_stop(of->run, host, sent, FAIL_FLOWS_MOST);
    uint32_t bytes = fail_write(&fail, sent, of->text, payload);
    (void)data_send(endpoint, WIRE_FAIL, payload, bytes); /* as above */
}

void remote_tell_hosts(remote_op_t *of, bool all)
{
    for (uint32_t host = 0; host < of->remote->host_count; host++) {
        bool hears = all && remote_takes_part(of->remote, &of->name, host);
        if (hears || of->flags[host] & REMOTE_JOINED)
            remote_tell_fail(of, host);
    }
}

void remote_tell_begin(const remote_op_t *of, uint32_t host)
{
    const comm_op_t *op = of->op;
    data_offer_t offer = data_run_offer(of->run, host);
    data_endpoint_t *endpoint = of->remote->endpoints[host];
    begin_t begin = {.op = of->name,
                     .count = op->signature.count,
                     .opcode = op->signature.opcode,
                     .datatype = op->signature.datatype,
                     .redop = op->signature.redop,
                     .root = op->signature.root,
                     .rank = op->first_rank,
                     .digest = op->program->digest,
                     .ended = op->shape.is_transfer ? 0 : remote_count_ended(of->remote),
                     .stands = offer.stands,
                     .first_flow = offer.first_flow,
                     .flow_count = offer.flow_count,
                     .slots = offer.slots,
                     .address = offer.address,
                     .round = offer.round};
    memcpy(begin.keys, offer.keys.all, sizeof(begin.keys));
    memcpy(begin.more_keys, offer.keys.all + BEGIN_KEYS, sizeof(begin.more_keys));
    (void)data_send(endpoint, WIRE_BEGIN, &begin,
                    begin_bytes(&begin, data_endpoint_move_streams(endpoint))); /* as in remote_answer() */
}

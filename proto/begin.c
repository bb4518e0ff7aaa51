#include "begin.h"

#include "collective.h"

#include <string.h>

static blink_result_t check_name(const char *what, const op_name_t *op)
{
    if (op->home == 0 || op->comm == 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s of communicator %u of no home", what, op->comm);
    if ((op->root == OP_NAME_NONE) != (op->peer == OP_NAME_NONE))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s of a transfer from %u to %u", what, op->root, op->peer);
    return BLINK_OK;
}

static bool has_keys(const begin_t *begin)
{
    static const uint32_t none[BEGIN_KEYS + BEGIN_MORE_KEYS] = {0};
    return begin->round != 0 || memcmp(begin->keys, none, sizeof(begin->keys)) != 0 ||
           memcmp(begin->more_keys, none, sizeof(begin->more_keys)) != 0;
}

blink_result_t begin_parse(const void *payload, uint32_t bytes, uint32_t move_streams, begin_t *begin)
{
    *begin = (begin_t){0};
    if (bytes <= sizeof(*begin))
        memcpy(begin, payload, bytes);
    if (bytes != begin_bytes(begin, move_streams))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a BEGIN of %u bytes; it has %u", bytes,
                          begin_bytes(begin, move_streams));
    BLINK_TRY(check_name("a BEGIN", &begin->op));
    bool is_transfer = begin->op.root != OP_NAME_NONE;
    if (!collective_opcode_valid(begin->opcode) ||
        collective_is_pair(collective_of_opcode(begin->opcode)) != is_transfer)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a BEGIN of a %s by opcode %u",
                          is_transfer ? "transfer" : "collective", begin->opcode);
    if (begin->stands > 1 || begin->reserved != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a BEGIN with words set that are to be 0");
    if (begin->address ? begin->stands || begin->flow_count == 0 : has_keys(begin))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a BEGIN with a key to a landing that none is for");
    return BLINK_OK;
}

blink_result_t left_parse(const void *payload, uint32_t bytes, left_t *left)
{
    if (bytes != sizeof(*left))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a LEFT of %u bytes; it has %zu", bytes, sizeof(*left));
    memcpy(left, payload, sizeof(*left));
    if (left->home == 0 || left->comm == 0 || left->flags & ~LEFT_ASKS)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a LEFT of communicator %u with flags 0x%x%s", left->comm,
                          left->flags, left->home == 0 ? ", of no home" : "");
    return BLINK_OK;
}

blink_result_t fail_parse(const void *payload, uint32_t bytes, fail_t *fail, const uint32_t **sent,
                          char text[BLINK_ERROR_TEXT_BYTES])
{
    if (bytes < sizeof(*fail))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a FAIL of %u bytes; it has at least %zu", bytes,
                          sizeof(*fail));
    memcpy(fail, payload, sizeof(*fail));
    BLINK_TRY(check_name("a FAIL", &fail->op));
    uint32_t left = bytes - (uint32_t)sizeof(*fail);
    if (fail->sent_count > FAIL_FLOWS_MOST || fail->sent_count > left / sizeof(uint32_t))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a FAIL of %u bytes tells of %u flows", bytes,
                          fail->sent_count);
    left -= fail->sent_count * (uint32_t)sizeof(uint32_t);
    if (left >= BLINK_ERROR_TEXT_BYTES || (fail->flags & ~FAIL_IS_ANSWER) || fail->code == BLINK_OK ||
        fail->code > BLINK_ERR_INTERNAL)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a FAIL with code %u, flags 0x%x and a text of %u bytes",
                          fail->code, fail->flags, left);
    *sent = (const uint32_t *)((const char *)payload + sizeof(*fail));
    memcpy(text, (const char *)payload + bytes - left, left);
    text[left] = '\0';
    return BLINK_OK;
}

uint32_t fail_write(const fail_t *fail, const uint32_t *sent, const char *text, void *payload)
{
    char *at = payload;
    size_t sent_bytes = fail->sent_count * sizeof(*sent),
           text_bytes = strnlen(text, BLINK_ERROR_TEXT_BYTES - 1);
    memcpy(at, fail, sizeof(*fail));
    if (sent_bytes > 0)
        memcpy(at + sizeof(*fail), sent, sent_bytes);
    memcpy(at + sizeof(*fail) + sent_bytes, text, text_bytes);
    return (uint32_t)(sizeof(*fail) + sent_bytes + text_bytes);
}

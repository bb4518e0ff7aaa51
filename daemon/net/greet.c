#include "net/session.h"

#include <string.h>

static bool is_taken(const net_session_t *session)
{
    return session->state == SESSION_OPEN || session->state == SESSION_OFFERED;
}

static blink_result_t fail_same_name(const char *name, const net_address_t *first,
                                     const net_address_t *second)
{
    char texts[2][ADDRESS_TEXT_BYTES] = {"this one"};
    if (first)
        address_write(first, texts[0]);
    address_write(second, texts[1]);
    return BLINK_FAIL(
        BLINK_ERR_INVALID_ARGUMENT,
        "two daemons are named '%s', %s and %s; give each a name of its own (one that was started "
        "anew has to wait until the old session is found dead)",
        name, texts[0], texts[1]);
}

blink_result_t greet_judge(const net_session_t *session, uint32_t *version, net_session_t **other)
{
    const net_t *net = session->net;
    const hello_t *peer = &session->peer;
    *other = NULL;
    if (peer->instance == net->hello.instance)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "the daemon at this address is '%s' itself",
                          net->hello.host);
    BLINK_TRY(hello_choose_version(&net->hello, peer, version));
    if (strcmp(peer->host, net->hello.host) == 0)
        return fail_same_name(peer->host, NULL, &session->address);
    LIST_FOR_EACH (link, &net->sessions) {
        net_session_t *known = CONTAINER_OF(link, net_session_t, link);
        if (known == session || !is_taken(known))
            continue;
        if (known->peer.instance == peer->instance)
            *other = known;
        else if (strcmp(known->peer.host, peer->host) == 0)
            return fail_same_name(peer->host, &known->address, &session->address);
    }
    return BLINK_OK;
}

#include "control/peers/reach.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Something that is to be said. */
typedef struct word {
    list_t link;
    size_t byte_count;
    uint8_t bytes[]; /* a packed message */
} word_t;

typedef struct reach {
    list_t link; /* on peers->reaches */
    peers_t *peers;
    uint64_t instance, until_ms;
    net_dial_t *dial; /* NULL: it has ended */
    tenant_t *tenant; /* held; NULL: nobody is charged */
    list_t words;
} reach_t;

static reach_t *find(const peers_t *peers, uint64_t instance)
{
    LIST_FOR_EACH (link, &peers->reaches) {
        reach_t *reach = CONTAINER_OF(link, reach_t, link);
        if (reach->instance == instance)
            return reach;
    }
    return NULL;
}

static void free_reach(reach_t *reach)
{
    list_t *link;
    if (reach->dial)
        net_dial_cancel(reach->dial);
    if (reach->tenant) {
        account_credit(&reach->tenant->account, BUDGET_CONNECTIONS, 1);
        tenant_put(reach->tenant);
    }
    list_remove(&reach->link);
    while ((link = list_take_first(&reach->words)))
        free(CONTAINER_OF(link, word_t, link));
    free(reach);
}

/* The session is open already, and reach_opened() has been called; or it was open before. */
static void on_connected(void *context, net_session_t *session)
{
    reach_t *reach = context;
    reach->dial = NULL;
    reach_opened(reach->peers, session);
}

/* Who is not there may be about to start; who is somebody else stays so. */
static void on_failed(void *context, blink_result_t code)
{
    reach_t *reach = context;
    const peers_t *peers = reach->peers;
    bool is_final = code == BLINK_ERR_PEER_LOST || code == BLINK_ERR_PERMISSION;
    if (!is_final && uv_now(&peers->control->loop) < reach->until_ms)
        return;
    uint64_t instance = reach->instance;
    char why[BLINK_ERROR_TEXT_BYTES];
    memcpy(why, blink_error_text(), sizeof(why));
    free_reach(reach);
    peers->handler.lost(peers->handler.context, instance, "", blink_error_set(code, "%s", why));
}

static uint32_t take_addresses(const gather_host_t *host, net_address_t addresses[UNIQUE_ID_ADDRESSES])
{
    static const uint8_t none[16];
    uint32_t count = 0;
    for (uint32_t i = 0; i < UNIQUE_ID_ADDRESSES && host->port != 0; i++) {
        if (memcmp(host->addresses[i], none, sizeof(none)) != 0)
            address_of_id(host->addresses[i], host->port, &addresses[count++]);
    }
    return count;
}

static blink_result_t begin(peers_t *peers, const gather_host_t *host, tenant_t *tenant)
{
    net_address_t addresses[UNIQUE_ID_ADDRESSES];
    reach_t *reach = calloc(1, sizeof(*reach));
    if (!reach)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to dial another host");
    *reach = (reach_t){.peers = peers, .instance = host->instance, .tenant = tenant};
    reach->until_ms =
        uv_now(&peers->control->loop) + net_reach_ms(peers->control->settings->network_timeout_s);
    list_init(&reach->words);
    const net_dial_config_t config = {.address_count = take_addresses(host, addresses),
                                      .addresses = addresses,
                                      .instance = host->instance,
                                      .is_users = true,
                                      .connected = on_connected,
                                      .failed = on_failed,
                                      .context = reach};
    blink_result_t result = config.address_count == 0
                                ? BLINK_FAIL(BLINK_ERR_PEER_LOST, "it names no address at which it listens")
                                : net_dial(peers->net, &config, &reach->dial);
    if (result != BLINK_OK)
        free(reach);
    else
        list_append(&peers->reaches, &reach->link);
    return result;
}

blink_result_t reach_begin(peers_t *peers, const gather_host_t *host, tenant_t *tenant)
{
    if (find(peers, host->instance))
        return BLINK_OK;
    if (!tenant)
        return begin(peers, host, NULL);
    BLINK_TRY(account_charge(&tenant->account, BUDGET_CONNECTIONS, 1));
    blink_result_t result = begin(peers, host, tenant);
    if (result == BLINK_OK)
        tenant_hold(tenant);
    else
        account_credit(&tenant->account, BUDGET_CONNECTIONS, 1);
    return result;
}

blink_result_t reach_say(peers_t *peers, uint64_t instance, const Blinkpeer__Message *message)
{
    reach_t *reach = find(peers, instance);
    size_t byte_count = blinkpeer__message__get_packed_size(message);
    word_t *word = malloc(sizeof(*word) + byte_count);
    if (!word)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a message to another host");
    word->byte_count = blinkpeer__message__pack(message, word->bytes);
    list_append(&reach->words, &word->link);
    return BLINK_OK;
}

/* If that fails the session ends, and with it what the message was about. */
static void say(net_session_t *session, const word_t *word)
{
    Blinkpeer__Message *message = blinkpeer__message__unpack(NULL, word->byte_count, word->bytes);
    if (!message || net_session_send(session, message) != BLINK_OK)
        LOG_WARNING("host %s is not told something: %s", net_session_peer(session)->host, blink_error_text());
    if (message)
        blinkpeer__message__free_unpacked(message, NULL);
}

void reach_opened(peers_t *peers, net_session_t *session)
{
    reach_t *reach = find(peers, net_session_peer(session)->instance);
    if (!reach)
        return;
    LIST_FOR_EACH (link, &reach->words)
        say(session, CONTAINER_OF(link, word_t, link));
    free_reach(reach);
}

void reach_end(peers_t *peers)
{
    LIST_FOR_EACH (link, &peers->reaches)
        free_reach(CONTAINER_OF(link, reach_t, link));
}

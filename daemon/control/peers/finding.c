#include "control/peers/finding.h"

#include <stdlib.h>
#include <string.h>

typedef struct finding {
    list_t link; /* on peers->findings */
    peers_t *peers;
    connection_t *connection;
    uint64_t request, until_ms;
    net_dial_t *dial; /* NULL: it has ended */
    tenant_t *tenant; /* held, and charged with a connection */
    uint32_t address_count;
    net_address_t addresses[ADDRESSES_MAX];
} finding_t;

static void free_finding(finding_t *finding)
{
    if (finding->dial)
        net_dial_cancel(finding->dial);
    account_credit(&finding->tenant->account, BUDGET_CONNECTIONS, 1);
    tenant_put(finding->tenant);
    list_remove(&finding->link);
    free(finding);
}

static void reply_found(connection_t *connection, uint64_t request, const hello_t *hello)
{
    Blinkwire__FindHomeReply body = BLINKWIRE__FIND_HOME_REPLY__INIT;
    Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
    unique_id_t home = {.version = UNIQUE_ID_VERSION, .port = hello->port, .instance = hello->instance};
    memcpy(home.addresses, hello->addresses, sizeof(home.addresses));
    body.home.data = (uint8_t *)&home;
    body.home.len = UNIQUE_ID_HOME_BYTES;
    reply.id = request;
    reply.body_case = BLINKWIRE__REPLY__BODY_FIND_HOME;
    reply.find_home = &body;
    connection_send(connection, &reply, NULL, 0);
}

static bool is_named(const finding_t *finding, const hello_t *hello)
{
    for (uint32_t i = 0; i < finding->address_count; i++) {
        if (hello_names(hello, &finding->addresses[i]))
            return true;
    }
    return false;
}

/* ---- who is there ---- */

static void on_connected(void *context, net_session_t *session)
{
    finding_t *finding = context;
    finding->dial = NULL;
    reply_found(finding->connection, finding->request, net_session_peer(session));
    free_finding(finding);
}

/* Who is not there may be about to start; who is somebody else stays so. */
static void on_failed(void *context, blink_result_t code)
{
    finding_t *finding = context;
    char address[ADDRESS_TEXT_BYTES], why[BLINK_ERROR_TEXT_BYTES];
    bool is_final = code == BLINK_ERR_PERMISSION;
    if (!is_final && uv_now(&finding->peers->control->loop) < finding->until_ms)
        return;
    address_write(&finding->addresses[0], address);
    memcpy(why, blink_error_text(), sizeof(why));
    connection_reply_error(
        finding->connection, finding->request,
        BLINK_FAIL(is_final ? code : BLINK_ERR_CONNECT, "no daemon is found at %s: %s", address, why));
    free_finding(finding);
}

void finding_opened(peers_t *peers, net_session_t *session)
{
    const hello_t *hello = net_session_peer(session);
    LIST_FOR_EACH (link, &peers->findings) {
        finding_t *finding = CONTAINER_OF(link, finding_t, link);
        if (!is_named(finding, hello))
            continue;
        reply_found(finding->connection, finding->request, hello);
        free_finding(finding);
    }
}

/* ---- who asks ---- */

static const hello_t *find_session(const finding_t *finding)
{
    LIST_FOR_EACH (link, &finding->peers->hosts) {
        const hello_t *hello = net_session_peer(CONTAINER_OF(link, peer_host_t, link)->session);
        if (is_named(finding, hello))
            return hello;
    }
    return NULL;
}

static bool is_own(const finding_t *finding)
{
    for (uint32_t i = 0; i < finding->address_count; i++) {
        if (address_is_own(&finding->peers->address, &finding->addresses[i]))
            return true;
    }
    return false;
}

static blink_result_t read_request(const Blinkwire__FindHome *message, finding_t *finding)
{
    if (message->n_addresses < 1 || message->n_addresses > ADDRESSES_MAX || message->port > UINT16_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%zu addresses and port %u: 1 to %u addresses, a port",
                          message->n_addresses, message->port, ADDRESSES_MAX);
    uint16_t port = message->port > 0 ? (uint16_t)message->port : address_port(&finding->peers->address);
    for (size_t i = 0; i < message->n_addresses; i++) {
        if (message->addresses[i].len != sizeof(((unique_id_t *)NULL)->addresses[0]))
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "an address of %zu bytes, not 16",
                              message->addresses[i].len);
        address_of_id(message->addresses[i].data, port, &finding->addresses[finding->address_count++]);
    }
    LIST_FOR_EACH (link, &finding->peers->findings) {
        if (CONTAINER_OF(link, finding_t, link)->connection == finding->connection)
            return BLINK_FAIL(BLINK_ERR_QUOTA, "this connection asks for another host already");
    }
    return BLINK_OK;
}

static blink_result_t begin(const finding_t *asked)
{
    peers_t *peers = asked->peers;
    finding_t *finding = malloc(sizeof(*finding));
    if (!finding)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to ask another host");
    *finding = *asked;
    finding->until_ms =
        uv_now(&peers->control->loop) + net_reach_ms(peers->control->settings->network_timeout_s);
    const net_dial_config_t config = {.address_count = finding->address_count,
                                      .addresses = finding->addresses,
                                      .is_users = true,
                                      .connected = on_connected,
                                      .failed = on_failed,
                                      .context = finding};
    blink_result_t result = net_dial(peers->net, &config, &finding->dial);
    if (result != BLINK_OK)
        free(finding);
    else
        list_append(&peers->findings, &finding->link);
    return result;
}

static blink_result_t dial(const finding_t *asked)
{
    account_t *account = &asked->tenant->account;
    BLINK_TRY(account_charge(account, BUDGET_CONNECTIONS, 1));
    blink_result_t result = begin(asked);
    if (result == BLINK_OK)
        tenant_hold(asked->tenant);
    else
        account_credit(account, BUDGET_CONNECTIONS, 1);
    return result;
}

/* *host: who is there, if that is known already; else NULL. */
static blink_result_t find(control_t *control, finding_t *asked, const Blinkwire__FindHome *message,
                           const hello_t **host)
{
    *host = NULL;
    if (!control->peers)
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "the ranks are on several hosts, and the daemon of this host does not listen for "
                          "others: it needs [network] listen in blinkd.conf");
    BLINK_TRY(read_request(message, asked));
    if (is_own(asked))
        *host = net_hello(control->peers->net);
    else
        *host = find_session(asked);
    return *host ? BLINK_OK : dial(asked);
}

void finding_begin(control_t *control, connection_t *connection, tenant_t *tenant, uint64_t request,
                   const Blinkwire__FindHome *message)
{
    finding_t asked = {
        .peers = control->peers, .connection = connection, .tenant = tenant, .request = request};
    const hello_t *host;
    list_init(&asked.link);
    blink_result_t result = find(control, &asked, message, &host);
    if (result != BLINK_OK)
        connection_reply_error(connection, request, result);
    else if (host)
        reply_found(connection, request, host);
}

/* ---- the end ---- */

void finding_forget(peers_t *peers, const connection_t *connection)
{
    if (!peers)
        return;
    LIST_FOR_EACH (link, &peers->findings) {
        finding_t *finding = CONTAINER_OF(link, finding_t, link);
        if (finding->connection == connection)
            free_finding(finding);
    }
}

void finding_end(peers_t *peers)
{
    LIST_FOR_EACH (link, &peers->findings)
        free_finding(CONTAINER_OF(link, finding_t, link));
}

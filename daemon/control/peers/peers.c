#include "control/peers/peers.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/peers/finding.h"
#include "control/peers/plans.h"
#include "control/peers/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So often hosts whose look-up failed are looked up again, the file of the cluster key is read, and hosts
 * that have not told their topologies are looked for. */
#define TICK_MS 5000u

/* ---- sessions ---- */

/* The session has ended: this thread's error text says why. */
static void tell_wanted(peers_t *peers, const net_session_t *session)
{
    LIST_FOR_EACH (link, &peers->wanted) {
        wanted_t *wanted = CONTAINER_OF(link, wanted_t, link);
        if (wanted->session == session)
            wanted_lost(wanted);
    }
}

static void free_host(peer_host_t *host)
{
    topology_put(host->topology);
    list_remove(&host->link);
    table_remove(&host->peers->instances, &host->of_instances);
    free(host);
}

/* The session has ended, for the code with this thread's error text, which the wanted host keeps. An orderly
 * end is a loss, too, for those who use the connections. */
static void end_host(peer_host_t *host, blink_result_t code)
{
    peers_t *peers = host->peers;
    uint64_t instance = net_session_peer(host->session)->instance;
    char why[BLINK_ERROR_TEXT_BYTES], name[GATHER_NAME_BYTES];
    memcpy(why, blink_error_text(), sizeof(why));
    snprintf(name, sizeof(name), "%s", net_session_peer(host->session)->host);
    code = code == BLINK_OK ? BLINK_ERR_PEER_LOST : code;
    tell_wanted(host->peers, host->session);
    asked_end(&host->asked);
    blink_error_set(code, "%s", why);
    asks_lost(&host->asks);
    peer_data_end(host->data, blink_error_set(code, "%s", why));
    free_host(host);
    peers->handler.lost(peers->handler.context, instance, name, blink_error_set(code, "%s", why));
}

/* This side ends the session, for the code with this thread's error text. */
static void close_host(peer_host_t *host, blink_result_t code)
{
    char why[BLINK_ERROR_TEXT_BYTES];
    snprintf(why, sizeof(why), "%s", blink_error_text());
    LOG_WARNING("host %s: %s", net_session_peer(host->session)->host, why);
    net_session_close(host->session, code);
    blink_error_set(code, "%s", why);
    end_host(host, code);
}

/* The data connections are gone, and with them the session. */
static void on_data_lost(void *context, blink_result_t code)
{
    close_host(context, code);
}

/* Where in the list of hosts, which is in the order of their names, one of this name goes: before that. */
static list_t *find_next(peers_t *peers, const char *name)
{
    LIST_FOR_EACH (link, &peers->hosts) {
        const peer_host_t *host = CONTAINER_OF(link, peer_host_t, link);
        if (strcmp(net_session_peer(host->session)->host, name) > 0)
            return link;
    }
    return &peers->hosts;
}

static blink_result_t add_host(peers_t *peers, net_session_t *session)
{
    peer_host_t *host = calloc(1, sizeof(*host));
    if (!host)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another host");
    *host = (peer_host_t){.peers = peers, .session = session, .since_ns = clock_ns()};
    const peer_data_config_t config = {.data = peers->control->data,
                                       .net = peers->net,
                                       .session = session,
                                       .control = peers->control->turns.mailbox,
                                       .port = address_port(&peers->address),
                                       .lost = on_data_lost,
                                       .context = host};
    list_init(&host->link);
    if (!table_add(&peers->instances, &host->of_instances, table_hash(net_session_peer(session)->instance))) {
        free(host);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for another host");
    }
    blink_result_t result = peer_data_begin(&config, &host->data);
    if (result != BLINK_OK) {
        free_host(host);
        return result;
    }
    asks_host_init(&host->asks, peers->asks, session);
    asked_init(&host->asked, peers->control, session, peers->handler.query);
    list_insert(find_next(peers, net_session_peer(session)->host), &host->link);
    net_session_set_data(session, host);
    return BLINK_OK;
}

static blink_result_t tell_topology(const peers_t *peers, net_session_t *session)
{
    Blinkpeer__Topology topology = BLINKPEER__TOPOLOGY__INIT;
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    topology.text = peers->topology->text;
    message.body_case = BLINKPEER__MESSAGE__BODY_TOPOLOGY;
    message.topology = &topology;
    return net_session_send(session, &message);
}

static void on_opened(void *context, net_session_t *session)
{
    peers_t *peers = context;
    blink_result_t result = add_host(peers, session);
    if (result != BLINK_OK) {
        net_session_close(session, result);
        return;
    }
    (void)tell_topology(peers, session); /* if that fails the session ends */
    reach_opened(peers, session);
    finding_opened(peers, session);
}

static void on_closed(void *context, net_session_t *session, blink_result_t code)
{
    (void)context; /* the session has logged why */
    end_host(net_session_data(session), code);
}

static blink_result_t heard_topology(peer_host_t *host, const char *text)
{
    peers_t *peers = host->peers;
    if (host->topology)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a second topology");
    BLINK_TRY(topology_get(&peers->topologies, text, &host->topology));
    peers->handler.opened(peers->handler.context, net_session_peer(host->session)->instance);
    return BLINK_OK;
}

/* The host that has said Hello, as others may dial it. */
static gather_host_t host_of(const hello_t *hello)
{
    gather_host_t host = {.instance = hello->instance, .port = hello->port};
    snprintf(host.name, sizeof(host.name), "%s", hello->host);
    memcpy(host.addresses, hello->addresses, sizeof(host.addresses));
    return host;
}

static blink_result_t on_message(void *context, net_session_t *session, const Blinkpeer__Message *message)
{
    peers_t *peers = context;
    peer_host_t *host = net_session_data(session);
    const gather_host_t from = host_of(net_session_peer(session));
    switch (message->body_case) {
    case BLINKPEER__MESSAGE__BODY_DATA_OFFER:
        return peer_data_heard(host->data, message->data_offer);
    case BLINKPEER__MESSAGE__BODY_TOPOLOGY:
        return heard_topology(host, message->topology->text);
    case BLINKPEER__MESSAGE__BODY_PLAN_ASK:
    case BLINKPEER__MESSAGE__BODY_PLAN:
        return peer_plan_heard(peers->control->engine, peer_data_endpoint(host->data), message);
    case BLINKPEER__MESSAGE__BODY_QUERY:
        return asked_heard(&host->asked, message->query);
    case BLINKPEER__MESSAGE__BODY_QUERY_REPLY:
        return asks_heard(&host->asks, message->query_reply);
    case BLINKPEER__MESSAGE__BODY_GATHER:
        return peers->handler.gather(peers->handler.context, &from, message->gather);
    case BLINKPEER__MESSAGE__BODY_SURVIVORS:
        return peers->handler.survivors(peers->handler.context, &from, message->survivors);
    default:
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "message %u is unknown here", message->body_case);
    }
}

static blink_result_t on_data(void *context, const wire_hello_t *hello, int fd)
{
    const peer_host_t *host = peers_host_of(context, hello->instance);
    if (host)
        return peer_data_accept(host->data, hello, fd);
    close(fd);
    return BLINK_FAIL(BLINK_ERR_PERMISSION, "a data connection of a daemon that has no session here");
}

static void on_asked(void *context)
{
    peers_t *peers = context;
    beat_ask(&peers->control->beat, &peers->asker);
}

static void on_beat(beat_asker_t *asker)
{
    net_answer(CONTAINER_OF(asker, peers_t, asker)->net);
}

/* ---- the key, and what is tried again ---- */

/* The keys that were read before stay. */
static void note_key_fault(peers_t *peers)
{
    if (strcmp(peers->key_fault, blink_error_text()) == 0)
        return;
    snprintf(peers->key_fault, sizeof(peers->key_fault), "%s", blink_error_text());
    LOG_WARNING("[network] key: %s; the keys of before stay in use", peers->key_fault);
}

/* Each step of a change has a line of its own. */
static void log_keys(const peers_t *peers)
{
    const char *first = net_key_name(peers->net, 0), *second = net_key_name(peers->net, 1);
    if (second)
        LOG_INFO("[network] key: changed; new sessions are dialled with key %s and accepted with %s, too",
                 first, second);
    else
        LOG_INFO("[network] key: changed; new sessions are dialled and accepted with key %s alone", first);
}

static void read_keys_again(peers_t *peers)
{
    cluster_keys_t keys;
    if (cluster_keys_read(peers->control->settings->network_key, &keys) != BLINK_OK) {
        note_key_fault(peers);
        return;
    }
    if (net_set_keys(peers->net, &keys))
        log_keys(peers);
    else if (*peers->key_fault)
        LOG_INFO("[network] key: the file is in order again, and the key is the same");
    peers->key_fault[0] = '\0';
    cluster_keys_wipe(&keys);
}

/* A host tells its topology as soon as it has a session. Ranks would wait for one that never does. */
static void check_told(peers_t *peers)
{
    double timeout_s = peers->control->settings->network_timeout_s;
    uint64_t now_ns = clock_ns();
    LIST_FOR_EACH (link, &peers->hosts) {
        peer_host_t *host = CONTAINER_OF(link, peer_host_t, link);
        if (!host->topology && now_ns - host->since_ns > (uint64_t)(timeout_s * 1e9))
            close_host(host,
                       BLINK_FAIL(BLINK_ERR_TIMEOUT, "it has not told its topology within %g s", timeout_s));
    }
}

static void on_tick(uv_timer_t *timer)
{
    peers_t *peers = timer->data;
    read_keys_again(peers);
    check_told(peers);
    LIST_FOR_EACH (link, &peers->wanted)
        wanted_try(CONTAINER_OF(link, wanted_t, link));
}

/* ---- the beginning ---- */

typedef blink_result_t take_item_t(peers_t *peers, const char *item);

/* Call `take` for each item of the list that is the key's value; a failure names the key. */
static blink_result_t for_each_item(peers_t *peers, const char *key, const char *list, take_item_t *take)
{
    char copy[SETTINGS_LIST_BYTES], *rest = strcpy(copy, list);
    for (char *item; (item = settings_next_item(&rest));) {
        blink_result_t result = take(peers, item);
        if (result != BLINK_OK)
            return BLINK_FAIL(result, "[network] %s: %s", key, blink_error_text());
    }
    return BLINK_OK;
}

static blink_result_t listen_at(peers_t *peers, const char *item)
{
    net_address_t address;
    char text[ADDRESS_TEXT_BYTES];
    BLINK_TRY(address_parse(item, NET_PORT_DEFAULT, &address));
    BLINK_TRY(net_listen(peers->net, &address));
    if (peers->address.any.sa_family == AF_UNSPEC)
        peers->address = address;
    address_write(&address, text);
    LOG_INFO("listening for other hosts on %s", text);
    return BLINK_OK;
}

static blink_result_t look_for(peers_t *peers, const char *item)
{
    wanted_t *wanted;
    BLINK_TRY(wanted_create(&peers->wanted_common, item, &wanted));
    list_append(&peers->wanted, &wanted->link);
    return BLINK_OK;
}

blink_result_t peers_find_name(const settings_t *settings, char name[SETTINGS_TEXT_BYTES])
{
    snprintf(name, SETTINGS_TEXT_BYTES, "%s", settings->network_host);
    if (!*name && gethostname(name, SETTINGS_TEXT_BYTES) != 0)
        return BLINK_FAIL_ERRNO("the machine's name");
    if (name_check("host name", name) != BLINK_OK)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[network] host: %s", blink_error_text());
    return BLINK_OK;
}

static bool is_named(const char *item, const net_interface_t *nic)
{
    settings_nic_t named;
    return settings_parse_nic(item, &named) && strcmp(named.name, nic->name) == 0;
}

static bool is_at(const char *item, const net_interface_t *nic)
{
    net_address_t address;
    if (address_parse(item, 0, &address) != BLINK_OK || address_is_all(&address))
        return false;
    address.v4.sin_port = 0; /* IPv6 has it at the same place */
    return address_is_own(&address, &nic->address);
}

/* Data connections may go over the NICs that the settings name, or else over those whose addresses they name:
 * of what else a machine has nobody knows that it leads to other hosts. */
static void place_nic(const settings_t *settings, net_interface_t *nic)
{
    bool by_name = *settings->network_nics;
    char copy[SETTINGS_TEXT_BYTES],
        *rest = strcpy(copy, by_name ? settings->network_nics : settings->network_listen);
    uint32_t place = 1;
    for (char *item; (item = settings_next_item(&rest)); place++)
        if (nic->place == 0 && (by_name ? is_named(item, nic) : is_at(item, nic)))
            nic->place = place;
}

static blink_result_t create_net(peers_t *peers, const cluster_keys_t *keys)
{
    static const net_handler_t handler = {
        .opened = on_opened, .message = on_message, .closed = on_closed, .data = on_data, .asked = on_asked};
    const settings_t *settings = peers->control->settings;
    char host[SETTINGS_TEXT_BYTES];
    net_interface_t nics[HELLO_NICS_MAX];
    net_config_t config = {.loop = &peers->control->loop,
                           .cluster = settings->network_cluster,
                           .host = host,
                           .keys = keys,
                           .timeout_s = settings->network_timeout_s,
                           .nics = nics,
                           .handler = &handler,
                           .context = peers};
    BLINK_TRY(peers_find_name(settings, host));
    BLINK_TRY(address_interfaces(nics, HELLO_NICS_MAX, &config.nic_count));
    for (uint32_t i = 0; i < config.nic_count; i++)
        place_nic(settings, &nics[i]);
    return net_create(&config, &peers->net);
}

static void add_address(unique_id_t *home, const net_address_t *address, uint32_t *count)
{
    if (*count < UNIQUE_ID_ADDRESSES)
        address_to_id(address, home->addresses[(*count)++]);
}

/* Where others find this daemon: the address at which it listens; if that is all of them, the NICs' first
 * ones, of IPv4 and of IPv6. */
static void find_home(const peers_t *peers, unique_id_t *home)
{
    const hello_t *hello = net_hello(peers->net);
    uint32_t count = 0;
    home->instance = hello->instance;
    home->port = address_port(&peers->address);
    if (!address_is_all(&peers->address))
        add_address(home, &peers->address, &count);
    for (uint32_t i = 0; i < hello->nic_count && address_is_all(&peers->address); i++) {
        const net_address_t *nic = &hello->nics[i].address;
        if (i == 0 || nic->any.sa_family != hello->nics[i - 1].address.any.sa_family)
            add_address(home, nic, &count);
    }
}

static blink_result_t find_own_topology(peers_t *peers)
{
    char *text;
    BLINK_TRY(topo_write_json(peers->control->topo, &text));
    size_t bytes = strlen(text);
    blink_result_t result = topology_get(&peers->topologies, text, &peers->topology);
    free(text);
    if (result == BLINK_OK && bytes + 64 > MESSAGE_MOST_BYTES)
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                            "[network]: the topology has %zu bytes as JSON, and other hosts are told of at "
                            "most %u",
                            bytes, MESSAGE_MOST_BYTES - 64);
    if (result == BLINK_OK)
        memcpy(peers->own.topology, peers->topology->digest, sizeof(peers->own.topology));
    return result;
}

/* As ids name it. */
static void find_own(peers_t *peers)
{
    unique_id_t *home = &peers->control->home;
    find_home(peers, home);
    net_tell_home(peers->net, home);
    snprintf(peers->own.name, sizeof(peers->own.name), "%s", net_hello(peers->net)->host);
    peers->own.instance = home->instance;
    peers->own.port = home->port;
    memcpy(peers->own.addresses, home->addresses, sizeof(peers->own.addresses));
}

static blink_result_t start(peers_t *peers)
{
    const settings_t *settings = peers->control->settings;
    cluster_keys_t keys;
    blink_result_t result = cluster_keys_read(settings->network_key, &keys);
    if (result != BLINK_OK)
        return BLINK_FAIL(result, "[network] key: %s", blink_error_text());
    result = create_net(peers, &keys);
    cluster_keys_wipe(&keys);
    if (result != BLINK_OK)
        return result;
    BLINK_TRY(for_each_item(peers, "listen", settings->network_listen, listen_at));
    find_own(peers);
    BLINK_TRY(find_own_topology(peers));
    wanted_common_init(&peers->wanted_common, peers->net, &peers->control->loop, &peers->address);
    return for_each_item(peers, "peers", settings->network_peers, look_for);
}

static uint64_t asks_limit_ms(const settings_t *settings)
{
    uint64_t timeout_ms = (uint64_t)(settings->network_timeout_s * 1e3);
    return timeout_ms < ASKS_MOST_MS ? timeout_ms : ASKS_MOST_MS;
}

blink_result_t peers_create(control_t *control, const peers_handler_t *handler, peers_t **created)
{
    *created = NULL;
    if (!*control->settings->network_listen && *control->settings->network_peers)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "[network] has peers and no listen: say where the daemon listens for them, for "
                          "example listen = *");
    if (!*control->settings->network_listen)
        return BLINK_OK;
    peers_t *peers = calloc(1, sizeof(*peers));
    if (!peers)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for other hosts");
    peers->control = control;
    peers->handler = *handler;
    list_init(&peers->topologies);
    list_init(&peers->reaches);
    list_init(&peers->findings);
    list_init(&peers->hosts);
    list_init(&peers->wanted);
    beat_asker_init(&peers->asker, on_beat);
    uv_timer_init(&control->loop, &peers->tick);
    peers->tick.data = peers;
    blink_result_t result =
        asks_create(&control->loop, &control->turns, asks_limit_ms(control->settings), &peers->asks);
    if (result == BLINK_OK)
        result = start(peers);
    if (result != BLINK_OK) {
        peers_destroy(peers);
        return result;
    }
    uv_timer_start(&peers->tick, on_tick, TICK_MS, TICK_MS);
    *created = peers;
    return BLINK_OK;
}

/* ---- hosts of communicators ---- */

const gather_host_t *peers_own(const peers_t *peers)
{
    return &peers->own;
}

bool peers_find(const peers_t *peers, uint64_t instance, peer_view_t *view)
{
    if (instance == peers->own.instance) {
        *view = (peer_view_t){.name = peers->own.name,
                              .topology = peers->topology->text,
                              .version = BLINK_VERSION,
                              .protocol = PEER_VERSION_MAX,
                              .digest = peers->topology->digest};
        return true;
    }
    const peer_host_t *host = peers_host_of(peers, instance);
    if (!host || !host->topology)
        return false;
    const hello_t *hello = net_session_peer(host->session);
    *view = (peer_view_t){.name = hello->host,
                          .topology = host->topology->text,
                          .version = hello->daemon_version,
                          .protocol = net_session_version(host->session),
                          .digest = host->topology->digest,
                          .endpoint = peer_data_endpoint(host->data)};
    return true;
}

blink_result_t peers_reach(peers_t *peers, const gather_host_t *host, tenant_t *tenant)
{
    return peers_host_of(peers, host->instance) ? BLINK_OK : reach_begin(peers, host, tenant);
}

blink_result_t peers_send(peers_t *peers, const gather_host_t *to, const Blinkpeer__Message *message)
{
    const peer_host_t *host = peers_host_of(peers, to->instance);
    if (host)
        return net_session_send(host->session, message);
    BLINK_TRY(reach_begin(peers, to, NULL));
    return reach_say(peers, to->instance, message);
}

void peers_fail(peers_t *peers, const gather_host_t *to, blink_result_t code)
{
    const peer_host_t *host = peers_host_of(peers, to->instance);
    if (host)
        net_session_fail(host->session, code);
}

void peers_forget(peers_t *peers, const connection_t *connection)
{
    if (!peers)
        return;
    finding_forget(peers, connection);
    asks_forget(peers->asks, connection);
}

/* ---- the end ---- */

static void on_tick_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Nobody is answered, dialled or asked any more. */
static void fall_silent(peers_t *peers)
{
    beat_cancel(&peers->asker);
    reach_end(peers);
    finding_end(peers);
    asks_destroy(peers->asks);
    uv_timer_stop(&peers->tick);
    LIST_FOR_EACH (link, &peers->wanted)
        wanted_destroy(CONTAINER_OF(link, wanted_t, link));
    LIST_FOR_EACH (link, &peers->hosts)
        asked_end(&CONTAINER_OF(link, peer_host_t, link)->asked);
}

static void hang_up(peers_t *peers)
{
    LIST_FOR_EACH (link, &peers->hosts) {
        peer_host_t *host = CONTAINER_OF(link, peer_host_t, link);
        peer_data_end(host->data, BLINK_OK);
        free_host(host);
    }
    table_fini(&peers->instances);
    topology_put(peers->topology);
    net_destroy(peers->net);
    uv_close((uv_handle_t *)&peers->tick, on_tick_closed);
}

static void on_left(void *context)
{
    peers_t *peers = context;
    void (*left)(void *context) = peers->left;
    void *left_context = peers->left_context;
    hang_up(peers);
    left(left_context);
}

void peers_leave(peers_t *peers, void (*left)(void *context), void *context)
{
    peers->left = left;
    peers->left_context = context;
    fall_silent(peers);
    LIST_FOR_EACH (link, &peers->hosts)
        peer_data_leave(CONTAINER_OF(link, peer_host_t, link)->data);
    net_leave(peers->net, on_left);
}

void peers_destroy(peers_t *peers)
{
    if (!peers)
        return;
    fall_silent(peers);
    hang_up(peers);
}

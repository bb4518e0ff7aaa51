#include "control/peers/peers.h"

#include "base/clock.h"
#include "control/peers/state.h"

#include <string.h>

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void describe_nics(const hello_t *hello, described_host_t *described)
{
    described->host.nics = described->pointers;
    described->host.n_nics = hello->nic_count;
    for (uint32_t i = 0; i < hello->nic_count; i++) {
        Blinkwire__HostNic *nic = described->pointers[i] = &described->nics[i];
        blinkwire__host_nic__init(nic);
        address_write_host(&hello->nics[i].address, described->nic_addresses[i]);
        nic->name = text_of(hello->nics[i].name);
        nic->address = described->nic_addresses[i];
    }
}

/* Moves between this host and another one are to go over some of these NICs. */
static void mark_moves(const peer_host_t *host, const hello_t *hello, described_host_t *described)
{
    data_ends_t ends[DATA_MOVE_STREAMS_MOST];
    uint32_t count = peer_data_find_ends(host->data, ends);
    for (uint32_t n = 0; n < hello->nic_count; n++)
        for (uint32_t i = 0; i < count; i++)
            described->nics[n].has_moves |= address_is_same_host(&ends[i].own, &hello->nics[n].address) ||
                                            address_is_same_host(&ends[i].peer, &hello->nics[n].address);
}

static void describe_hello(const hello_t *hello, const net_address_t *address, const char *state,
                           described_host_t *described)
{
    address_write(address, described->address);
    described->host.name = text_of(hello->host);
    described->host.state = text_of(state);
    described->host.address = described->address;
    described->host.daemon_version = text_of(hello->daemon_version);
    describe_nics(hello, described);
}

static void describe_own(const peers_t *peers, described_host_t *described)
{
    const hello_t *hello = net_hello(peers->net);
    describe_hello(hello, &peers->address, "this host", described);
    LIST_FOR_EACH (link, &peers->hosts)
        mark_moves(CONTAINER_OF(link, peer_host_t, link), hello, described);
}

static void describe_connected(const peer_host_t *host, described_host_t *described)
{
    const hello_t *hello = net_session_peer(host->session);
    describe_hello(hello, net_session_address(host->session), "connected", described);
    mark_moves(host, hello, described);
    described->host.since_s = (double)(clock_ns() - host->since_ns) / 1e9;
}

static void describe_wanted(const wanted_t *wanted, described_host_t *described)
{
    described->host.name = text_of(wanted->text);
    described->host.state = text_of("dialling");
    described->host.why = text_of(wanted->why);
}

bool peers_describe(const peers_t *peers, uint64_t number, described_host_t *described)
{
    blinkwire__host__init(&described->host);
    if (number == 0) {
        describe_own(peers, described);
        return true;
    }
    number--;
    LIST_FOR_EACH (link, &peers->hosts) {
        if (number-- > 0)
            continue;
        describe_connected(CONTAINER_OF(link, peer_host_t, link), described);
        return true;
    }
    LIST_FOR_EACH (link, &peers->wanted) {
        const wanted_t *wanted = CONTAINER_OF(link, wanted_t, link);
        if (wanted->session || wanted->is_self || number-- > 0)
            continue;
        describe_wanted(wanted, described);
        return true;
    }
    return false;
}

/* ---- other hosts' answers ---- */

static peer_host_t *find_host(const peers_t *peers, const char *name)
{
    LIST_FOR_EACH (link, &peers->hosts) {
        peer_host_t *host = CONTAINER_OF(link, peer_host_t, link);
        if (strcmp(net_session_peer(host->session)->host, name) == 0)
            return host;
    }
    return NULL;
}

static blink_result_t find_asked(const peers_t *peers, const char *name, peer_host_t **host)
{
    if (!peers)
        return BLINK_FAIL(
            BLINK_ERR_UNSUPPORTED,
            "the daemon of this host knows no others: it needs [network] listen in blinkd.conf");
    BLINK_TRY(name_check("host name", name));
    *host = find_host(peers, name);
    return *host ? BLINK_OK : BLINK_FAIL(BLINK_ERR_NOT_FOUND, "there is no session with a host '%s'", name);
}

bool peers_ask(const peers_t *peers, const asker_t *asker, const Blinkwire__Query *question)
{
    peer_host_t *host;
    if (!*question->host || (peers && strcmp(question->host, peers->own.name) == 0))
        return false;
    blink_result_t result = find_asked(peers, question->host, &host);
    if (result != BLINK_OK)
        asker_fail(asker, result);
    else
        asks_put(&host->asks, asker, question);
    return true;
}

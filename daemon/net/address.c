#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- host and port ---- */

typedef struct host_port {
    char host[ADDRESS_NAME_BYTES];
    uint16_t port;
} host_port_t;

static blink_result_t parse_port(const char *text, const char *digits, uint16_t *port)
{
    char *end;
    unsigned long number = strtoul(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end || number == 0 || number > UINT16_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "address '%.64s': the port '%.16s' is no number from 1 to 65535", text, digits);
    *port = (uint16_t)number;
    return BLINK_OK;
}

/* Where the port's digits begin; NULL: there are none. *host_end is where the host ends. */
static const char *find_port(const char *text, const char **host_end)
{
    const char *bracket = *text == '[' ? strchr(text, ']') : NULL;
    const char *colon = strrchr(bracket ? bracket : text, ':');
    bool is_bare_v6 = !bracket && colon && strchr(text, ':') != colon;
    *host_end = bracket ? bracket : colon && !is_bare_v6 ? colon : text + strlen(text);
    return is_bare_v6 || !colon ? NULL : colon + 1;
}

static blink_result_t split(const char *text, uint16_t port, host_port_t *parts)
{
    const char *end, *digits = find_port(text, &end);
    bool bracketed = *text == '[';
    const char *host = text + bracketed;
    const char *rest = bracketed && *end == ']' ? end + 1 : end;
    size_t length = (size_t)(end - host);
    if (length == 0 || length >= sizeof(parts->host) || (bracketed && *end != ']') || (*rest && *rest != ':'))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "address '%.96s': host, host:port or [IPv6 address]:port is wanted", text);
    memcpy(parts->host, host, length);
    parts->host[length] = '\0';
    parts->port = port;
    return digits ? parse_port(text, digits, &parts->port) : BLINK_OK;
}

/* ---- text and address ---- */

bool address_take(const struct sockaddr *from, net_address_t *address)
{
    *address = (net_address_t){0};
    if (from->sa_family == AF_INET)
        memcpy(&address->v4, from, sizeof(address->v4));
    else if (from->sa_family == AF_INET6)
        memcpy(&address->v6, from, sizeof(address->v6));
    else
        return false;
    if (from->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = address->v6.sin6_port};
        memcpy(&v4.sin_addr, address->v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
        *address = (net_address_t){.v4 = v4};
    }
    return true;
}

/* An IPv6 address may have a scope behind a %, the name of an interface. */
static bool parse_v6(char *host, uint16_t port, net_address_t *address)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char *scope = strchr(host, '%');
    if (scope) {
        *scope = '\0';
        v6.sin6_scope_id = if_nametoindex(scope + 1);
        if (v6.sin6_scope_id == 0)
            return false;
    }
    return inet_pton(AF_INET6, host, &v6.sin6_addr) == 1 && address_take((struct sockaddr *)&v6, address);
}

blink_result_t address_parse(const char *text, uint16_t port, net_address_t *address)
{
    host_port_t parts;
    BLINK_TRY(split(text, port, &parts));
    *address = (net_address_t){.v4 = {.sin_family = AF_INET, .sin_port = htons(parts.port)}};
    if (inet_pton(AF_INET, parts.host, &address->v4.sin_addr) == 1)
        return BLINK_OK;
    if (strcmp(parts.host, "*") == 0)
        strcpy(parts.host, "::");
    if (parse_v6(parts.host, parts.port, address))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "address '%.96s': neither an IPv4 nor an IPv6 address; for example 192.0.2.1:%u or "
                      "[2001:db8::1]:%u",
                      text, NET_PORT_DEFAULT, NET_PORT_DEFAULT);
}

blink_result_t address_check(const char *text)
{
    host_port_t parts;
    return split(text, NET_PORT_DEFAULT, &parts);
}

void address_write_host(const net_address_t *address, char text[ADDRESS_TEXT_BYTES])
{
    bool is_v4 = address->any.sa_family == AF_INET;
    char interface[IF_NAMESIZE] = "";
    inet_ntop(is_v4 ? AF_INET : AF_INET6,
              is_v4 ? (const void *)&address->v4.sin_addr : (const void *)&address->v6.sin6_addr, text,
              INET6_ADDRSTRLEN);
    if (!is_v4 && address->v6.sin6_scope_id && if_indextoname(address->v6.sin6_scope_id, interface)) {
        size_t used = strlen(text);
        snprintf(text + used, ADDRESS_TEXT_BYTES - used, "%%%s", interface);
    }
}

uint16_t address_port(const net_address_t *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

void address_set_port(net_address_t *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = htons(port);
    else
        address->v4.sin_port = htons(port);
}

void address_write(const net_address_t *address, char text[ADDRESS_TEXT_BYTES])
{
    bool is_v4 = address->any.sa_family == AF_INET;
    char host[ADDRESS_TEXT_BYTES];
    address_write_host(address, host);
    snprintf(text, ADDRESS_TEXT_BYTES, is_v4 ? "%.63s:%u" : "[%.62s]:%u", host, address_port(address));
}

socklen_t address_bytes(const net_address_t *address)
{
    return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

void address_to_id(const net_address_t *address, uint8_t bytes[16])
{
    if (address->any.sa_family == AF_INET6) {
        memcpy(bytes, &address->v6.sin6_addr, 16);
        return;
    }
    memset(bytes, 0, 10);
    memset(bytes + 10, 0xff, 2);
    memcpy(bytes + 12, &address->v4.sin_addr, 4);
}

void address_of_id(const uint8_t bytes[16], uint16_t port, net_address_t *address)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&v6.sin6_addr, bytes, 16);
    (void)address_take((struct sockaddr *)&v6, address);
}

bool address_is_same_host(const net_address_t *address, const net_address_t *other)
{
    if (address->any.sa_family != other->any.sa_family)
        return false;
    return address->any.sa_family == AF_INET
               ? address->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr
               : memcmp(&address->v6.sin6_addr, &other->v6.sin6_addr, sizeof(address->v6.sin6_addr)) == 0;
}

bool address_same_network(const net_address_t *address, const net_address_t *other)
{
    if (address->any.sa_family != other->any.sa_family)
        return false;
    if (address->any.sa_family == AF_INET)
        return address->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr;
    return memcmp(&address->v6.sin6_addr, &other->v6.sin6_addr, 8) == 0;
}

/* ---- names ---- */

/*
 * A look-up is made by a thread of its own, which nobody waits for: getaddrinfo() may take a minute where
 * name servers are silent, and cannot be stopped. Whoever of the thread and the loop is done last frees the
 * struct.
 */
struct address_lookup {
    uv_async_t answered;
    address_found_t found;
    void *context;
    host_port_t parts;
    pthread_mutex_t lock;
    bool cancelled; /* under the lock: the loop's handle may be gone */
    bool is_shared; /* under the lock: neither of the two is done */
    /* The thread's until it has answered. */
    int status;
    uint32_t count;
    net_address_t addresses[ADDRESSES_MAX];
};

static void lookup_put(address_lookup_t *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    bool is_last = !lookup->is_shared;
    lookup->is_shared = false;
    pthread_mutex_unlock(&lookup->lock);
    if (!is_last)
        return;
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

/* As many as there are, and at most ADDRESSES_MAX. */
static uint32_t take_answers(const struct addrinfo *answers, net_address_t addresses[ADDRESSES_MAX])
{
    uint32_t count = 0;
    for (; answers && count < ADDRESSES_MAX; answers = answers->ai_next)
        count += address_take(answers->ai_addr, &addresses[count]);
    return count;
}

/* The thread. */
static void *look_up(void *argument)
{
    address_lookup_t *lookup = argument;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *answers = NULL;
    char digits[8];
    snprintf(digits, sizeof(digits), "%u", lookup->parts.port);
    lookup->status = getaddrinfo(lookup->parts.host, digits, &hints, &answers);
    if (lookup->status == 0) {
        lookup->count = take_answers(answers, lookup->addresses);
        freeaddrinfo(answers);
    }
    pthread_mutex_lock(&lookup->lock);
    if (!lookup->cancelled)
        uv_async_send(&lookup->answered);
    pthread_mutex_unlock(&lookup->lock);
    lookup_put(lookup);
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    lookup_put(handle->data);
}

static void on_answer(uv_async_t *async)
{
    address_lookup_t *lookup = async->data;
    blink_result_t code = BLINK_OK;
    if (lookup->count == 0)
        code = BLINK_FAIL(BLINK_ERR_NOT_FOUND, "no address of host '%.96s' is known: %s", lookup->parts.host,
                          lookup->status == 0 ? "neither IPv4 nor IPv6" : gai_strerror(lookup->status));
    uv_close((uv_handle_t *)async, on_closed);
    lookup->found(lookup->context, code, lookup->addresses, lookup->count);
}

static blink_result_t start_thread(address_lookup_t *lookup)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, look_up, lookup);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "look up %.96s: %s", lookup->parts.host, strerror(error));
    return BLINK_OK;
}

blink_result_t address_find(uv_loop_t *loop, const char *text, uint16_t port, address_found_t found,
                            void *context, address_lookup_t **made)
{
    host_port_t parts;
    BLINK_TRY(split(text, port, &parts));
    address_lookup_t *lookup = calloc(1, sizeof(*lookup));
    if (!lookup || uv_async_init(loop, &lookup->answered, on_answer) != 0) {
        free(lookup);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to look up %.96s", text);
    }
    lookup->found = found;
    lookup->context = context;
    lookup->parts = parts;
    lookup->is_shared = true;
    lookup->answered.data = lookup;
    pthread_mutex_init(&lookup->lock, NULL);
    blink_result_t result = start_thread(lookup);
    if (result == BLINK_OK) {
        *made = lookup;
        return BLINK_OK;
    }
    lookup->is_shared = false;
    uv_close((uv_handle_t *)&lookup->answered, on_closed);
    return result;
}

void address_cancel(address_lookup_t *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    lookup->cancelled = true;
    pthread_mutex_unlock(&lookup->lock);
    uv_close((uv_handle_t *)&lookup->answered, on_closed);
}

/* ---- this machine's ---- */

static bool is_reachable(const struct ifaddrs *entry, net_address_t *address)
{
    return entry->ifa_addr && (entry->ifa_flags & IFF_UP) && !(entry->ifa_flags & IFF_LOOPBACK) &&
           address_take(entry->ifa_addr, address) &&
           !(address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr));
}

static void add_interfaces(const struct ifaddrs *entry, sa_family_t family, net_interface_t *interfaces,
                           uint32_t most, uint32_t *count)
{
    for (net_address_t address; entry && *count < most; entry = entry->ifa_next) {
        if (!is_reachable(entry, &address) || address.any.sa_family != family)
            continue;
        net_interface_t *interface = &interfaces[(*count)++];
        *interface = (net_interface_t){.address = address};
        snprintf(interface->name, sizeof(interface->name), "%s", entry->ifa_name);
    }
}

bool address_is_all(const net_address_t *address)
{
    return address->any.sa_family == AF_INET ? address->v4.sin_addr.s_addr == htonl(INADDR_ANY)
                                             : IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

bool address_is_own(const net_address_t *listening, const net_address_t *address)
{
    struct ifaddrs *entries = NULL;
    bool is_own = address_is_same_host(listening, address);
    if (address_port(listening) != address_port(address))
        return false;
    if (!is_own && address_is_all(listening) && getifaddrs(&entries) == 0) {
        for (const struct ifaddrs *entry = entries; entry && !is_own; entry = entry->ifa_next) {
            net_address_t one;
            is_own =
                entry->ifa_addr && address_take(entry->ifa_addr, &one) && address_is_same_host(&one, address);
        }
        freeifaddrs(entries);
    }
    return is_own;
}

bool address_is_neighbour(const net_address_t *address)
{
    struct ifaddrs *entries = NULL;
    bool is_neighbour = false;
    if (address->any.sa_family != AF_INET6 || getifaddrs(&entries) != 0)
        return false;
    for (const struct ifaddrs *entry = entries; entry && !is_neighbour; entry = entry->ifa_next) {
        net_address_t one;
        is_neighbour =
            entry->ifa_addr && address_take(entry->ifa_addr, &one) && address_same_network(&one, address);
    }
    freeifaddrs(entries);
    return is_neighbour;
}

blink_result_t address_check_interface(const char *name)
{
    char list[BLINK_ERROR_TEXT_BYTES / 2] = "";
    size_t used = 0;
    if (if_nametoindex(name) != 0)
        return BLINK_OK;
    struct if_nameindex *all = if_nameindex();
    if (!all)
        return BLINK_FAIL_ERRNO("list the network interfaces");
    for (const struct if_nameindex *one = all; one->if_index && used + IF_NAMESIZE + 3 < sizeof(list); one++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", one->if_name);
    if_freenameindex(all);
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "this machine has no interface '%s'; it has %s", name, list);
}

blink_result_t address_interfaces(net_interface_t *interfaces, uint32_t most, uint32_t *count)
{
    struct ifaddrs *entries;
    if (getifaddrs(&entries) != 0)
        return BLINK_FAIL_ERRNO("list the network interfaces");
    *count = 0;
    add_interfaces(entries, AF_INET, interfaces, most, count);
    add_interfaces(entries, AF_INET6, interfaces, most, count);
    freeifaddrs(entries);
    return BLINK_OK;
}

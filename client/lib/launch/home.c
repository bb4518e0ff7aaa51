/* A name becomes addresses; one that is this host's own needs no answer, and others the daemon knows or asks.
 */
#include "launch/home.h"

#include "launch/launch.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESSES_MAX 8

typedef struct place {
    char host[LAUNCH_TEXT_BYTES];
    uint32_t port; /* 0: not told */
    size_t address_count;
    uint8_t addresses[ADDRESSES_MAX][16]; /* as in an id */
    bool is_own;
} place_t;

/* "host", "host:port", "[address]:port" or an address of IPv6. */
static blink_result_t read_place(const char *where, place_t *place)
{
    const char *host = where, *end = strchr(where, ':'), *port = end;
    if (*where == '[') {
        host++;
        end = strchr(host, ']');
        port = end && end[1] == ':' ? end + 1 : NULL;
    } else if (!end || strchr(end + 1, ':')) {
        end = where + strlen(where);
        port = NULL;
    }
    char *rest = NULL;
    unsigned long number = port ? strtoul(port + 1, &rest, 10) : 0;
    if (!end || end == host || (port && (rest == port + 1 || *rest || number < 1 || number > UINT16_MAX)))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%.80s: not a host, or a host with a port", where);
    *place = (place_t){.port = (uint32_t)number};
    snprintf(place->host, sizeof(place->host), "%.*s", (int)(end - host), host);
    return BLINK_OK;
}

/* Only what is an own address can be bound to. */
static bool is_own(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool bound = bind(fd, address->ai_addr, address->ai_addrlen) == 0;
    close(fd);
    return bound;
}

static void add_address(place_t *place, const struct addrinfo *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    uint8_t *bytes = place->addresses[place->address_count++];
    if (address->ai_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address->ai_addr)->sin6_addr, 16);
        return;
    }
    memcpy(bytes, mapped, sizeof(mapped));
    memcpy(bytes + sizeof(mapped), &((const struct sockaddr_in *)(const void *)address->ai_addr)->sin_addr,
           4);
}

static blink_result_t look_up(place_t *place)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found;
    int failure = getaddrinfo(place->host, NULL, &hints, &found);
    if (failure != 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "host %.80s, where the ranks are to meet: %s", place->host,
                          gai_strerror(failure));
    for (const struct addrinfo *at = found; at && place->address_count < ADDRESSES_MAX; at = at->ai_next) {
        place->is_own = place->is_own || is_own(at);
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6)
            add_address(place, at);
    }
    freeaddrinfo(found);
    return BLINK_OK;
}

static blink_result_t ask(blink_context_t *context, place_t *place, unique_id_t *home)
{
    Blinkwire__FindHome body = BLINKWIRE__FIND_HOME__INIT;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    ProtobufCBinaryData addresses[ADDRESSES_MAX];
    connection_answer_t answer;
    for (size_t i = 0; i < place->address_count; i++)
        addresses[i] = (ProtobufCBinaryData){sizeof(place->addresses[i]), place->addresses[i]};
    body.n_addresses = place->address_count;
    body.addresses = addresses;
    body.port = place->port;
    request.body_case = BLINKWIRE__REQUEST__BODY_FIND_HOME;
    request.find_home = &body;
    BLINK_TRY(connection_call(&context->connection, &request, NULL, 0, &answer));
    const Blinkwire__FindHomeReply *found = answer.reply->find_home;
    bool is_home = answer.reply->body_case == BLINKWIRE__REPLY__BODY_FIND_HOME &&
                   found->home.len == UNIQUE_ID_HOME_BYTES;
    *home = (unique_id_t){0};
    if (is_home)
        memcpy(home, found->home.data, UNIQUE_ID_HOME_BYTES);
    connection_answer_release(&answer);
    return is_home ? BLINK_OK
                   : BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon does not say who is at %s", place->host);
}

blink_result_t home_find(blink_context_t *context, const char *where, unique_id_t *home)
{
    place_t place;
    BLINK_TRY(read_place(where, &place));
    BLINK_TRY(look_up(&place));
    if (!place.is_own)
        return ask(context, &place, home);
    *home = context->home; /* of a daemon that does not listen: then all ranks must be here */
    return BLINK_OK;
}

/* The store of torchrun's agent (TCPStore), as torch 2.2 and later speak it: a request is a byte for its kind
 * and its arguments, numbers as this machine has them, texts after their length in 64 bits. */
#include "base/clock.h"
#include "launch/exchange.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC            UINT32_C(0x3c85f7ce)
#define KEY_PREFIX       "blink/"
#define FORGET_MOST_NS   UINT64_C(1000000000)
#define REQUEST_BYTES    (2 * LAUNCH_TEXT_BYTES)
#define STORE_NAME_BYTES (LAUNCH_TEXT_BYTES + 32)

enum {
    STORE_VALIDATE = 0,
    STORE_SET = 1,
    STORE_GET = 3,
    STORE_WAIT = 6,
    STORE_DELETE_KEY = 8,
    STORE_PING = 13
};
enum { STORE_STOP_WAITING = 0 };

typedef struct store {
    int fd;
    uint64_t deadline_ns;
    char name[STORE_NAME_BYTES]; /* for sentences */
} store_t;

typedef struct request {
    size_t byte_count;
    uint8_t bytes[REQUEST_BYTES];
} request_t;

static void add(request_t *request, const void *bytes, size_t byte_count)
{
    memcpy(request->bytes + request->byte_count, bytes, byte_count);
    request->byte_count += byte_count;
}

static void add_kind(request_t *request, uint8_t kind)
{
    add(request, &kind, sizeof(kind));
}

static void add_text(request_t *request, const char *text)
{
    uint64_t length = strlen(text);
    add(request, &length, sizeof(length));
    add(request, text, length);
}

static void add_key(request_t *request, const launch_t *launch)
{
    char key[sizeof(KEY_PREFIX) + LAUNCH_TEXT_BYTES];
    snprintf(key, sizeof(key), KEY_PREFIX "%s", launch->job);
    add_text(request, key);
}

static blink_result_t say(const store_t *store, const request_t *request)
{
    return exchange_send(store->fd, request->bytes, request->byte_count, store->deadline_ns, store->name);
}

static blink_result_t hear(const store_t *store, void *bytes, size_t byte_count)
{
    return exchange_receive(store->fd, bytes, byte_count, store->deadline_ns, store->name);
}

/* ---- the connection ---- */

/* Whether it is such a store: it gives the number back. */
static blink_result_t greet(const store_t *store)
{
    request_t request = {0};
    uint32_t magic = MAGIC, number = (uint32_t)getpid(), heard;
    add_kind(&request, STORE_VALIDATE);
    add(&request, &magic, sizeof(magic));
    add_kind(&request, STORE_PING);
    add(&request, &number, sizeof(number));
    BLINK_TRY(say(store, &request));
    BLINK_TRY(hear(store, &heard, sizeof(heard)));
    if (heard != number)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s is no store of torch 2.2 or later: set BLINK_RENDEZVOUS",
                          store->name);
    return BLINK_OK;
}

/* 0, or the errno of the failure. */
static int connect_once(const store_t *store, const struct addrinfo *to)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (connect(store->fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (exchange_await(store->fd, POLLOUT, store->deadline_ns, store->name) != BLINK_OK)
        return ETIMEDOUT;
    return getsockopt(store->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

static blink_result_t connect_to(const struct addrinfo *found, store_t *store)
{
    int error = 0;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        store->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (store->fd < 0)
            return BLINK_FAIL_ERRNO("socket");
        error = connect_once(store, at);
        if (error == 0)
            return BLINK_OK;
        close(store->fd);
        store->fd = -1;
    }
    return BLINK_FAIL(BLINK_ERR_CONNECT, "%s: %s", store->name, strerror(error));
}

static blink_result_t open_store(const launch_t *launch, uint64_t deadline_ns, store_t *store)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char host[LAUNCH_TEXT_BYTES];
    const char *port = strrchr(launch->where, ':');
    bool is_bracketed = *launch->where == '[';
    *store = (store_t){.fd = -1, .deadline_ns = deadline_ns};
    snprintf(store->name, sizeof(store->name), "torchrun's store at %s", launch->where);
    snprintf(host, sizeof(host), "%.*s", (int)(port - launch->where) - 2 * is_bracketed,
             launch->where + is_bracketed);
    int failure = getaddrinfo(host, port + 1, &hints, &found);
    if (failure != 0)
        return BLINK_FAIL(BLINK_ERR_CONNECT, "%s: %s", store->name, gai_strerror(failure));
    blink_result_t result = connect_to(found, store);
    freeaddrinfo(found);
    if (result == BLINK_OK)
        result = greet(store);
    if (result != BLINK_OK && store->fd >= 0)
        close(store->fd);
    return result;
}

/* ---- the exchange ---- */

static blink_result_t set(const store_t *store, const launch_t *launch, const char *text)
{
    request_t request = {0};
    add_kind(&request, STORE_SET);
    add_key(&request, launch);
    add_text(&request, text);
    return say(store, &request);
}

static blink_result_t get(const store_t *store, const launch_t *launch, char text[UNIQUE_ID_TEXT_BYTES])
{
    request_t request = {0};
    uint64_t count = 1, length;
    uint8_t response;
    add_kind(&request, STORE_WAIT);
    add(&request, &count, sizeof(count));
    add_key(&request, launch);
    BLINK_TRY(say(store, &request));
    BLINK_TRY(hear(store, &response, sizeof(response)));
    request.byte_count = 0;
    add_kind(&request, STORE_GET);
    add_key(&request, launch);
    BLINK_TRY(say(store, &request));
    BLINK_TRY(hear(store, &length, sizeof(length)));
    if (response != STORE_STOP_WAITING || length != UNIQUE_ID_TEXT_BYTES - 1)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "%s answers %u and gives %lu bytes in place of an id",
                          store->name, response, (unsigned long)length);
    BLINK_TRY(hear(store, text, length));
    text[length] = '\0';
    return BLINK_OK;
}

blink_result_t exchange_by_store(const launch_t *launch, uint64_t deadline_ns,
                                 char text[UNIQUE_ID_TEXT_BYTES])
{
    store_t store;
    BLINK_TRY(open_store(launch, deadline_ns, &store));
    blink_result_t result = launch->rank == 0 ? set(&store, launch, text) : get(&store, launch, text);
    close(store.fd);
    return result;
}

/* The store may outlive the ranks: those that the agent starts afterwards must not find this text. */
void exchange_forget_store(const launch_t *launch)
{
    store_t store;
    request_t request = {0};
    uint64_t deleted;
    if (open_store(launch, clock_ns() + FORGET_MOST_NS, &store) != BLINK_OK)
        return;
    add_kind(&request, STORE_DELETE_KEY);
    add_key(&request, launch);
    if (say(&store, &request) == BLINK_OK)
        (void)hear(&store, &deleted, sizeof(deleted));
    close(store.fd);
}

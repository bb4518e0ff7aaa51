#include "ctl/metrics/http.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define REQUEST_MOST_BYTES 8192u
#define REQUEST_MS         5000u
#define ANSWER_MS          10000u
#define HEAD_BYTES         256u

typedef struct exchange {
    int fd;
    uint64_t deadline_ns;
    char request[REQUEST_MOST_BYTES + 1]; /* its head, ended by a NUL */
    bool head_only, is_openmetrics;
} exchange_t;

static void set_limit(exchange_t *exchange, uint64_t ms)
{
    exchange->deadline_ns = clock_ns() + ms * 1000000u;
}

/* Wait until the socket is ready, up to the limit. */
static blink_result_t await(const exchange_t *exchange, short events)
{
    struct pollfd ready = {.fd = exchange->fd, .events = events};
    uint64_t now_ns = clock_ns();
    int left_ms = now_ns < exchange->deadline_ns ? (int)((exchange->deadline_ns - now_ns) / 1000000u) + 1 : 0;
    int count = left_ms > 0 ? poll(&ready, 1, left_ms) : 0;
    if (count < 0 && errno != EINTR)
        return BLINK_FAIL_ERRNO("poll");
    return count == 0 ? BLINK_FAIL(BLINK_ERR_TIMEOUT, "the other end takes too long") : BLINK_OK;
}

static blink_result_t send_all(const exchange_t *exchange, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(exchange->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return BLINK_FAIL_ERRNO("send the answer");
        if (sent < 0)
            BLINK_TRY(await(exchange, POLLOUT));
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return BLINK_OK;
}

static blink_result_t send_answer(exchange_t *exchange, const char *status, const char *type,
                                  const char *text, size_t bytes)
{
    char head[HEAD_BYTES];
    int head_bytes = snprintf(head, sizeof(head),
                              "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
                              "Connection: close\r\n\r\n",
                              status, type, bytes);
    set_limit(exchange, ANSWER_MS);
    BLINK_TRY(send_all(exchange, head, (size_t)head_bytes));
    return exchange->head_only ? BLINK_OK : send_all(exchange, text, bytes);
}

static blink_result_t send_sentence(exchange_t *exchange, const char *status, const char *sentence)
{
    return send_answer(exchange, status, "text/plain", sentence, strlen(sentence));
}

/* ---- the request ---- */

/* Read until the head is whole. *status: what to answer at once; NULL: nothing is wrong so far. */
static blink_result_t read_head(exchange_t *exchange, const char **status)
{
    size_t count = 0;
    set_limit(exchange, REQUEST_MS);
    while (!memmem(exchange->request, count, "\r\n\r\n", 4)) {
        if (count == REQUEST_MOST_BYTES) {
            *status = "431 Request Header Fields Too Large";
            return BLINK_OK;
        }
        blink_result_t result = await(exchange, POLLIN);
        if (result == BLINK_ERR_TIMEOUT) {
            *status = "408 Request Timeout";
            return BLINK_OK;
        }
        BLINK_TRY(result);
        ssize_t got = recv(exchange->fd, exchange->request + count, REQUEST_MOST_BYTES - count, MSG_DONTWAIT);
        if (got == 0)
            return BLINK_FAIL(BLINK_ERR_SYSTEM, "the other end has gone before its request was whole");
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return BLINK_FAIL_ERRNO("read a request");
        count += got > 0 ? (size_t)got : 0;
    }
    return BLINK_OK;
}

/* Whether a header of the request names this type of content as one that is accepted. */
static bool accepts(const char *request, const char *type)
{
    static const char name[] = "\r\nAccept:";
    const char *header = strcasestr(request, name);
    const char *end = header ? strstr(header + sizeof(name) - 1, "\r\n") : NULL;
    const char *found = header ? strcasestr(header, type) : NULL;
    return found && found < end;
}

/* What to answer at once; NULL: the metrics are asked for. */
static const char *parse_head(exchange_t *exchange)
{
    char method[8], target[256], version[16];
    if (sscanf(exchange->request, "%7s %255s %15s", method, target, version) != 3 ||
        strncmp(version, "HTTP/1.", 7) != 0)
        return "400 Bad Request";
    target[strcspn(target, "?")] = '\0';
    exchange->head_only = strcmp(method, "HEAD") == 0;
    exchange->is_openmetrics = accepts(exchange->request, "application/openmetrics-text");
    if (!exchange->head_only && strcmp(method, "GET") != 0)
        return "405 Method Not Allowed";
    return strcmp(target, "/metrics") == 0 ? NULL : "404 Not Found";
}

static blink_result_t check_is_socket(int fd)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
        return BLINK_OK;
    return BLINK_FAIL(
        BLINK_ERR_INVALID_ARGUMENT,
        "--http answers on a socket that is handed in as standard input, as blinkd-metrics.socket "
        "does; without --http the metrics are printed");
}

static blink_result_t send_metrics(exchange_t *exchange, http_render_t *render, void *context)
{
    char *text;
    size_t bytes;
    if (render(context, exchange->is_openmetrics, &text, &bytes) != BLINK_OK) {
        char sentence[BLINK_ERROR_TEXT_BYTES + 1];
        snprintf(sentence, sizeof(sentence), "%s\n", blink_error_text());
        return send_sentence(exchange, "503 Service Unavailable", sentence);
    }
    blink_result_t result =
        send_answer(exchange, "200 OK",
                    exchange->is_openmetrics ? "application/openmetrics-text; version=1.0.0"
                                             : "text/plain; version=0.0.4",
                    text, bytes);
    free(text);
    return result;
}

blink_result_t http_answer(int socket_fd, http_render_t *render, void *context)
{
    exchange_t exchange = {.fd = socket_fd};
    const char *status = NULL;
    BLINK_TRY(check_is_socket(socket_fd));
    BLINK_TRY(read_head(&exchange, &status));
    if (!status)
        status = parse_head(&exchange);
    if (status)
        return send_sentence(&exchange, status, "The metrics are at /metrics, for GET and HEAD.\n");
    return send_metrics(&exchange, render, context);
}

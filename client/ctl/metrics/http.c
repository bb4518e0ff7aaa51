#include "ctl/metrics/http.h"

#include "ctl/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_MOST_BYTES 8192u
#define REQUEST_MS         5000u
#define ANSWER_MS          10000u
#define HEAD_BYTES         256u

typedef struct exchange {
    connection_t connection;
    char request[REQUEST_MOST_BYTES + 1]; /* its head, ended by a NUL */
    bool head_only, is_openmetrics;
} exchange_t;

static blink_result_t send_answer(exchange_t *exchange, const char *status, const char *type,
                                  const char *text, size_t bytes)
{
    char head[HEAD_BYTES];
    int head_bytes = snprintf(head, sizeof(head),
                              "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
                              "Connection: close\r\n\r\n",
                              status, type, bytes);
    connection_limit(&exchange->connection, ANSWER_MS);
    BLINK_TRY(connection_send(&exchange->connection, head, (size_t)head_bytes));
    return exchange->head_only ? BLINK_OK : connection_send(&exchange->connection, text, bytes);
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
    connection_limit(&exchange->connection, REQUEST_MS);
    while (!memmem(exchange->request, count, "\r\n\r\n", 4)) {
        if (count == REQUEST_MOST_BYTES) {
            *status = "431 Request Header Fields Too Large";
            return BLINK_OK;
        }
        size_t got;
        blink_result_t result = connection_receive(&exchange->connection, exchange->request + count,
                                                   REQUEST_MOST_BYTES - count, &got);
        if (result == BLINK_ERR_TIMEOUT) {
            *status = "408 Request Timeout";
            return BLINK_OK;
        }
        BLINK_TRY(result);
        if (got == 0)
            return BLINK_FAIL(BLINK_ERR_SYSTEM, "the other end has gone before its request was whole");
        count += got;
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
    exchange_t exchange = {.connection.fd = socket_fd};
    const char *status = NULL;
    BLINK_TRY(connection_check(socket_fd, "--http", "blinkd-metrics.socket", "the metrics are printed"));
    BLINK_TRY(read_head(&exchange, &status));
    if (!status)
        status = parse_head(&exchange);
    if (status)
        return send_sentence(&exchange, status, "The metrics are at /metrics, for GET and HEAD.\n");
    return send_metrics(&exchange, render, context);
}

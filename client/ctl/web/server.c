#include "ctl/web/server.h"

#include "base/value.h"
#include "ctl/web/page.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MOST 32u
#define IDLE_S           30u

struct server {
    struct MHD_Daemon *http;
    answers_t answers;
    char key[SERVER_KEY_BYTES];
};

/* ---- responses ---- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    /* The page has its script and its style in itself, and loads nothing from elsewhere. */
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
                            "style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    return respond(
        connection, status, "text/plain; charset=utf-8",
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY));
}

static unsigned status_of(blink_result_t result)
{
    switch (result) {
    case BLINK_ERR_NOT_FOUND:
    case BLINK_ERR_UNSUPPORTED:
        return MHD_HTTP_NOT_FOUND;
    case BLINK_ERR_INVALID_ARGUMENT:
        return MHD_HTTP_BAD_REQUEST;
    case BLINK_ERR_CONNECT:
    case BLINK_ERR_DAEMON_LOST:
    case BLINK_ERR_TIMEOUT:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* A text that has been made, or the sentence of why not. Takes the text. */
static enum MHD_Result respond_made(struct MHD_Connection *connection, blink_result_t made, const char *type,
                                    char *text)
{
    if (made != BLINK_OK)
        return respond_text(connection, status_of(made), blink_error_text());
    return respond(connection, MHD_HTTP_OK, type,
                   MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

/* ---- requests ---- */

/* The number after "comm=", or 0 if it is not there. */
static blink_result_t take_comm(struct MHD_Connection *connection, uint32_t *comm)
{
    uint64_t number = 0;
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "comm");
    if (text && !value_parse_number(text, UINT32_MAX, &number))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "comm=%.40s: the number of a communicator", text);
    *comm = (uint32_t)number;
    return BLINK_OK;
}

static enum MHD_Result serve_picture(server_t *server, struct MHD_Connection *connection,
                                     blink_result_t (*make)(answers_t *, uint32_t, char **))
{
    uint32_t comm;
    char *text = NULL;
    blink_result_t result = take_comm(connection, &comm);
    if (result == BLINK_OK)
        result = make(&server->answers, comm, &text);
    return respond_made(connection, result, "image/svg+xml", text);
}

static enum MHD_Result serve_top(server_t *server, struct MHD_Connection *connection)
{
    char *text = NULL;
    blink_result_t result = answers_top(&server->answers, &text);
    return respond_made(connection, result, "application/json", text);
}

static enum MHD_Result serve_page(struct MHD_Connection *connection)
{
    return respond(connection, MHD_HTTP_OK, "text/html; charset=utf-8",
                   MHD_create_response_from_buffer((size_t)(web_page_end - web_page_begin),
                                                   (void *)(uintptr_t)web_page_begin,
                                                   MHD_RESPMEM_PERSISTENT));
}

/* Compares in the same time wherever the two differ. */
static bool equals_key(const char *key, const char *given, size_t bytes)
{
    unsigned char difference = 0;
    for (size_t i = 0; i < bytes; i++)
        difference |= (unsigned char)(key[i] ^ given[i]);
    return difference == 0;
}

/* What comes after the key in a path, or NULL if that is not the server's. */
static const char *after_key(const server_t *server, const char *path)
{
    size_t bytes = strlen(server->key);
    if (bytes == 0)
        return path;
    if (strlen(path) < bytes + 1 || !equals_key(server->key, path + 1, bytes))
        return NULL;
    return path + 1 + bytes;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    server_t *server = context;
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    const char *what = after_key(server, path);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return respond_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "there is only something to read here");
    if (what && *what == '\0')
        return respond_text(connection, MHD_HTTP_NOT_FOUND, "the address ends with /, as it was printed");
    if (!what)
        return respond_text(connection, MHD_HTTP_FORBIDDEN,
                            "the address lacks the key that blinkctl web has printed");
    if (strcmp(what, "/") == 0)
        return serve_page(connection);
    if (strcmp(what, "/top.json") == 0)
        return serve_top(server, connection);
    if (strcmp(what, "/topology.svg") == 0)
        return serve_picture(server, connection, answers_topology);
    if (strcmp(what, "/plan.svg") == 0)
        return serve_picture(server, connection, answers_plan);
    return respond_text(connection, MHD_HTTP_NOT_FOUND, "there is /, /top.json, /topology.svg and /plan.svg");
}

/* ---- its life ---- */

blink_result_t server_start(const ctl_options_t *options, int listener, const char *key, server_t **started)
{
    server_t *server = calloc(1, sizeof(*server));
    if (!server)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a server");
    server->answers.options = options;
    snprintf(server->key, sizeof(server->key), "%s", key);
    server->http = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, handle,
                                    server, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
                                    CONNECTIONS_MOST, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
    if (!server->http) {
        free(server);
        return BLINK_FAIL_ERRNO("start an HTTP server");
    }
    *started = server;
    return BLINK_OK;
}

void server_stop(server_t *server)
{
    MHD_stop_daemon(server->http);
    answers_fini(&server->answers);
    free(server);
}

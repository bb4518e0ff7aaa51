/*
 * Requests of the tools, one at a time on a blocking socket, with a limit on how long the daemon may think.
 */
#include "tools/query.h"

#include "environment.h"
#include "frame.h"
#include "tools/pages.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX_S 10

/* Whatever a daemon says, an answer has an end. */
#define PAGES_MAX        16384u
#define ANSWER_MAX_BYTES (512u << 20)

const char *query_socket_path(const char *given)
{
    const char *path = given ? given : environment_get(BLINK_SOCKET_ENV);
    return path && *path ? path : BLINK_SOCKET_DEFAULT;
}

static blink_result_t send_request(const query_t *query, const Blinkwire__Request *request)
{
    uint8_t packed[512]; /* a Query with a host's name is the longest */
    size_t bytes = blinkwire__request__get_packed_size(request);
    if (bytes > sizeof(packed))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a request of %zu bytes is longer than %zu", bytes,
                          sizeof(packed));
    blinkwire__request__pack(request, packed);
    return frame_send(query->socket_fd, packed, bytes, NULL, 0);
}

static blink_result_t receive_reply(query_t *query, Blinkwire__Reply **reply)
{
    frame_t frame;
    blink_result_t result = frame_receive(query->socket_fd, &frame);
    if (result == BLINK_ERR_TIMEOUT)
        return BLINK_FAIL(BLINK_ERR_TIMEOUT, "the daemon did not answer within %d s", ANSWER_MAX_S);
    BLINK_TRY(result);
    *reply = blinkwire__reply__unpack(NULL, frame.byte_count, frame.bytes);
    uint32_t byte_count = frame.byte_count;
    query->answer_bytes += byte_count;
    frame_release(&frame);
    if (!*reply)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon sent %u bytes that are no reply", byte_count);
    return BLINK_OK;
}

static blink_result_t check_reply(const query_t *query, const Blinkwire__Reply *reply,
                                  Blinkwire__Reply__BodyCase body)
{
    if (reply->error) {
        uint32_t code = reply->error->code;
        bool known = code != BLINK_OK && code <= BLINK_ERR_INTERNAL;
        return BLINK_FAIL(known ? (blink_result_t)code : BLINK_ERR_INTERNAL, "%s", reply->error->text);
    }
    if (reply->id != query->last_id || reply->body_case != body)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon answered request %lu with something else",
                          (unsigned long)query->last_id);
    return BLINK_OK;
}

static blink_result_t call(query_t *query, Blinkwire__Request *request, Blinkwire__Reply__BodyCase body,
                           Blinkwire__Reply **reply)
{
    request->id = ++query->last_id;
    /* A daemon that serves no more connections says so before it reads, and closes. */
    blink_result_t result = send_request(query, request);
    if (result != BLINK_OK && result != BLINK_ERR_DAEMON_LOST)
        return result;
    BLINK_TRY(receive_reply(query, reply));
    result = check_reply(query, *reply, body);
    if (result != BLINK_OK)
        blinkwire__reply__free_unpacked(*reply, NULL);
    return result;
}

blink_result_t query_open(const char *socket_path, const char *program, query_t *query)
{
    *query = (query_t){.socket_fd = -1};
    BLINK_TRY(frame_connect(socket_path, ANSWER_MAX_S, &query->socket_fd));
    Blinkwire__Hello hello = BLINKWIRE__HELLO__INIT;
    hello.version_min = BLINK_WIRE_VERSION_MIN;
    hello.version_max = BLINK_WIRE_VERSION_MAX;
    hello.program = (char *)program;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_HELLO;
    request.hello = &hello;
    Blinkwire__Reply *reply;
    blink_result_t result = call(query, &request, BLINKWIRE__REPLY__BODY_HELLO, &reply);
    if (result != BLINK_OK) {
        query_close(query);
        return result;
    }
    snprintf(query->daemon_version, sizeof(query->daemon_version), "%s", reply->hello->daemon_version);
    blinkwire__reply__free_unpacked(reply, NULL);
    return BLINK_OK;
}

void query_close(query_t *query)
{
    close(query->socket_fd);
    query->socket_fd = -1;
}

static blink_result_t ask_page(query_t *query, const Blinkwire__Query *question, uint64_t page,
                               Blinkwire__Reply **reply)
{
    Blinkwire__Query body = *question;
    body.page = page;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_QUERY;
    request.query = &body;
    return call(query, &request, BLINKWIRE__REPLY__BODY_QUERY, reply);
}

/* An older daemon of this host overlooks that another host is asked, and answers for itself. */
static blink_result_t check_host(const query_t *query, const Blinkwire__Query *question,
                                 const Blinkwire__QueryReply *answer)
{
    if (!*question->host || strcmp(answer->host, question->host) == 0)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                      "the daemon of this host is blinkd %s, which asks no other hosts",
                      query->daemon_version);
}

static blink_result_t check_size(const query_t *query, uint32_t page_count)
{
    if (page_count <= PAGES_MAX && query->answer_bytes <= ANSWER_MAX_BYTES)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the answer does not end: it has more than %u pages or %u bytes",
                      PAGES_MAX, ANSWER_MAX_BYTES);
}

/* The pages behind the first. */
static blink_result_t ask_rest(query_t *query, const Blinkwire__Query *question,
                               Blinkwire__QueryReply *answer)
{
    uint32_t page_count = 1;
    for (uint64_t next = answer->next_page; next > 0;) {
        Blinkwire__Reply *page;
        BLINK_TRY(check_size(query, ++page_count));
        BLINK_TRY(ask_page(query, question, next, &page));
        next = page->query->next_page;
        blink_result_t result = pages_append(answer, page->query);
        blinkwire__reply__free_unpacked(page, NULL);
        BLINK_TRY(result);
    }
    return BLINK_OK;
}

blink_result_t query_ask_for(query_t *query, const Blinkwire__Query *question, Blinkwire__Reply **reply)
{
    Blinkwire__Reply *first;
    query->answer_bytes = 0;
    *reply = NULL;
    BLINK_TRY(ask_page(query, question, 0, &first));
    blink_result_t result = check_host(query, question, first->query);
    if (result == BLINK_OK)
        result = ask_rest(query, question, first->query);
    if (result != BLINK_OK) {
        blinkwire__reply__free_unpacked(first, NULL);
        return result;
    }
    pages_settle(first->query);
    *reply = first;
    return BLINK_OK;
}

blink_result_t query_ask(query_t *query, Blinkwire__QueryKind kind, Blinkwire__Reply **reply)
{
    Blinkwire__Query question = BLINKWIRE__QUERY__INIT;
    question.kind = kind;
    return query_ask_for(query, &question, reply);
}

blink_result_t query_once(const char *socket_path, const char *program, const Blinkwire__Query *question,
                          Blinkwire__Reply **reply)
{
    query_t query;
    BLINK_TRY(query_open(socket_path, program, &query));
    blink_result_t result = query_ask_for(&query, question, reply);
    query_close(&query);
    return result;
}

#include "ctl/ras/protocol.h"

#include "ctl/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROTOCOL         "2" /* what NCCL 2.30 answers */
#define LINE_MOST_BYTES  1024u
#define LINES_MOST       64u
#define QUESTIONS_MS     5000u
#define ANSWER_MS        10000u
#define REPLY_MOST_BYTES (LINE_MOST_BYTES + 64u)

typedef struct talk {
    connection_t connection;
    char received[LINE_MOST_BYTES + 1];
    size_t count; /* of bytes received and not taken */
    bool json;
    ras_render_t *render;
    void *context;
} talk_t;

static blink_result_t reply(const talk_t *talk, const char *first, const char *second)
{
    char line[REPLY_MOST_BYTES];
    int bytes = snprintf(line, sizeof(line), "%s%s\n", first, second);
    return connection_send(&talk->connection, line, (size_t)bytes);
}

/* Take the next line without its end. *is_there is false if the other end has closed. */
static blink_result_t next_line(talk_t *talk, char line[LINE_MOST_BYTES + 1], bool *is_there)
{
    const char *end;
    while (!(end = memchr(talk->received, '\n', talk->count))) {
        size_t got;
        if (talk->count == LINE_MOST_BYTES)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a line of more than %u bytes", LINE_MOST_BYTES);
        BLINK_TRY(connection_receive(&talk->connection, talk->received + talk->count,
                                     LINE_MOST_BYTES - talk->count, &got));
        talk->count += got;
        *is_there = got > 0;
        if (got == 0)
            return BLINK_OK;
    }
    size_t bytes = (size_t)(end - talk->received);
    memcpy(line, talk->received, bytes);
    line[bytes] = '\0';
    if (bytes > 0 && line[bytes - 1] == '\r')
        line[bytes - 1] = '\0';
    talk->count -= bytes + 1;
    memmove(talk->received, end + 1, talk->count);
    *is_there = true;
    return BLINK_OK;
}

/* ---- what is said ---- */

/* What follows the words that the line begins with; NULL: it begins with others. */
static const char *after(const char *line, const char *words)
{
    size_t bytes = strlen(words);
    return strncasecmp(line, words, bytes) == 0 ? line + bytes : NULL;
}

/* The daemon answers at once or not at all, so that there is nothing for which the time-out would be kept. */
static blink_result_t take_timeout(const talk_t *talk, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    bool is_time = end != text && *end == '\0' && seconds >= 0 && seconds < 1e9;
    return is_time ? reply(talk, "OK", "") : reply(talk, "ERROR: no time-out in seconds: ", text);
}

static blink_result_t take_format(talk_t *talk, const char *text)
{
    bool json = strcasecmp(text, "json") == 0;
    if (!json && strcasecmp(text, "text") != 0)
        return reply(talk, "ERROR: the format is text or json, not ", text);
    talk->json = json;
    return reply(talk, "OK", "");
}

static blink_result_t send_report(talk_t *talk, bool verbose)
{
    char *text;
    size_t bytes;
    blink_result_t result = talk->render(talk->context, talk->json, verbose, &text, &bytes);
    connection_limit(&talk->connection, ANSWER_MS);
    if (result != BLINK_OK)
        return reply(talk, "ERROR: ", blink_error_text());
    result = connection_send(&talk->connection, text, bytes);
    free(text);
    return result;
}

/* *is_over: the line was the question, and has been answered. */
static blink_result_t take_line(talk_t *talk, const char *line, bool *is_over)
{
    const char *rest;
    bool verbose = strcasecmp(line, "verbose status") == 0;
    *is_over = verbose || strcasecmp(line, "status") == 0;
    if (*is_over)
        return send_report(talk, verbose);
    if (after(line, "client protocol "))
        return reply(talk, "SERVER PROTOCOL ", PROTOCOL);
    if ((rest = after(line, "timeout ")))
        return take_timeout(talk, rest);
    if ((rest = after(line, "set format ")))
        return take_format(talk, rest);
    return reply(talk, "ERROR: blinkd does not know the command ", line);
}

blink_result_t ras_answer(int socket_fd, ras_render_t *render, void *context)
{
    talk_t talk = {.connection.fd = socket_fd, .render = render, .context = context};
    char line[LINE_MOST_BYTES + 1];
    bool is_there = true, is_over = false;
    BLINK_TRY(connection_check(socket_fd, "--serve", "blinkd-ras.socket", "the report is printed"));
    connection_limit(&talk.connection, QUESTIONS_MS);
    for (unsigned lines = 0; !is_over; lines++) {
        if (lines == LINES_MOST)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "more than %u lines without a question",
                              LINES_MOST);
        BLINK_TRY(next_line(&talk, line, &is_there));
        if (!is_there)
            return BLINK_OK;
        BLINK_TRY(take_line(&talk, line, &is_over));
    }
    return BLINK_OK;
}

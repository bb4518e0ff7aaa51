/*
 * Fuzzes the messages of two daemons: what is accepted takes memory in proportion, and a Hello that is
 * accepted is written as bytes that read alike.
 */
#include "net/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: %s: %s\n", what, blink_error_text());
    abort();
}

static void check_hello(const Blinkpeer__Hello *message)
{
    hello_t hello, again;
    uint8_t bytes[GREETING_MOST_BYTES], bytes_again[GREETING_MOST_BYTES];
    const Blinkpeer__Message *parsed;
    arena_t arena = {0};
    if (hello_read(message, &hello) != BLINK_OK)
        return;
    size_t byte_count = hello_pack(&hello, bytes);
    must(message_parse(bytes, byte_count, &arena, &parsed) == BLINK_OK, "what is written is read");
    must(hello_read(parsed->hello, &again) == BLINK_OK, "and accepted");
    must(hello_pack(&again, bytes_again) == byte_count && memcmp(bytes, bytes_again, byte_count) == 0,
         "and is the same");
    arena_free(&arena);
}

static void must_be_printable(const char *text, const char *what)
{
    for (; *text; text++)
        must(*text >= ' ' && *text <= '~', what);
}

static void check_question(const Blinkpeer__Query *question)
{
    const Blinkwire__Query *query;
    arena_t arena = {0};
    (void)message_parse_query(&question->request, &arena, &query);
    must(arena.bytes <= (64u << 10) + 64 * question->request.len, "a question's memory in proportion");
    arena_free(&arena);
}

static void check_answer(const Blinkpeer__QueryReply *answer)
{
    const Blinkwire__Reply *reply;
    arena_t arena = {0};
    if (message_parse_reply(&answer->reply, &arena, &reply) == BLINK_OK) {
        if (reply->error)
            must_be_printable(reply->error->text, "an error is printable");
        for (size_t i = 0; !reply->error && i < reply->query->n_links; i++)
            must_be_printable(reply->query->links[i]->from, "what a link has is printable");
    }
    must(arena.bytes <= (64u << 10) + 128 * answer->reply.len, "an answer's memory in proportion");
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const Blinkpeer__Message *message;
    arena_t arena = {0};
    if (message_parse(data, bytes, &arena, &message) == BLINK_OK) {
        if (message->body_case == BLINKPEER__MESSAGE__BODY_HELLO)
            check_hello(message->hello);
        if (message->body_case == BLINKPEER__MESSAGE__BODY_BYE)
            must_be_printable(message->bye->text, "the last words are printable");
        if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY)
            check_question(message->query);
        if (message->body_case == BLINKPEER__MESSAGE__BODY_QUERY_REPLY)
            check_answer(message->query_reply);
    }
    must(arena.bytes <= (64u << 10) + 64 * bytes, "memory in proportion");
    arena_free(&arena);
    return 0;
}

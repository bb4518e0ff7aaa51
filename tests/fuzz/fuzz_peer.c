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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const Blinkpeer__Message *message;
    arena_t arena = {0};
    if (message_parse(data, bytes, &arena, &message) == BLINK_OK) {
        if (message->body_case == BLINKPEER__MESSAGE__BODY_HELLO)
            check_hello(message->hello);
        if (message->body_case == BLINKPEER__MESSAGE__BODY_BYE) {
            for (const char *c = message->bye->text; *c; c++)
                must(*c >= ' ' && *c <= '~', "the last words are printable");
        }
    }
    must(arena.bytes <= (64u << 10) + 64 * bytes, "memory in proportion");
    arena_free(&arena);
    return 0;
}

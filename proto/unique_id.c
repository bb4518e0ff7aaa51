/* Ids as bytes and as text. */
#include "unique_id.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

blink_result_t unique_id_read(const void *bytes, size_t byte_count, unique_id_t *id)
{
    if (byte_count != UNIQUE_ID_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "a communicator id of %zu bytes, not %u", byte_count,
                          UNIQUE_ID_BYTES);
    memcpy(id, bytes, sizeof(*id));
    if (id->version != UNIQUE_ID_VERSION)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "a communicator id of version %u, not %u: all ranks need the id that one of them "
                          "got from blink_get_unique_id()",
                          id->version, UNIQUE_ID_VERSION);
    if (id->flags != 0 || id->reserved != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "a communicator id of version %u with flags %#x and %#x, which have to be 0",
                          id->version, id->flags, id->reserved);
    return BLINK_OK;
}

static void read_digits(const char *text, size_t byte_count, uint8_t *bytes)
{
    for (size_t i = 0; i < byte_count; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

blink_result_t unique_id_parse(const char *text, const char *source, unique_id_t *id)
{
    uint8_t bytes[UNIQUE_ID_BYTES];
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    const char *end = text + digits;
    bool is_nonce = digits == 2 * sizeof(id->nonce), is_id = digits == 2 * sizeof(bytes);
    if ((!is_nonce && !is_id) || (strcmp(end, "") != 0 && strcmp(end, "\n") != 0))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s: neither the %zu hexadecimal digits of an id nor the %zu of a nonce", source,
                          2 * sizeof(bytes), 2 * sizeof(id->nonce));
    if (is_id) {
        read_digits(text, sizeof(bytes), bytes);
        return unique_id_read(bytes, sizeof(bytes), id);
    }
    *id = (unique_id_t){.version = UNIQUE_ID_VERSION};
    read_digits(text, sizeof(id->nonce), id->nonce);
    return BLINK_OK;
}

void unique_id_write(const unique_id_t *id, char text[UNIQUE_ID_TEXT_BYTES])
{
    uint8_t bytes[UNIQUE_ID_BYTES];
    memcpy(bytes, id, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/*
 * The id under which the ranks of a communicator gather (blink_unique_id_t): where they gather, and a nonce
 * that nobody guesses. The home is the daemon that the ranks' daemons turn to. An id without a home is for
 * ranks that are all on one host. Programs hand ids around as bytes; who gathers compares all of them.
 */
#ifndef BLINK_UNIQUE_ID_H
#define BLINK_UNIQUE_ID_H

#include "error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNIQUE_ID_VERSION    1u
#define UNIQUE_ID_BYTES      64u
#define UNIQUE_ID_HOME_BYTES 48u /* all that comes before the nonce: the same in all ids of a daemon */
#define UNIQUE_ID_ADDRESSES  2u

/* Numbers are little-endian, as on every machine that blinkd runs on. */
typedef struct unique_id {
    uint8_t version;
    uint8_t flags;     /* 0 */
    uint16_t port;     /* where the home listens; 0: the id has no home */
    uint32_t reserved; /* 0 */
    uint64_t instance; /* of the home's process: it ends with the daemon, whoever listens there afterwards */
    uint8_t addresses[UNIQUE_ID_ADDRESSES][16]; /* IPv6, or IPv4 mapped; of zeros: no more addresses */
    uint8_t nonce[16];
} unique_id_t;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the numbers of an id are little-endian");
static_assert(sizeof(unique_id_t) == UNIQUE_ID_BYTES, "hosts exchange it");
static_assert(offsetof(unique_id_t, port) == 2, "hosts exchange it");
static_assert(offsetof(unique_id_t, instance) == 8, "hosts exchange it");
static_assert(offsetof(unique_id_t, addresses) == 16, "hosts exchange it");
static_assert(offsetof(unique_id_t, nonce) == UNIQUE_ID_HOME_BYTES, "hosts exchange it");

/** Whether the bytes of an id name a home. */
static inline bool unique_id_has_home(const uint8_t bytes[UNIQUE_ID_BYTES])
{
    return bytes[offsetof(unique_id_t, port)] || bytes[offsetof(unique_id_t, port) + 1];
}

/** Take an id out of bytes that came from somebody else. Errors: INVALID_ARGUMENT (another length, another
 * version, or words that have to be 0 are not). */
blink_result_t unique_id_read(const void *bytes, size_t byte_count, unique_id_t *id);

/* Of an id as text, with its NUL: hexadecimal digits. */
#define UNIQUE_ID_TEXT_BYTES (2 * UNIQUE_ID_BYTES + 1)

/** Read the text of an id, or of a nonce alone (32 digits), which makes an id without a home. A line feed may
 * follow. Errors: INVALID_ARGUMENT, which names `source`; those of unique_id_read(). */
blink_result_t unique_id_parse(const char *text, const char *source, unique_id_t *id);

void unique_id_write(const unique_id_t *id, char text[UNIQUE_ID_TEXT_BYTES]);

#endif

/*
 * The hash of a communicator's id. Nobody who chooses ids can choose their hashes if the secrets are random.
 */
#ifndef BLINK_ID_HASH_H
#define BLINK_ID_HASH_H

#include "base/table.h"
#include "unique_id.h"

#include <string.h>

static inline uint64_t id_hash(const uint8_t id[UNIQUE_ID_BYTES], const uint64_t secrets[2])
{
    uint64_t words[UNIQUE_ID_BYTES / sizeof(uint64_t)], hash = 0;
    memcpy(words, id, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        hash = table_hash(hash ^ words[i] ^ secrets[i % 2]);
    return hash;
}

#endif

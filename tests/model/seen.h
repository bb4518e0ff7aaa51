/* A set of hashes of states that a search has met. Two states with one hash count as one: of a million states
 * that happens once in thirty million searches. */
#ifndef SEEN_H
#define SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct seen {
    uint64_t *hashes; /* open addressing; 0: free */
    uint64_t count, capacity;
} seen_t;

static inline uint64_t seen_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* The hash of so many bytes; what is left of the last eight is not looked at. */
static inline uint64_t seen_hash(const void *bytes, size_t count)
{
    uint64_t hash = 1, word;
    for (size_t at = 0; at + sizeof(word) <= count; at += sizeof(word)) {
        memcpy(&word, (const char *)bytes + at, sizeof(word));
        hash = seen_mix(hash, word + at);
    }
    return hash;
}

static inline uint64_t *seen_place(const seen_t *seen, uint64_t hash)
{
    uint64_t at = hash & (seen->capacity - 1);
    while (seen->hashes[at] && seen->hashes[at] != hash)
        at = (at + 1) & (seen->capacity - 1);
    return &seen->hashes[at];
}

static inline void seen_grow(seen_t *seen)
{
    seen_t grown = {.count = seen->count, .capacity = seen->capacity ? seen->capacity * 4 : 1u << 16};
    grown.hashes = calloc(grown.capacity, sizeof(*grown.hashes));
    if (!grown.hashes)
        abort();
    for (uint64_t i = 0; i < seen->capacity; i++) {
        if (seen->hashes[i])
            *seen_place(&grown, seen->hashes[i]) = seen->hashes[i];
    }
    free(seen->hashes);
    *seen = grown;
}

/* Whether the hash is new. A set of zeros is an empty one; its end is free(seen->hashes). */
static inline bool seen_add(seen_t *seen, uint64_t hash)
{
    if (2 * seen->count >= seen->capacity)
        seen_grow(seen);
    hash = hash ? hash : 1;
    uint64_t *place = seen_place(seen, hash);
    if (*place)
        return false;
    *place = hash;
    seen->count++;
    return true;
}

#endif

/* The formats of slot_format.h. */
#include "exec/host/slot_format.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum { LL_DATA_BYTES = 4, LINE_DATA_BYTES = 120, LINE_WORDS = 16 };

static_assert(SLOT_GRAIN_BYTES % LL_DATA_BYTES == 0 && SLOT_GRAIN_BYTES % LINE_DATA_BYTES == 0,
              "grains fill words and lines");

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- LL ---- */

static void store_words(_Atomic uint64_t *words, const char *data, uint64_t bytes, uint32_t epoch)
{
    for (uint64_t at = 0; at < bytes; at += LL_DATA_BYTES) {
        uint32_t part = 0;
        memcpy(&part, data + at, least(bytes - at, LL_DATA_BYTES));
        /* Release although data and epoch are one store: a reader that sees it may overwrite, in place, what
         * the writer read before. Pairs with the load in words_arrived(). */
        atomic_store_explicit(words++, (uint64_t)epoch << 32 | part, memory_order_release);
    }
}

static bool words_arrived(const _Atomic uint64_t *words, uint64_t bytes, uint32_t epoch)
{
    for (uint64_t at = 0; at < bytes; at += LL_DATA_BYTES) {
        /* Acquire: pairs with the store in store_words(). */
        if (atomic_load_explicit(words++, memory_order_acquire) >> 32 != epoch)
            return false;
    }
    return true;
}

static void load_words(const _Atomic uint64_t *words, char *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LL_DATA_BYTES) {
        /* Relaxed: words_arrived() has seen it. */
        uint32_t part = (uint32_t)atomic_load_explicit(words++, memory_order_relaxed);
        memcpy(data + at, &part, least(bytes - at, LL_DATA_BYTES));
    }
}

/* ---- LL128 ---- */

static void store_lines(char *line, const char *data, uint64_t bytes, uint64_t epoch)
{
    for (uint64_t at = 0; at < bytes; at += LINE_DATA_BYTES, line += LINE_WORDS * sizeof(uint64_t)) {
        memcpy(line, data + at, least(bytes - at, LINE_DATA_BYTES));
        /* Release: pairs with the load in lines_arrived(). */
        atomic_store_explicit((_Atomic uint64_t *)(void *)(line + LINE_DATA_BYTES), epoch,
                              memory_order_release);
    }
}

static bool lines_arrived(const char *line, uint64_t bytes, uint64_t epoch)
{
    for (uint64_t at = 0; at < bytes; at += LINE_DATA_BYTES, line += LINE_WORDS * sizeof(uint64_t)) {
        const _Atomic uint64_t *flag = (const _Atomic uint64_t *)(const void *)(line + LINE_DATA_BYTES);
        /* Acquire: pairs with the store in store_lines(). */
        if (atomic_load_explicit(flag, memory_order_acquire) != epoch)
            return false;
    }
    return true;
}

static void load_lines(const char *line, char *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LINE_DATA_BYTES, line += LINE_WORDS * sizeof(uint64_t))
        memcpy(data + at, line, least(bytes - at, LINE_DATA_BYTES));
}

/* ---- either ---- */

void slot_store(blink_protocol_t protocol, void *slot, const void *data, uint64_t bytes, uint64_t epoch)
{
    if (protocol == BLINK_PROTOCOL_LL)
        store_words(slot, data, bytes, (uint32_t)epoch);
    else
        store_lines(slot, data, bytes, epoch);
}

bool slot_arrived(blink_protocol_t protocol, const void *slot, uint64_t bytes, uint64_t epoch)
{
    return protocol == BLINK_PROTOCOL_LL ? words_arrived(slot, bytes, (uint32_t)epoch)
                                         : lines_arrived(slot, bytes, epoch);
}

void slot_load(blink_protocol_t protocol, const void *slot, void *data, uint64_t bytes)
{
    if (protocol == BLINK_PROTOCOL_LL)
        load_words(slot, data, bytes);
    else
        load_lines(slot, data, bytes);
}

/*
 * Numbers as people like to read and write them, the same in blinkctl and blink-perf.
 */
#ifndef BLINK_HUMAN_H
#define BLINK_HUMAN_H

#include <stdbool.h>
#include <stdint.h>

#define HUMAN_BYTES 32

/** About four significant digits without an exponent: "171.4", "0.0438". Returns `text`. */
const char *human_number(double value, char text[HUMAN_BYTES]);

/** Bytes with a decimal unit: "512 B", "67.11 MB". Returns `text`. */
const char *human_bytes(uint64_t bytes, char text[HUMAN_BYTES]);

/** Bytes as human_parse_bytes() reads them, in the largest unit that divides them: "64K", "1G", "1000".
 * Returns `text`. */
const char *human_size(uint64_t bytes, char text[HUMAN_BYTES]);

/** Seconds as days, hours, minutes: "1d 2h 3m", "4m 5s", "6.7 s". Returns `text`. */
const char *human_duration(double seconds, char text[HUMAN_BYTES]);

/** A share of 1 as a bar of `width` characters, "###.......", of at most HUMAN_BYTES - 1. Returns `text`. */
const char *human_bar(double share, unsigned width, char text[HUMAN_BYTES]);

/** Decimal digits and nothing else, at most `most`; else false and *number untouched. */
bool human_parse_number(const char *text, uint64_t most, uint64_t *number);

/** A size such as 512, 64K or 1G: K, M, G (or k, m, g) for powers of 1024, below 2^63. */
bool human_parse_bytes(const char *text, uint64_t *bytes);

#endif

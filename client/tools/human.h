/*
 * Numbers as people like to read them, the same in blinkctl and blink-perf.
 */
#ifndef BLINK_HUMAN_H
#define BLINK_HUMAN_H

#include <stdint.h>

#define HUMAN_BYTES 32

/** About four significant digits without an exponent: "171.4", "0.0438". Returns `text`. */
const char *human_number(double value, char text[HUMAN_BYTES]);

/** The same for a column of numbers whose decimal points stand below one another: `width` characters, of
 * which the point and `decimals` digits are the last, in part blank. Returns `text`. */
const char *human_column(double value, unsigned width, unsigned decimals, char text[HUMAN_BYTES]);

/** Bytes in the units of value_parse_bytes(): "512 B", "64 KiB", "1.50 MiB". Returns `text`. */
const char *human_bytes(uint64_t bytes, char text[HUMAN_BYTES]);

/** Bytes as value_parse_bytes() reads them, in the largest unit that divides them: "64K", "1G", "1000".
 * Returns `text`. */
const char *human_size(uint64_t bytes, char text[HUMAN_BYTES]);

/** What a noun has behind it after a number: "" for one, else "s". */
const char *human_plural(uint64_t count);

/** Seconds as days, hours, minutes: "1d 2h 3m", "4m 5s", "6.7 s". Returns `text`. */
const char *human_duration(double seconds, char text[HUMAN_BYTES]);

/** A share of 1 as a bar of `width` characters, "###.......", of at most HUMAN_BYTES - 1. Returns `text`. */
const char *human_bar(double share, unsigned width, char text[HUMAN_BYTES]);

/** "2026-11-29 01:47:54.503": a time since 1970, in this process's time zone. Returns `text`. */
const char *human_time(uint64_t time_us, char text[HUMAN_BYTES]);

#endif

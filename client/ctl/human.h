/*
 * Numbers as people like to read them, the same in blinkctl and blink-perf.
 */
#ifndef BLINK_HUMAN_H
#define BLINK_HUMAN_H

#include <stdint.h>

#define HUMAN_BYTES 32

/** About four significant digits without an exponent: "171.4", "0.0438". Returns `text`. */
const char *human_number(double value, char text[HUMAN_BYTES]);

/** Bytes with a decimal unit: "512 B", "67.11 MB". Returns `text`. */
const char *human_bytes(uint64_t bytes, char text[HUMAN_BYTES]);

/** Seconds as days, hours, minutes: "1d 2h 3m", "4m 5s", "6.7 s". Returns `text`. */
const char *human_duration(double seconds, char text[HUMAN_BYTES]);

#endif

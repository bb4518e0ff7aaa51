/*
 * Values as people write them in configuration files and on command lines: one parser and one meaning for
 * each kind, in every program.
 */
#ifndef BLINK_BASE_VALUE_H
#define BLINK_BASE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* How sizes may be written, for messages. */
#define VALUE_BYTES_EXAMPLES "a size such as 512, 64K, 64KiB or 1G (K, M, G and T are powers of 1024)"

/* Of an item of a list, with its NUL. */
#define VALUE_ITEM_BYTES 128

/** Decimal digits and nothing else, at most `most`; else false and *number untouched. */
bool value_parse_number(const char *text, uint64_t most, uint64_t *number);

/** A size below 2^63: digits, and K, M, G or T for powers of 1024, in either case, with or without iB or B
 * behind it: 64K, 64KB, 64KiB and 64kib are 65536. A space may stand before the unit. */
bool value_parse_bytes(const char *text, uint64_t *bytes);

/** A number above 0 and up to `most`. */
bool value_parse_positive(const char *text, double most, double *number);

/** One number or a range of two, "5" or "0-3", each at most `most`. The first may be the greater one. */
bool value_parse_range(const char *text, uint32_t most, uint32_t *first, uint32_t *last);

/** Copy the next item of a list with commas between its items; what is too long is left empty. False if there
 * is none. *list moves on and is NULL after the last one. */
bool value_next_item(const char **list, char item[VALUE_ITEM_BYTES]);

#endif

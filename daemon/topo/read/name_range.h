/*
 * Names of many things in one word: "leaf[1-4]" are leaf1 to leaf4, and "n*" is whatever begins with an n. A
 * number in a name is all the digits that adjoin: n[1-4] is not n12. A range whose first number begins with
 * a 0 means numbers of as many digits: n[01-16].
 */
#ifndef BLINK_TOPO_NAME_RANGE_H
#define BLINK_TOPO_NAME_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many names the word is, in which there may be ranges; 0: it is none, because it has other characters
 * than letters, digits, dots, hyphens and underscores, or a range that is none, or more than UINT32_MAX
 * names. */
uint32_t name_range_count(const char *word);

/* The number'th of them. False: it is longer than the buffer. */
bool name_range_get(const char *word, uint32_t number, char *name, size_t name_bytes);

/* Whether a name is one of the word's, in which there may be ranges and stars, which stand for any
 * characters. */
bool name_range_has(const char *word, const char *name);

/* Whether name_range_has() may be asked: each bracket belongs to a range, and there is a character. */
bool name_range_is_pattern(const char *word);

#endif

#include "base/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"

bool value_parse_number(const char *text, uint64_t most, uint64_t *number)
{
    if (!*text || text[strspn(text, DIGITS)])
        return false;
    errno = 0;
    uint64_t value = strtoull(text, NULL, 10);
    if (errno != 0 || value > most)
        return false;
    *number = value;
    return true;
}

/* By how many bits a unit shifts: "", "B", "K", "KB", "KiB" and so on, in either case. */
static bool find_shift(const char *unit, unsigned *shift)
{
    static const char letters[] = "kmgt";
    const char *letter = *unit ? strchr(letters, *unit | 0x20) : NULL;
    *shift = letter ? 10 * ((unsigned)(letter - letters) + 1) : 0;
    unit += letter ? 1 : 0;
    return !*unit || strcasecmp(unit, "b") == 0 || (letter && strcasecmp(unit, "ib") == 0);
}

bool value_parse_bytes(const char *text, uint64_t *bytes)
{
    char digits[32] = "";
    size_t length = strspn(text, DIGITS);
    unsigned shift;
    uint64_t number = 0;
    if (length < sizeof(digits))
        memcpy(digits, text, length);
    const char *unit = text + length + (text[length] == ' ' && text[length + 1] ? 1 : 0);
    if (!find_shift(unit, &shift) || !value_parse_number(digits, UINT64_MAX >> (shift + 1), &number))
        return false;
    *bytes = number << shift;
    return true;
}

bool value_parse_positive(const char *text, double most, double *number)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || !(value > 0) || value > most)
        return false;
    *number = value;
    return true;
}

bool value_parse_range(const char *text, uint32_t most, uint32_t *first, uint32_t *last)
{
    char from[32] = "";
    size_t length = strcspn(text, "-");
    uint64_t begin = 0, end = 0;
    if (length < sizeof(from))
        memcpy(from, text, length);
    const char *to = text[length] ? text + length + 1 : from;
    if (!value_parse_number(from, most, &begin) || !value_parse_number(to, most, &end))
        return false;
    *first = (uint32_t)begin;
    *last = (uint32_t)end;
    return true;
}

bool value_next_item(const char **list, char item[VALUE_ITEM_BYTES])
{
    if (!*list)
        return false;
    size_t length = strcspn(*list, ",");
    snprintf(item, VALUE_ITEM_BYTES, "%.*s", length < VALUE_ITEM_BYTES ? (int)length : 0, *list);
    *list = (*list)[length] ? *list + length + 1 : NULL;
    return true;
}

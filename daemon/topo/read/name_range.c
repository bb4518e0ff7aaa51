#include "topo/read/name_range.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a range's numbers. */
#define DIGITS_MAX 9u

typedef struct range {
    uint32_t first, last;
    uint32_t digits; /* 0: as many as the number needs */
} range_t;

/* ---- reading ---- */

static const char *skip_digits(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

/* The number at *at, which moves behind it. */
static bool read_number(const char **at, uint32_t *number)
{
    const char *first = *at, *end = skip_digits(first);
    if (end == first || end - first > (ptrdiff_t)DIGITS_MAX)
        return false;
    *number = (uint32_t)strtoul(first, NULL, 10);
    *at = end;
    return true;
}

/* The range at *at, where there is a bracket; *at moves behind it. */
static bool read_range(const char **at, range_t *range)
{
    const char *first = *at + 1, *end = first;
    if (!read_number(&end, &range->first) || *end != '-')
        return false;
    range->digits = *first == '0' && end - first > 1 ? (uint32_t)(end - first) : 0;
    end++;
    if (!read_number(&end, &range->last) || *end != ']' || range->last < range->first)
        return false;
    *at = end + 1;
    return true;
}

/* ---- all names ---- */

uint32_t name_range_count(const char *word)
{
    uint64_t count = 1;
    if (*word == '\0')
        return 0;
    while (*word) {
        range_t range = {0};
        if (*word == '[') {
            if (!read_range(&word, &range))
                return 0;
            count *= (uint64_t)range.last - range.first + 1;
            if (count > UINT32_MAX)
                return 0;
        } else if (isalnum((unsigned char)*word) || strchr("._-", *word)) {
            word++;
        } else {
            return 0;
        }
    }
    return (uint32_t)count;
}

bool name_range_get(const char *word, uint32_t number, char *name, size_t name_bytes)
{
    size_t length = 0;
    while (*word && length < name_bytes) {
        range_t range = {0};
        if (*word != '[') {
            name[length++] = *word++;
            continue;
        }
        if (!read_range(&word, &range))
            return false;
        uint32_t values = range.last - range.first + 1;
        length += (size_t)snprintf(&name[length], name_bytes - length, "%0*u", (int)range.digits,
                                   range.first + number % values);
        number /= values;
    }
    if (length >= name_bytes)
        return false;
    name[length] = '\0';
    return true;
}

/* ---- patterns ---- */

bool name_range_is_pattern(const char *word)
{
    range_t range;
    bool good = *word != '\0';
    while (good && *word)
        good = *word == '[' ? read_range(&word, &range) : *word++ != ']';
    return good;
}

/* The range at *word has the number at *name; both move behind it. */
static bool take_range(const char **word, const char **name)
{
    range_t range;
    uint32_t number;
    const char *end = *name;
    if (!read_range(word, &range) || !read_number(&end, &number))
        return false;
    ptrdiff_t digits = end - *name;
    bool is_spelled_so = range.digits > 0 ? digits == (ptrdiff_t)range.digits : **name != '0' || digits == 1;
    *name = end;
    return is_spelled_so && number >= range.first && number <= range.last;
}

/* One thing of the word stands for what is at *name; both move behind it. */
static bool take(const char **word, const char **name)
{
    if (**word == '[')
        return take_range(word, name);
    return **word != '\0' && *(*word)++ == *(*name)++;
}

bool name_range_has(const char *word, const char *name)
{
    /* Behind the last star, and what follows that in the name: a star more than it takes is tried. */
    const char *after_star = NULL, *retry = NULL;
    while (*name || *word) {
        if (*word == '*') {
            after_star = ++word;
            retry = name;
        } else if (!*name || !take(&word, &name)) {
            if (!after_star || !*retry)
                return false;
            word = after_star;
            do /* past numbers as wholes, if that is what follows */
                name = ++retry;
            while (*word == '[' && isdigit((unsigned char)retry[-1]) && isdigit((unsigned char)*retry));
        }
    }
    return true;
}

#include "base/near.h"

#include <stdio.h>
#include <string.h>

near_t near_begin(const char *word)
{
    return (near_t){.word = word, .changes = 2 + (uint32_t)strnlen(word, NEAR_NAME_BYTES) / 4};
}

static uint32_t least(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t less = a < b ? a : b;
    return less < c ? less : c;
}

/* Letters in either case are the same. */
static char fold(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
}

/* How many letters have to be changed, left out or put in (Levenshtein). */
static uint32_t distance(const char *one, const char *other)
{
    uint32_t row[NEAR_NAME_BYTES + 1];
    size_t length = strlen(other);
    if (length > NEAR_NAME_BYTES || strlen(one) > NEAR_NAME_BYTES)
        return UINT32_MAX;
    for (uint32_t i = 0; i <= length; i++)
        row[i] = i;
    for (const char *at = one; *at; at++) {
        uint32_t corner = row[0]++;
        for (uint32_t i = 1; i <= length; i++) {
            uint32_t above = row[i];
            row[i] = least(above + 1, row[i - 1] + 1, corner + (fold(*at) != fold(other[i - 1])));
            corner = above;
        }
    }
    return row[length];
}

void near_try(near_t *near, const char *name)
{
    uint32_t changes = distance(near->word, name);
    if (changes < near->changes) {
        near->changes = changes;
        near->found = name;
    }
}

void near_try_values(near_t *near, const char *(*name_of)(uint32_t value))
{
    for (uint32_t value = 0; strcmp(name_of(value), "unknown") != 0; value++)
        near_try(near, name_of(value));
}

const char *near_hint(const near_t *near, char text[NEAR_HINT_BYTES])
{
    snprintf(text, NEAR_HINT_BYTES, "%s%s%s", near->found ? " (did you mean '" : "",
             near->found ? near->found : "", near->found ? "'?)" : "");
    return text;
}

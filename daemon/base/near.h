/*
 * Which of the names that there are somebody may have meant: the one that takes the fewest changes of a
 * letter.
 */
#ifndef BLINK_BASE_NEAR_H
#define BLINK_BASE_NEAR_H

#include <stdint.h>

/* Names that are longer are not looked at. */
#define NEAR_NAME_BYTES 64u

/* Of the hint, with its NUL. */
#define NEAR_HINT_BYTES (NEAR_NAME_BYTES + 32u)

typedef struct near {
    const char *word;  /* borrowed */
    const char *found; /* borrowed; NULL: none is like it so far */
    uint32_t changes;  /* that *found takes, or one more than may be */
} near_t;

/** Begin to look for what is like a word. */
near_t near_begin(const char *word);

/** Look at one of the names. */
void near_try(near_t *near, const char *name);

/** Look at the names of values 0, 1, 2 and so on up to one that is "unknown" (names.h). */
void near_try_values(near_t *near, const char *(*name_of)(uint32_t value));

/** " (did you mean 'trees'?)", or "" if nothing is like the word. Returns `text`. */
const char *near_hint(const near_t *near, char text[NEAR_HINT_BYTES]);

#endif

/* How a search came to a state: lines of text that are added while they are wanted and there is room. */
#ifndef STORY_H
#define STORY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

typedef struct story {
    char *text; /* NULL: no story is told */
    size_t bytes, used;
} story_t;

__attribute__((format(printf, 2, 0))) static inline void story_add(story_t *story, const char *format,
                                                                   va_list arguments)
{
    if (!story->text || story->used >= story->bytes)
        return;
    int printed = vsnprintf(story->text + story->used, story->bytes - story->used, format, arguments);
    story->used += printed > 0 ? (size_t)printed : 0;
}

#endif

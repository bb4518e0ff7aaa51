/*
 * Output of a child, passed on a line at a time, so that the lines of many children do not mix.
 */
#ifndef RUN_LINES_H
#define RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Longer lines are broken. */
#define LINES_MOST_BYTES 16384u

/* What is said once for all children: that no daemon answers, which all of them meet alike. */
typedef struct lines_once {
    size_t count; /* of bytes; 0: nobody has said it */
    char line[1024];
} lines_once_t;

typedef struct lines {
    int from, to;       /* `from` is the lines' own, and non-blocking; -1: it has ended */
    char prefix[16];    /* of each line; "": none */
    lines_once_t *once; /* of the children that share it: a first line that another began with, too, is not
                           passed on if that is what it says; NULL: all are */
    bool has_begun;     /* the first line has come */
    size_t count;       /* of bytes that no line feed has followed yet */
    char bytes[LINES_MOST_BYTES];
} lines_t;

/** Pass on some of what can be read now; at its end, what is left, too. Blocks while nobody reads what is
 * passed on. */
void lines_move(lines_t *lines);

/** The same with all that has been written, and then it has ended, whoever may still write. */
void lines_end(lines_t *lines);

#endif

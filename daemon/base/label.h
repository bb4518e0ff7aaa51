/*
 * Names that programs give to things: a program, a job, a communicator. They are shown in logs, in sentences
 * and on terminals, so only what is harmless there is kept.
 */
#ifndef BLINK_LABEL_H
#define BLINK_LABEL_H

#include <stddef.h>
#include <stdio.h>

/* The NUL included; longer ones are cut. */
#define LABEL_BYTES 64

static inline void label_set(char label[LABEL_BYTES], const char *text)
{
    snprintf(label, LABEL_BYTES, "%s", text);
    for (char *at = label; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

#endif

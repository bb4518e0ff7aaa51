/*
 * What `blinkctl top` shows, as lines of text: for the screen, and for --once.
 */
#ifndef BLINK_TOP_VIEW_H
#define BLINK_TOP_VIEW_H

#include "ctl/top/sample.h"

/* Lines that want to be seen are coloured where there are colours. */
typedef enum top_tone { TOP_PLAIN, TOP_BUSY, TOP_BAD } top_tone_t;

typedef struct top_line {
    char *text; /* ASCII */
    top_tone_t tone;
} top_line_t;

typedef enum top_part { TOP_JOBS, TOP_COMMS, TOP_LINKS, TOP_EVENTS, TOP_PART_COUNT } top_part_t;

typedef struct top_view {
    char *status;                          /* one line of the daemon and its totals */
    VEC(top_line_t) parts[TOP_PART_COUNT]; /* the first line of each has the names of the columns */
} top_view_t;

/* Make the lines of a sample. With fewer than TOP_WIDE columns the less important ones are left out, and
 * lines may still be longer. top_view_free() it after success. Errors: NO_MEMORY. */
#define TOP_WIDE 120
blink_result_t top_view_make(const top_sample_t *sample, unsigned columns, top_view_t *view);
void top_view_free(top_view_t *view);

#endif

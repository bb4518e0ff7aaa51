/*
 * The terminal of `blinkctl top`: draws lines and takes keys. There is one at a time (curses has globals).
 */
#ifndef BLINK_TOP_SCREEN_H
#define BLINK_TOP_SCREEN_H

#include "ctl/top/view.h"

/* What somebody at the keys wants. */
typedef struct top_wishes {
    top_sort_t sort;
    double delay_s; /* between samples */
    bool paused;
    bool quit;
} top_wishes_t;

/* Whether the kind of terminal that $TERM names is known, and text can be put anywhere on it. */
bool top_terminal_can_be_drawn_on(void);

/* Take the terminal. Errors: UNSUPPORTED (standard input or output is none, or its kind is not known). */
blink_result_t top_screen_open(bool colours);

/* Give it back as it was. */
void top_screen_close(void);

unsigned top_screen_columns(void);

/* Draw a view. The notice stands under the status, for what has gone wrong; NULL: nothing has. */
void top_screen_draw(const top_view_t *view, const top_wishes_t *wishes, const char *notice);

/* Wait for a key, so many milliseconds at most, and do what it says. False if nothing is to be drawn anew. */
bool top_screen_wait(int milliseconds, top_wishes_t *wishes);

#endif

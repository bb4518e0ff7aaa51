/* What the kind of a terminal is good for. In a file of its own: term.h has macros that are called as much
 * else is. */
#include "ctl/top/screen.h"

#include <curses.h>
#include <term.h>
#include <unistd.h>

bool top_terminal_can_be_drawn_on(void)
{
    int why;
    return setupterm(NULL, STDOUT_FILENO, &why) == OK && cursor_address;
}

/*
 * The command lines of all programs: argp's, but an option that there is not is answered with the one that
 * may have been meant.
 */
#ifndef BLINK_BASE_COMMAND_LINE_H
#define BLINK_BASE_COMMAND_LINE_H

#include <argp.h>

/** argp_parse(). Exits with argp_err_exit_status at an option of a name that there is not, too. Not
 * thread-safe. */
void command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

#endif

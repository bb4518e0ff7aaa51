/* The form of the lines. */
#include "environment/debug.h"

#include "names.h"
#include "stderr.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What fits is far less than PIPE_BUF: a pipe takes it whole. */
#define LINE_BYTES 640
#define RANK_BYTES 12

_Atomic debug_level_t debug_level;

/* Constant once the level has been set. */
static char launched_rank[RANK_BYTES];

void debug_begin(debug_level_t level, const char *rank)
{
    snprintf(launched_rank, sizeof(launched_rank), "%s", rank ? rank : "");
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        level = DEBUG_NOTHING; /* the number will be another descriptor's, perhaps of the connection */
    /* Release: pairs with the loads in debug_informs() and debug_traces(), so the rank is seen. */
    atomic_store_explicit(&debug_level, level, memory_order_release);
}

static int begin_line(const debug_rank_t *rank, char line[LINE_BYTES])
{
    int pid = (int)getpid();
    if (rank && rank->comm != 0 && rank->comm_name[0])
        return snprintf(line, LINE_BYTES, "blink: %d rank %u: communicator %u (%s): ", pid, rank->rank,
                        rank->comm, rank->comm_name);
    if (rank && rank->comm != 0)
        return snprintf(line, LINE_BYTES, "blink: %d rank %u: communicator %u: ", pid, rank->rank,
                        rank->comm);
    if (launched_rank[0])
        return snprintf(line, LINE_BYTES, "blink: %d rank %s: ", pid, launched_rank);
    return snprintf(line, LINE_BYTES, "blink: %d: ", pid);
}

void debug_line(const debug_rank_t *rank, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    size_t length = (size_t)begin_line(rank, line);
    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - length, format, arguments);
    va_end(arguments);
    length = strlen(line);
    if (length == sizeof(line) - 1)
        length--;
    line[length++] = '\n';
    stderr_write(line, length);
}

void debug_failed(const char *function, blink_result_t result)
{
    debug_line(NULL, "%s failed: %s: %s", function, blink_name_result_constant(result), blink_error_text());
}

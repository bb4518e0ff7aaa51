#include "run/lines.h"

#include "frame.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Who writes without end does not keep others from being heard; and all that a pipe may hold is 1 MiB. */
#define READS_PER_TURN 4u
#define READS_AT_END   ((1u << 20) / LINES_MOST_BYTES * 2u)

/* Nobody reads any more: what is said is lost. */
static void write_all(int fd, const char *bytes, size_t byte_count)
{
    while (byte_count > 0) {
        ssize_t written = write(fd, bytes, byte_count);
        if (written < 0 && errno != EINTR)
            return;
        if (written > 0) {
            bytes += written;
            byte_count -= (size_t)written;
        }
    }
}

/* A line that stands among others, as the last one of a traceback does, is a part of what they say. */
static bool was_said(lines_t *lines, const char *line, size_t byte_count)
{
    lines_once_t *once = lines->once;
    bool is_first = !lines->has_begun;
    lines->has_begun = true;
    if (!is_first || !once || byte_count > sizeof(once->line) ||
        !memmem(line, byte_count, FRAME_NO_DAEMON, strlen(FRAME_NO_DAEMON)))
        return false;
    if (once->count > 0)
        return once->count == byte_count && memcmp(once->line, line, byte_count) == 0;
    memcpy(once->line, line, byte_count);
    once->count = byte_count;
    return false;
}

/* One line, with its line feed, in one write. */
static void pass_on(lines_t *lines, const char *line, size_t byte_count)
{
    if (was_said(lines, line, byte_count))
        return;
    char whole[sizeof(lines->prefix) + LINES_MOST_BYTES + 1];
    size_t prefix = strlen(lines->prefix);
    memcpy(whole, lines->prefix, prefix);
    memcpy(whole + prefix, line, byte_count);
    whole[prefix + byte_count] = '\n';
    write_all(lines->to, whole, prefix + byte_count + 1);
}

static void pass_on_lines(lines_t *lines)
{
    char *start = lines->bytes, *end = lines->bytes + lines->count, *feed;
    while ((feed = memchr(start, '\n', (size_t)(end - start)))) {
        pass_on(lines, start, (size_t)(feed - start));
        start = feed + 1;
    }
    if (start == lines->bytes && lines->count == sizeof(lines->bytes)) {
        pass_on(lines, start, lines->count);
        start = end;
    }
    lines->count = (size_t)(end - start);
    memmove(lines->bytes, start, lines->count);
}

static void close_lines(lines_t *lines)
{
    if (lines->count > 0)
        pass_on(lines, lines->bytes, lines->count);
    lines->count = 0;
    close(lines->from);
    lines->from = -1;
}

static void move(lines_t *lines, uint32_t most_reads)
{
    for (uint32_t i = 0; i < most_reads && lines->from >= 0; i++) {
        ssize_t got = read(lines->from, lines->bytes + lines->count, sizeof(lines->bytes) - lines->count);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got == 0 || (got < 0 && errno != EINTR)) {
            close_lines(lines);
            return;
        }
        if (got > 0) {
            lines->count += (size_t)got;
            pass_on_lines(lines);
        }
    }
}

void lines_move(lines_t *lines)
{
    move(lines, READS_PER_TURN);
}

void lines_end(lines_t *lines)
{
    move(lines, READS_AT_END);
    if (lines->from >= 0)
        close_lines(lines);
}

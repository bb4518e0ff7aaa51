/* Files that commands write: whole or not at all. */
#ifndef CTL_FILE_H
#define CTL_FILE_H

#include "error.h"

#include <stdio.h>

/** A file that is being written. */
typedef struct file {
    const char *path; /* borrowed */
    char *beside;     /* what takes the path's place at the end; NULL: the path is written to directly */
    FILE *out;
} file_t;

/** Begin to write `path` by `file->out`. A file that stands there is replaced only by file_end(). A device,
 * pipe or symbolic link is written to directly. Errors: SYSTEM (names the path), NO_MEMORY; then there is
 * nothing to end. */
blink_result_t file_begin(const char *path, file_t *file);

/** All is written, or nothing is to be left behind if `result`, which is returned then, is a failure. Errors:
 * SYSTEM (names the path; what file->out has met). */
blink_result_t file_end(file_t *file, blink_result_t result);

/** Write `text` to `path`. Errors: those of file_begin() and file_end(). */
blink_result_t file_write_whole(const char *path, const char *text);

#endif

/*
 * Files of sections, keys and values that people write: [section], key = value, and comments that begin a
 * line with # or ;. What a section and a key mean is the caller's.
 */
#ifndef BLINK_INI_FILE_H
#define BLINK_INI_FILE_H

#include "blink/types.h"

#include <stdio.h>

/* Takes a pair; what it fails with ends the reading. */
typedef blink_result_t (*ini_pair_t)(void *context, const char *section, const char *key, const char *value);

/* Read an open file to its end, of which errors say that it is `path`. Errors: INVALID_ARGUMENT with path and
 * line before what the pair's taker has said, and the pair; or because a line is no pair or too long. */
blink_result_t ini_file_read(FILE *file, const char *path, ini_pair_t take, void *context);

#endif

/*
 * Files of sections, keys and values that people write: [section], key = value, and comments that begin a
 * line with # or ;, or a part of a line with a ; behind a blank. What a section and a key mean is the
 * caller's.
 */
#ifndef BLINK_INI_FILE_H
#define BLINK_INI_FILE_H

#include "blink/types.h"

#include <stdio.h>

/* Of a line, with its end: a list of a thousand hosts is one. */
#define INI_LINE_BYTES 65536

/* Takes a pair; what it fails with ends the reading. The key and the value are valid during the call. */
typedef blink_result_t (*ini_pair_t)(void *context, const char *section, const char *key, const char *value);

/* Read an open file to its end, of which errors say that it is `path`. Errors: INVALID_ARGUMENT with path and
 * line before what the pair's taker has said, and the pair; or because a line is no pair or too long;
 * NO_MEMORY, SYSTEM. */
blink_result_t ini_file_read(FILE *file, const char *path, ini_pair_t take, void *context);

#endif

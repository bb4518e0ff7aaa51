#include "base/ini_file.h"

#include "error.h"

#include <ini.h>
#include <stdbool.h>
#include <string.h>

typedef struct ini_reader {
    const char *path;
    FILE *file;
    int line;
    ini_pair_t take;
    void *context;
    blink_result_t failed;
    bool cut; /* a line is longer than what the library reads */
    int line_most;
} ini_reader_t;

static char *read_line(char *text, int bytes, void *context)
{
    ini_reader_t *reader = context;
    char *line = reader->cut ? NULL : fgets(text, bytes, reader->file);
    reader->line++;
    if (!line || strchr(line, '\n') || feof(reader->file))
        return line;
    reader->cut = true;
    reader->line_most = bytes - 2;
    return NULL;
}

/* inih's handler: 0 is failure. */
static int on_pair(void *context, const char *section, const char *key, const char *value)
{
    ini_reader_t *reader = context;
    if (reader->failed != BLINK_OK)
        return 1;
    blink_result_t result = reader->take(reader->context, section, key, value);
    if (result == BLINK_OK)
        return 1;
    reader->failed =
        BLINK_FAIL(result, "%s:%d: %s = %s: %s", reader->path, reader->line, key, value, blink_error_text());
    return 0;
}

blink_result_t ini_file_read(FILE *file, const char *path, ini_pair_t take, void *context)
{
    ini_reader_t reader = {.path = path, .file = file, .take = take, .context = context};
    int malformed_line = ini_parse_stream(read_line, &reader, on_pair, &reader);
    if (reader.failed != BLINK_OK)
        return reader.failed;
    if (reader.cut)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s:%d: the line is longer than %d characters", path,
                          reader.line, reader.line_most);
    if (malformed_line != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s:%d: neither [section], key = value, nor a # comment", path, malformed_line);
    return BLINK_OK;
}

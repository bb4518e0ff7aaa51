#include "base/ini_file.h"

#include "error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64u /* of a section's name, with its end */

/* So much of a value is repeated when something is wrong with it. */
#define SHOWN_MOST 60

typedef struct ini_reader {
    const char *path;
    int line;
    ini_pair_t take;
    void *context;
    char section[NAME_BYTES];
} ini_reader_t;

/* Without the blanks at both ends. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r\n\f\v");
    size_t bytes = strlen(text);
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        bytes--;
    text[bytes] = '\0';
    return text;
}

/* A semicolon behind a blank begins a comment, too. */
static void cut_comment(char *text)
{
    for (char *at = text; (at = strchr(at, ';')); at++) {
        if (at == text || isspace((unsigned char)at[-1])) {
            *at = '\0';
            return;
        }
    }
}

static blink_result_t fail_malformed(const ini_reader_t *reader)
{
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s:%d: neither [section], key = value, nor a # comment",
                      reader->path, reader->line);
}

static blink_result_t take_section(ini_reader_t *reader, const char *line)
{
    const char *end = strchr(line, ']');
    if (!end || (size_t)(end - line) > sizeof(reader->section))
        return fail_malformed(reader);
    size_t bytes = (size_t)(end - line) - 1;
    memcpy(reader->section, line + 1, bytes);
    reader->section[bytes] = '\0';
    return BLINK_OK;
}

static blink_result_t take_pair(const ini_reader_t *reader, char *line)
{
    char *value = strchr(line, '=');
    if (!value)
        return fail_malformed(reader);
    *value++ = '\0';
    cut_comment(value);
    const char *key = trim(line);
    value = trim(value);
    blink_result_t result = reader->take(reader->context, reader->section, key, value);
    if (result == BLINK_OK)
        return BLINK_OK;
    return BLINK_FAIL(result, "%s:%d: %.*s = %.*s%s: %s", reader->path, reader->line, SHOWN_MOST, key,
                      SHOWN_MOST, value, strlen(value) > SHOWN_MOST ? "…" : "", blink_error_text());
}

static blink_result_t take_line(ini_reader_t *reader, char *line)
{
    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
        return BLINK_OK;
    return *line == '[' ? take_section(reader, line) : take_pair(reader, line);
}

blink_result_t ini_file_read(FILE *file, const char *path, ini_pair_t take, void *context)
{
    ini_reader_t reader = {.path = path, .take = take, .context = context};
    blink_result_t result = BLINK_OK;
    char *line = malloc(INI_LINE_BYTES);
    if (!line)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to read %s", path);
    while (result == BLINK_OK && fgets(line, INI_LINE_BYTES, file)) {
        reader.line++;
        if (strchr(line, '\n') || feof(file))
            result = take_line(&reader, line);
        else
            result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s:%d: the line is longer than %d characters",
                                path, reader.line, INI_LINE_BYTES - 2);
    }
    if (result == BLINK_OK && ferror(file))
        result = BLINK_FAIL_ERRNO("%s", path);
    free(line);
    return result;
}

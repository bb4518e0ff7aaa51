/* Variables and the form of the lines, which is that of libblinkclient's. */
#include "settings.h"

#include "base/value.h"
#include "stderr.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 640

static shim_settings_t settings;

void shim_line(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    size_t length = (size_t)snprintf(line, sizeof(line), "blink: %d: ", (int)getpid());
    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
    va_end(arguments);
    length = strlen(line);
    line[length++] = '\n';
    stderr_write(line, length);
}

/* NULL: unset, or empty, which is as good as unset. */
static const char *variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

static bool parse_bytes(const char *text, long *bytes)
{
    uint64_t number;
    if (!value_parse_bytes(text, &number))
        return false;
    *bytes = (long)number; /* below 2^63 */
    return true;
}

static void refuse(const char *name, const char *value, const char *right)
{
    settings.is_off = true;
    shim_line("%s is \"%s\", but should be %s: MPI does everything", name, value, right);
}

static void read_variables(void)
{
    const char *mode = variable("BLINK_MPI"), *bytes = variable("BLINK_MPI_MIN_BYTES");
    const char *debug = variable("BLINK_DEBUG");
    settings = (shim_settings_t){.min_bytes = SHIM_MIN_BYTES_UNSET};
    settings.informs = debug && (strcmp(debug, "info") == 0 || strcmp(debug, "trace") == 0);
    if (mode && strcmp(mode, "off") == 0)
        settings.is_off = true;
    else if (mode && strcmp(mode, "on") != 0)
        refuse("BLINK_MPI", mode, "on or off");
    if (bytes && !parse_bytes(bytes, &settings.min_bytes))
        refuse("BLINK_MPI_MIN_BYTES", bytes, "a number of bytes, as 65536, 64K, 1M or 0");
}

const shim_settings_t *shim_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_variables);
    return &settings;
}

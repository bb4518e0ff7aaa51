#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_text[BLINK_ERROR_TEXT_BYTES];

blink_result_t blink_error_set(blink_result_t code, const char *format, ...)
{
    /* The arguments may point into last_text itself, when a caller adds context to a sentence. */
    char text[BLINK_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(last_text, sizeof(last_text), "%s", text);
    return code;
}

const char *blink_error_text(void)
{
    return last_text;
}

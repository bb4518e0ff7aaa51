#include "topo/text.h"

#include "error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

blink_result_t topo_text_open(topo_text_t *text)
{
    *text = (topo_text_t){0};
    text->c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!text->c_locale)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory printing text");
    text->file = open_memstream(&text->text, &text->bytes);
    if (!text->file) {
        freelocale(text->c_locale);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory printing text");
    }
    text->previous = uselocale(text->c_locale);
    return BLINK_OK;
}

blink_result_t topo_text_close(topo_text_t *text, char **result)
{
    uselocale(text->previous);
    freelocale(text->c_locale);
    bool failed = ferror(text->file) != 0;
    failed = fclose(text->file) != 0 || failed;
    if (failed) {
        free(text->text);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory printing text");
    }
    *result = text->text;
    return BLINK_OK;
}

void topo_text_number(topo_text_t *text, double value)
{
    char digits[TOPO_HUMAN_BYTES];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    fputs(digits, text->file);
}

void topo_text_quoted(topo_text_t *text, const char *string)
{
    fputc('"', text->file);
    for (const char *c = string; *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', text->file);
        fputc(*c, text->file);
    }
    fputc('"', text->file);
}

void topo_text_xml(topo_text_t *text, const char *string)
{
    for (const char *c = string; *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", text->file);
            break;
        case '<':
            fputs("&lt;", text->file);
            break;
        case '>':
            fputs("&gt;", text->file);
            break;
        case '"':
            fputs("&quot;", text->file);
            break;
        default:
            fputc(*c, text->file);
        }
    }
}

const char *topo_human(double value, char buffer[TOPO_HUMAN_BYTES])
{
    bool plain = value == 0 || (value >= 0.01 && value < 1e6);
    snprintf(buffer, TOPO_HUMAN_BYTES, plain ? "%.2f" : "%.3g", value);
    return buffer;
}

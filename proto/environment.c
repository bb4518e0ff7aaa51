#include "environment.h"

#include <locale.h>
#include <stdlib.h>

const char *environment_get(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

static blink_result_t parse_seconds(const char *name, const char *text, double least_s, double most_s,
                                    double *seconds)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least_s && value <= most_s))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s is \"%.40s\", not seconds from %g to %.10g", name,
                          text, least_s, most_s);
    *seconds = value;
    return BLINK_OK;
}

blink_result_t environment_seconds(const char *name, double least_s, double most_s, double *seconds)
{
    const char *text = environment_get(name);
    if (!text)
        return BLINK_OK;
    /* The point is the decimal one, whatever locale the program has chosen. */
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to read %s", name);
    locale_t chosen = uselocale(plain);
    blink_result_t result = parse_seconds(name, text, least_s, most_s, seconds);
    uselocale(chosen);
    freelocale(plain);
    return result;
}

#include "environment.h"

#include <stdlib.h>

const char *environment_get(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

blink_result_t environment_seconds(const char *name, double least_s, double most_s, double *seconds)
{
    const char *text = environment_get(name);
    char *end;
    if (!text)
        return BLINK_OK;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least_s && value <= most_s))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s is \"%.40s\", not seconds from %g to %.10g", name,
                          text, least_s, most_s);
    *seconds = value;
    return BLINK_OK;
}

/* The variables and their values. */
#include "environment/settings.h"

#include "environment.h"
#include "names.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* In milliseconds both fit an unsigned int. */
#define TIMEOUT_LEAST_S 0.001
#define TIMEOUT_MOST_S  4e6

static blink_result_t parse_debug(debug_level_t *level)
{
    const char *text = environment_get("BLINK_DEBUG");
    *level = DEBUG_NOTHING;
    if (text && strcmp(text, "info") == 0)
        *level = DEBUG_INFO;
    else if (text && strcmp(text, "trace") == 0)
        *level = DEBUG_TRACE;
    else if (text)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "BLINK_DEBUG is \"%.40s\", not info or trace", text);
    return BLINK_OK;
}

static blink_result_t parse_algorithm(blink_algorithm_t *algorithm)
{
    const char *text = environment_get("BLINK_ALGORITHM");
    char names[BLINK_ERROR_TEXT_BYTES] = "";
    *algorithm = BLINK_ALGORITHM_AUTO;
    if (!text || blink_parse_algorithm(text, algorithm))
        return BLINK_OK;
    for (uint32_t i = 0; blink_algorithm_valid(i); i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof(names) - length, "%s%s", i > 0 ? ", " : "", blink_name_algorithm(i));
    }
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "BLINK_ALGORITHM is \"%.40s\", not one of %s", text, names);
}

static blink_result_t parse_timeout(unsigned int *timeout_ms)
{
    double timeout_s = 0;
    *timeout_ms = 0;
    BLINK_TRY(environment_seconds("BLINK_TIMEOUT", TIMEOUT_LEAST_S, TIMEOUT_MOST_S, &timeout_s));
    *timeout_ms = (unsigned int)(timeout_s * 1e3 + 0.5);
    return BLINK_OK;
}

blink_result_t settings_parse(settings_t *settings)
{
    *settings = (settings_t){0};
    BLINK_TRY(parse_debug(&settings->debug));
    BLINK_TRY(parse_algorithm(&settings->algorithm));
    return parse_timeout(&settings->op_timeout_ms);
}

/* ---- of this process ---- */

static struct {
    pthread_mutex_t lock; /* to read them; afterwards they are constant */
    bool are_read;
    settings_t settings;
    blink_result_t result;
    char text[BLINK_ERROR_TEXT_BYTES]; /* of a failure */
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

blink_result_t settings_read(const char *rank)
{
    pthread_mutex_lock(&own.lock);
    if (!own.are_read) {
        own.result = settings_parse(&own.settings);
        if (own.result != BLINK_OK)
            snprintf(own.text, sizeof(own.text), "%s", blink_error_text());
        debug_begin(own.settings.debug, rank);
        own.are_read = true;
    }
    pthread_mutex_unlock(&own.lock);
    return own.result == BLINK_OK ? BLINK_OK : blink_error_set(own.result, "%s", own.text);
}

void settings_fill_in(blink_comm_config_t *config)
{
    if (config->algorithm == BLINK_ALGORITHM_AUTO)
        config->algorithm = own.settings.algorithm;
    if (config->op_timeout_ms == 0)
        config->op_timeout_ms = own.settings.op_timeout_ms;
}

/* One table of keys serves the file, the flags and --check-config, so they cannot drift apart. */
#include "config.h"

#include "frame.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum value_kind {
    VALUE_TEXT,
    VALUE_COUNT,
    VALUE_THREADS,
    VALUE_BYTES,
    VALUE_SECONDS,
    VALUE_MODE,
    VALUE_OTHER
} value_kind_t;

typedef struct config_key {
    const char *section, *key;
    value_kind_t kind;
    size_t offset;
    blink_result_t (*parse)(config_t *config, const char *value); /* VALUE_OTHER */
    void (*print)(const config_t *config);
} config_key_t;

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* ---- values ---- */

#define COUNT_MAX   1000000u
#define THREADS_MAX 1024u

static blink_result_t parse_count(const char *value, uint32_t most, uint32_t *count)
{
    char *end;
    errno = 0;
    unsigned long parsed = strtoul(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || value[0] == '-' || parsed > most)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is not a count from 0 to %u", value, most);
    *count = (uint32_t)parsed;
    return BLINK_OK;
}

static blink_result_t parse_bytes(const char *value, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(value, &end, 10);
    unsigned shift = 0;
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    if (suffix) {
        shift = 10 * ((unsigned)(suffix - suffixes) + 1);
        end++;
    }
    if (errno != 0 || end == value || *end != '\0' || value[0] == '-' || parsed > UINT64_MAX >> shift)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is not a size in bytes such as 1048576, 512M or 64G", value);
    *bytes = (uint64_t)parsed << shift;
    return BLINK_OK;
}

static blink_result_t parse_seconds(const char *value, double *seconds)
{
    char *end;
    double parsed = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(parsed) || parsed <= 0 || parsed > 1e6)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is not a number of seconds above 0 and up to 1000000", value);
    *seconds = parsed;
    return BLINK_OK;
}

static blink_result_t parse_mode(const char *value, uint32_t *mode)
{
    char *end;
    unsigned long parsed = strtoul(value, &end, 8);
    if (end == value || *end != '\0' || parsed > 0777)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is not an octal file mode such as 0660", value);
    *mode = (uint32_t)parsed;
    return BLINK_OK;
}

static blink_result_t parse_devices(config_t *config, const char *value)
{
    if (strcmp(value, "host") == 0) {
        config->device_count = 0;
        return BLINK_OK;
    }
    if (strncmp(value, "host:", 5) != 0)
        return BLINK_FAIL(
            BLINK_ERR_UNSUPPORTED,
            "devices '%s': this version has host devices only, host or host:N (GPUs are not supported yet)",
            value);
    if (parse_count(value + 5, COUNT_MAX, &config->device_count) != BLINK_OK || config->device_count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "devices '%s': a count of at least one, such as host:8",
                          value);
    return BLINK_OK;
}

static void print_devices(const config_t *config)
{
    if (config->device_count == 0)
        printf("host");
    else
        printf("host:%u", config->device_count);
}

static blink_result_t parse_pace(config_t *config, const char *value)
{
    if (strcmp(value, "auto") == 0) {
        config->pace_scale = CONFIG_PACE_AUTO;
        return BLINK_OK;
    }
    if (strcmp(value, "off") == 0) {
        config->pace_scale = 0;
        return BLINK_OK;
    }
    char *end;
    double scale = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(scale) || scale <= 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "pace scale '%s': a number above 0 such as 0.004, auto or off", value);
    config->pace_scale = scale;
    return BLINK_OK;
}

static void print_pace(const config_t *config)
{
    if (config->pace_scale == CONFIG_PACE_AUTO)
        printf("auto");
    else if (config->pace_scale > 0)
        printf("%g", config->pace_scale);
    else
        printf("off");
}

static blink_result_t parse_level(config_t *config, const char *value)
{
    if (!log_parse_level(value, &config->log_level))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "log level '%s': error, warning, info or debug", value);
    return BLINK_OK;
}

static void print_level(const config_t *config)
{
    printf("%s", level_names[config->log_level]);
}

/* ---- keys ---- */

static const config_key_t keys[] = {
    {"daemon", "socket", VALUE_TEXT, offsetof(config_t, socket), NULL, NULL},
    {"daemon", "socket_mode", VALUE_MODE, offsetof(config_t, socket_mode), NULL, NULL},
    {"devices", "devices", VALUE_OTHER, 0, parse_devices, print_devices},
    {"devices", "topology", VALUE_TEXT, offsetof(config_t, topology), NULL, NULL},
    {"pace", "scale", VALUE_OTHER, 0, parse_pace, print_pace},
    {"workers", "count", VALUE_THREADS, offsetof(config_t, workers), NULL, NULL},
    {"limits", "clients_per_tenant", VALUE_COUNT, offsetof(config_t, clients_per_tenant), NULL, NULL},
    {"limits", "communicators_per_tenant", VALUE_COUNT, offsetof(config_t, comms_per_tenant), NULL, NULL},
    {"limits", "regions_per_tenant", VALUE_COUNT, offsetof(config_t, regions_per_tenant), NULL, NULL},
    {"limits", "registered_bytes_per_tenant", VALUE_BYTES, offsetof(config_t, registered_bytes_per_tenant),
     NULL, NULL},
    {"limits", "init_timeout_s", VALUE_SECONDS, offsetof(config_t, init_timeout_s), NULL, NULL},
    {"limits", "op_timeout_s", VALUE_SECONDS, offsetof(config_t, op_timeout_s), NULL, NULL},
    {"log", "level", VALUE_OTHER, 0, parse_level, print_level},
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

void config_set_defaults(config_t *config)
{
    *config = (config_t){.socket = BLINK_SOCKET_DEFAULT,
                         .socket_mode = 0666,
                         .clients_per_tenant = 1024,
                         .comms_per_tenant = 16384,
                         .regions_per_tenant = 16384,
                         .registered_bytes_per_tenant = (uint64_t)1 << 40,
                         .init_timeout_s = 60,
                         .op_timeout_s = 300,
                         .log_level = LOG_LEVEL_INFO};
}

static blink_result_t set_text(const config_key_t *key, char *target, const char *value)
{
    if (strlen(value) >= CONFIG_TEXT_BYTES)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s has %zu bytes, at most %d are allowed", key->key,
                          strlen(value), CONFIG_TEXT_BYTES - 1);
    snprintf(target, CONFIG_TEXT_BYTES, "%s", value);
    return BLINK_OK;
}

static blink_result_t set_value(const config_key_t *key, config_t *config, const char *value)
{
    void *target = (char *)config + key->offset;
    switch (key->kind) {
    case VALUE_TEXT:
        return set_text(key, target, value);
    case VALUE_COUNT:
        return parse_count(value, COUNT_MAX, target);
    case VALUE_THREADS:
        return parse_count(value, THREADS_MAX, target);
    case VALUE_BYTES:
        return parse_bytes(value, target);
    case VALUE_SECONDS:
        return parse_seconds(value, target);
    case VALUE_MODE:
        return parse_mode(value, target);
    case VALUE_OTHER:
        break;
    }
    return key->parse(config, value);
}

blink_result_t config_set(config_t *config, const char *section, const char *key, const char *value)
{
    bool section_known = false;
    char known[BLINK_ERROR_TEXT_BYTES] = "";
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].section, section) != 0)
            continue;
        section_known = true;
        if (strcmp(keys[i].key, key) == 0)
            return set_value(&keys[i], config, value);
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", keys[i].key);
    }
    if (section_known)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown key '%s' in [%s], which has %s", key, section,
                          known);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      "unknown section [%s]; there are daemon, devices, pace, workers, limits, log", section);
}

/* ---- the file ---- */

typedef struct file_reader {
    const char *path;
    FILE *file;
    int line;
    config_t *config;
    bool failed;
} file_reader_t;

static char *read_line(char *text, int bytes, void *context)
{
    file_reader_t *reader = context;
    reader->line++;
    return fgets(text, bytes, reader->file);
}

/* inih's handler: 0 is failure. */
static int on_pair(void *context, const char *section, const char *key, const char *value)
{
    file_reader_t *reader = context;
    if (reader->failed || config_set(reader->config, section, key, value) == BLINK_OK)
        return 1;
    reader->failed = true;
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s:%d: %s = %s: %s", reader->path, reader->line, key, value,
               blink_error_text());
    return 0;
}

blink_result_t config_read_file(const char *path, config_t *config)
{
    file_reader_t reader = {.path = path, .file = fopen(path, "re"), .config = config};
    if (!reader.file)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "configuration file %s: %s", path, strerror(errno));
    int malformed_line = ini_parse_stream(read_line, &reader, on_pair, &reader);
    fclose(reader.file);
    if (reader.failed)
        return BLINK_ERR_INVALID_ARGUMENT;
    if (malformed_line != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s:%d: neither [section], key = value, nor a # comment", path, malformed_line);
    return BLINK_OK;
}

static void print_value(const config_key_t *key, const config_t *config)
{
    const void *value = (const char *)config + key->offset;
    switch (key->kind) {
    case VALUE_TEXT:
        printf("%s", (const char *)value);
        break;
    case VALUE_COUNT:
    case VALUE_THREADS:
        printf("%u", *(const uint32_t *)value);
        break;
    case VALUE_BYTES:
        printf("%lu", (unsigned long)*(const uint64_t *)value);
        break;
    case VALUE_SECONDS:
        printf("%g", *(const double *)value);
        break;
    case VALUE_MODE:
        printf("%04o", *(const uint32_t *)value);
        break;
    case VALUE_OTHER:
        key->print(config);
        break;
    }
}

void config_print(const config_t *config)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0)
            printf("%s[%s]\n", i ? "\n" : "", keys[i].section);
        printf("%s = ", keys[i].key);
        print_value(&keys[i], config);
        printf("\n");
    }
}

/* What programs give as a configuration, made whole and checked. */
#include "api/config.h"

#include "environment/settings.h"
#include "error.h"
#include "names.h"

#include <assert.h>
#include <string.h>

/* The struct of the first version. Every later field's default is 0, and no version ends in padding. */
#define BYTES_LEAST 24u
/* No version will have as many: what says so was not initialised. */
#define BYTES_MOST 4096u

static_assert(sizeof(blink_comm_config_t) % _Alignof(blink_comm_config_t) == 0 &&
                  offsetof(blink_comm_config_t, init_timeout_ms) + sizeof(unsigned int) == BYTES_LEAST,
              "the fields of the first version stay where they are");

/* A newer program may have asked for what this library does not know. */
static blink_result_t check_unknown(const blink_comm_config_t *given)
{
    const unsigned char *bytes = (const unsigned char *)given;
    for (size_t i = sizeof(*given); i < given->struct_bytes; i++) {
        if (bytes[i] != 0)
            return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                              "config has %zu bytes, of which byte %zu is %u: libblinkclient %s knows %zu; "
                              "it is older than the program",
                              given->struct_bytes, i, bytes[i], BLINK_VERSION, sizeof(*given));
    }
    return BLINK_OK;
}

/* The daemon would show another name otherwise. */
static blink_result_t check_name(const char *name)
{
    for (size_t i = 0; name && name[i]; i++) {
        if (i + 1 >= BLINK_NAME_BYTES)
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.name has more than %d bytes: %.20s…",
                              BLINK_NAME_BYTES - 1, name);
        if (name[i] < ' ' || name[i] > '~')
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                              "config.name: byte %zu is 0x%02x, no printable character of ASCII", i,
                              (unsigned char)name[i]);
    }
    return BLINK_OK;
}

static blink_result_t check(const blink_comm_config_t *config)
{
    if (config->device < -1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.device is %d, not -1 or a device",
                          config->device);
    if (!blink_algorithm_valid((uint32_t)config->algorithm))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.algorithm is %d, which is none",
                          (int)config->algorithm);
    return check_name(config->name);
}

/* NULL, and the fields that an older program's struct lacks, are defaults. */
static blink_result_t make_whole(const blink_comm_config_t *given, blink_comm_config_t *config)
{
    const blink_comm_config_t defaults = BLINK_COMM_CONFIG_INIT;
    *config = defaults;
    if (!given)
        return BLINK_OK;
    size_t bytes = given->struct_bytes;
    if (bytes < BYTES_LEAST || bytes > BYTES_MOST || bytes % _Alignof(blink_comm_config_t) != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "config.struct_bytes is %zu, as in no version: use BLINK_COMM_CONFIG_INIT", bytes);
    BLINK_TRY(check_unknown(given));
    memcpy(config, given, bytes < sizeof(*config) ? bytes : sizeof(*config));
    config->struct_bytes = sizeof(*config);
    return BLINK_OK;
}

blink_result_t config_take(const blink_comm_config_t *given, blink_comm_config_t *config)
{
    BLINK_TRY(make_whole(given, config));
    BLINK_TRY(check(config));
    settings_fill_in(config);
    return BLINK_OK;
}

blink_result_t config_inherit(const blink_comm_t *comm, const blink_comm_config_t *given,
                              blink_comm_config_t *config)
{
    *config = comm_config(comm);
    int device = config->device;
    if (given)
        BLINK_TRY(config_take(given, config));
    config->device = device;
    return BLINK_OK;
}

/* The check of a configuration. */
#include "api/config.h"

#include "error.h"
#include "names.h"

blink_result_t config_check(const blink_comm_config_t *config)
{
    if (config->struct_bytes != sizeof(*config))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "config.struct_bytes is %zu, not %zu: use BLINK_COMM_CONFIG_INIT",
                          config->struct_bytes, sizeof(*config));
    if (config->device < -1)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.device is %d, not -1 or a device",
                          config->device);
    if (!blink_algorithm_valid((uint32_t)config->algorithm))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "config.algorithm is %d, which is none",
                          (int)config->algorithm);
    return BLINK_OK;
}

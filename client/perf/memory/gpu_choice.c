/* From ranks to devices to GPUs. */
#include "memory/gpu_choice.h"

#include <stdio.h>
#include <string.h>

/* "GPU-" and hexadecimal digits with dashes between some. */
static bool parse_uuid(const char *text, unsigned char uuid[PERF_GPU_UUID_BYTES])
{
    if (strncmp(text, "GPU-", 4) != 0)
        return false;
    text += 4;
    for (uint32_t i = 0; i < PERF_GPU_UUID_BYTES; i++) {
        text += *text == '-';
        if (sscanf(text, "%2hhx", &uuid[i]) != 1 || !text[1])
            return false;
        text += 2;
    }
    return !*text;
}

blink_result_t perf_find_device(const Blinkwire__QueryReply *query, const perf_options_t *options,
                                uint32_t rank, const Blinkwire__Device **device)
{
    uint32_t index = perf_device(options, rank);
    for (size_t i = 0; i < query->n_devices; i++) {
        *device = query->devices[i];
        if ((*device)->index == index)
            return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "rank %u: no device %u, the daemon has %zu", rank, index,
                      query->n_devices);
}

blink_result_t perf_choose_gpus(const Blinkwire__QueryReply *query, const perf_options_t *options,
                                perf_gpu_choice_t *choices)
{
    for (uint32_t rank = 0; rank < options->rank_count; rank++) {
        const Blinkwire__Device *device;
        BLINK_TRY(perf_find_device(query, options, rank, &device));
        if (!*device->gpu_uuid)
            return BLINK_FAIL(
                BLINK_ERR_UNSUPPORTED,
                "--device-memory: device %u (rank %u) of this daemon is in host memory, not on a GPU",
                device->index, rank);
        choices[rank].ordinal = options->gpu_count > 0 ? (int)options->gpus[rank % options->gpu_count] : -1;
        if (!parse_uuid(device->gpu_uuid, choices[rank].uuid))
            return BLINK_FAIL(BLINK_ERR_PROTOCOL, "device %u has the UUID \"%s\"", device->index,
                              device->gpu_uuid);
    }
    return BLINK_OK;
}

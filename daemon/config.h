/*
 * What blinkd was told: the configuration file and the flags that override it.
 */
#ifndef BLINK_CONFIG_H
#define BLINK_CONFIG_H

#include "base/log.h"
#include "error.h"

#include <stdbool.h>

#define CONFIG_PATH_DEFAULT "/etc/blink/blinkd.conf"

/* Asked for pacing without naming a scale: pace_default_scale() decides. */
#define CONFIG_PACE_AUTO (-1.0)

#define CONFIG_TEXT_BYTES 256

#define CONFIG_GPUS_MAX 32u

typedef struct config_gpu {
    uint32_t gpu;   /* the driver's number */
    uint32_t parts; /* devices that it is cut into */
} config_gpu_t;

/* "auto", or a sum of "host:N", "cuda:all" and "cuda:0,3" or "cuda:0x8". */
typedef struct config_devices {
    bool automatic; /* GPUs if there are any, else host devices */
    bool all_gpus;
    uint32_t gpu_count; /* of those named */
    config_gpu_t gpus[CONFIG_GPUS_MAX];
    uint32_t host_count; /* 0: none, or without GPUs as many as the topology has gpus */
} config_devices_t;

typedef struct config {
    char socket[CONFIG_TEXT_BYTES];
    uint32_t socket_mode;
    char topology[CONFIG_TEXT_BYTES]; /* built-in name or file; "": a plain memory topology */
    config_devices_t devices;
    bool force_protocol; /* instead of the planner's choice: */
    blink_protocol_t protocol;
    bool gpu_mps;        /* share GPUs by MPS; else in turns */
    bool gpu_legacy_ipc; /* accept memory by CUDA IPC handles */
    double pace_scale;   /* 0: not paced; CONFIG_PACE_AUTO */
    uint32_t workers;    /* 0: one per core */
    uint32_t clients_per_tenant;
    uint32_t comms_per_tenant;
    uint32_t regions_per_tenant;
    uint64_t registered_bytes_per_tenant;
    double init_timeout_s;
    double op_timeout_s;
    log_level_t log_level;
} config_t;

void config_set_defaults(config_t *config);

/* Read blinkd.conf over what config holds. Errors: NOT_FOUND, INVALID_ARGUMENT naming file, line, key, value
 * and what would be right. */
blink_result_t config_read_file(const char *path, config_t *config);

/* Set one value as a file would. The flags of blinkd are keys of the file by another name. Errors:
 * INVALID_ARGUMENT (unknown section or key; bad value and what would be right). */
blink_result_t config_set(config_t *config, const char *section, const char *key, const char *value);

/* The effective settings in the syntax of blinkd.conf. */
void config_print(const config_t *config);

#endif

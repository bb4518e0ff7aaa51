/*
 * What the user configured, by file and flags. One struct is filled by daemon/config.c and then passed down,
 * unchanged, to every room that asks for a setting.
 */
#ifndef BLINK_SETTINGS_H
#define BLINK_SETTINGS_H

#include "base/budget.h"
#include "base/log.h"
#include "blink/types.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_TEXT_BYTES 256
#define SETTINGS_LIST_BYTES 65536 /* of the list of peers */
#define SETTINGS_GPUS_MAX   32u
#define SETTINGS_NICS_MAX   32u
#define SETTINGS_NIC_BYTES  16u /* of an interface's name, with its end */

/* Pacing was asked for without a scale; before the settings are passed down, pace_default_scale() replaces
 * it. */
#define SETTINGS_PACE_AUTO (-1.0)

typedef struct settings_gpu {
    uint32_t gpu;   /* the driver's number */
    uint32_t parts; /* devices that the GPU is cut into */
} settings_gpu_t;

/* "auto", or a sum of "host:N", "cuda:all" and "cuda:0,3" or "cuda:0x8". */
typedef struct settings_devices {
    bool automatic; /* GPUs if there are any, else host devices */
    bool all_gpus;
    uint32_t gpu_count; /* of those named */
    settings_gpu_t gpus[SETTINGS_GPUS_MAX];
    uint32_t host_count; /* 0: none, or without GPUs as many as the topology has gpus */
} settings_devices_t;

/* What NVSwitches may reduce where AUTO chooses. Who names MULTICAST has all that they can, unless it is
 * none. */
typedef enum settings_nvswitch {
    SETTINGS_NVSWITCH_EXACT, /* what has the same result each time: integers */
    SETTINGS_NVSWITCH_ALL,
    SETTINGS_NVSWITCH_NO,
} settings_nvswitch_t;

/* How data of ops go to other hosts. */
typedef enum settings_transport {
    SETTINGS_TCP,
    SETTINGS_AUTO, /* by RDMA where both sides can, else by TCP */
    SETTINGS_RDMA,
} settings_transport_t;

/* A user's share of time, where it is not 1. */
typedef struct settings_weight {
    uint32_t uid, weight;
} settings_weight_t;

#define SETTINGS_WEIGHTS_MAX 64u
#define SETTINGS_WEIGHT_MOST 1000u

typedef struct settings {
    char socket[SETTINGS_TEXT_BYTES];
    uint32_t socket_mode;
    char admin_group[SETTINGS_TEXT_BYTES]; /* name or number; "": none */
    char topology[SETTINGS_TEXT_BYTES];    /* built-in name or file; "": a plain memory topology */
    settings_devices_t devices;
    bool force_protocol; /* for every op over links, instead of the planner's choice: */
    blink_protocol_t protocol;
    bool gpu_mps;        /* share GPUs by MPS; else in turns */
    bool gpu_legacy_ipc; /* accept memory by CUDA IPC handles */
    settings_nvswitch_t gpu_nvswitch;
    double pace_scale;      /* links run at this share of their capacity; 0: not paced */
    uint32_t workers;       /* threads that move data; 0: one per core */
    bool tenants_by_cgroup; /* a tenant is a user in a cgroup; else a user */
    budget_limit_t limits[BUDGET_KINDS];
    settings_weight_t weights[SETTINGS_WEIGHTS_MAX];
    uint32_t weight_count;
    uint64_t idle_scratch_bytes; /* kept for later runs of the same plans, */
    double idle_scratch_s;       /* and for how long */
    uint64_t cached_plan_bytes;  /* of plans that nothing runs */
    double cached_plan_s;
    double plan_seconds;   /* how long packing a plan may take; the best found by then is taken */
    double init_timeout_s; /* how long ranks may take to join */
    double op_timeout_s;   /* how long an op may wait for ranks */
    double run_timeout_s, run_timeout_factor; /* how long a run may take: so many seconds, and so many times
                                                 what was predicted, whichever is longer */
    /* Other hosts. Lists are read by settings_next_item(). */
    char network_listen[SETTINGS_TEXT_BYTES]; /* addresses; "": this daemon knows no other */
    char network_peers[SETTINGS_LIST_BYTES];  /* hosts to have a session with at all times */
    char network_host[SETTINGS_TEXT_BYTES];   /* what this daemon is called; "": as the machine */
    char network_cluster[SETTINGS_TEXT_BYTES];
    char network_nics[SETTINGS_TEXT_BYTES]; /* "eth0@5, eth1": NICs with their GB/s; "": those listened at */
    char network_fabric[SETTINGS_TEXT_BYTES]; /* the file that says what the network is made of; "": one
                                                 switch */
    char network_key[SETTINGS_TEXT_BYTES];    /* the key's file; "": see net/key.h */
    settings_transport_t network_transport;
    bool network_adaptive_routing; /* packets of an RDMA write may take several ways */
    bool network_gpu_direct;       /* RDMA devices write to memory of GPUs */
    uint64_t network_peers_most; /* other hosts that a host exchanges data with by the plans that are chosen;
                                    0: any number */
    double network_timeout_s;    /* how long another host may give no sign of life */
    log_level_t log_level;
} settings_t;

/* Cut the next item off a list, whose items have commas or spaces between them; NULL: there are no more. */
static inline char *settings_next_item(char **list)
{
    return strtok_r(*list, ", ", list);
}

/* An item of network_nics. */
typedef struct settings_nic {
    char name[SETTINGS_NIC_BYTES];
    double GBps; /* 0: as the interface's driver tells */
} settings_nic_t;

/* False: it is none. */
static inline bool settings_parse_nic(const char *item, settings_nic_t *nic)
{
    size_t bytes = strcspn(item, "@");
    char *end = NULL;
    nic->GBps = item[bytes] ? strtod(item + bytes + 1, &end) : 0.0;
    if (bytes == 0 || bytes >= sizeof(nic->name) || memchr(item, '/', bytes) ||
        (end && (*end || !isfinite(nic->GBps) || nic->GBps <= 0.0)))
        return false;
    memcpy(nic->name, item, bytes);
    nic->name[bytes] = '\0';
    return true;
}

/* "mps" or "isolated", as the file spells it. */
static inline const char *settings_sharing_name(const settings_t *settings)
{
    return settings->gpu_mps ? "mps" : "isolated";
}

#endif

/*
 * What every object of the control thread reaches: the settings, the devices, the other threads, and the
 * lists of what clients have. server.c makes and ends this struct. Everything in control/ belongs to the
 * control thread.
 */
#ifndef BLINK_CONTROL_H
#define BLINK_CONTROL_H

#include "base/bag.h"
#include "base/list.h"
#include "base/settings.h"
#include "control/beat.h"
#include "control/turn.h"
#include "engine/engine.h"
#include "unique_id.h"

#include <uv.h>

/* The regions that GPUs reach (memory/region_gpu.h). */
typedef struct region_gpus {
    list_t reached;  /* region_t.of_gpus: that the GPU worker has, or has refused */
    list_t lost;     /* that a worker had which has ended: what becomes of them waits for a slice */
    list_t unmapped; /* of the host, which a worker that has started is to map */
    uint32_t asked;  /* of these, that it has been asked to map, and has not answered */
    uint32_t losses; /* workers that have ended */
    work_t work;
} region_gpus_t;

typedef struct gpus gpus_t;
typedef struct links links_t;
typedef struct data data_t;
typedef struct peers peers_t;
typedef struct rendezvous rendezvous_t;
typedef struct rosters rosters_t;

typedef struct control {
    const settings_t *settings;
    const topo_t *topo; /* server_config_t, as the next one */
    const topo_t *local;
    int holes;                   /* holes.h: of all mapped memory of clients; -1: the kernel has none */
    uint32_t device_count;       /* the first so many gpus of topo */
    const uint32_t *gpu_of_node; /* by topology node; NULL: no device is on a GPU */
    uv_loop_t loop;
    turns_t turns;
    exec_host_t *exec;
    engine_t *engine;
    gpus_t *gpus; /* NULL: the daemon serves none */
    region_gpus_t region_gpus;
    links_t *links;
    peers_t *peers;           /* NULL: the daemon knows no other */
    rendezvous_t *rendezvous; /* of ranks on several hosts; NULL as well */
    data_t *data;             /* the connections to them; NULL as well */
    beat_t beat;              /* once the engine is there */
    rosters_t *rosters;
    tenants_t tenants;
    list_t ops_asked; /* comms/ops.c's: questions that the engine has */
    list_t fabrics;   /* comms/fabrics.h: of communicators that span hosts */
    list_t sessions;
    list_t ending;    /* sessions that have been told to end, because the daemon stops */
    list_t ungreeted; /* sessions, oldest first, until they say hello */
    uv_timer_t hello_timer;
    list_t clients;                     /* newest first */
    bag_t all_clients;                  /* the same; and those of each tenant are in its bag */
    char *topology_json;                /* made when first asked for */
    int64_t admin_group;                /* whose members see everything; -1: none */
    uint32_t client_count, last_client; /* last_client: the newest one's number */
    uint64_t started_ns;
    unique_id_t home; /* what ids that are made here begin with; its nonce is unused */
    bool stopping;    /* no new connections; the loop ends with the last session, once peers have left */
    bool is_leaving;  /* peers_leave() has not called back yet */
    /* What becomes of data connections is told to nobody: the daemon stops. The control thread stores this
     * before any peer hears of it, and on_data_lost() of hosts.c loads it. */
    atomic_bool is_quiet;
} control_t;

/* The number of the GPU that a device is, or is a part of; GPU_NONE: a host device. */
static inline uint32_t control_gpu_of_device(const control_t *control, uint32_t device)
{
    return control->gpu_of_node ? control->gpu_of_node[control->topo->gpus[device]] : GPU_NONE;
}

#endif

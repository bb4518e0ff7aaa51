/*
 * From the settings to the devices that the daemon serves: on host memory, on GPUs or on both, and the
 * topology they lie in.
 */
#ifndef BLINK_MACHINE_H
#define BLINK_MACHINE_H

#include "base/settings.h"
#include "exec/cuda/wire_memory.h"
#include "gpu_worker/start.h"
#include "topo/topo.h"

typedef struct machine {
    topo_t *topo;
    topo_t *with_network;  /* the same with NICs and the network behind them; NULL: the daemon is to know no
                              other host */
    uint32_t device_count; /* the first so many gpus of topo */
    bool has_gpus;
    wire_memory_t *wires;  /* for the worker; NULL: no GPUs were asked for */
    gpu_worker_t worker;   /* started, if the machine has GPUs */
    gpu_hello_t hello;     /* what the worker said */
    uint32_t *gpu_of_node; /* by topology node; GPU_NONE: a host device, or no device. NULL: no GPUs */
} machine_t;

/*
 * Devices in the order in which the setting names them; with a topology they are its gpus in that order. With
 * GPUs their worker has been started and has said hello. A GPU that is cut into parts has so many devices
 * with its memory between them. NVLink, NVSwitch and PCIe are as NVML and sysfs tell (topo_detect()), or one
 * PCIe hub where they do not tell. *machine is the caller's: machine_fini(), which ends the worker if nobody
 * took it. Errors: those of topo_load(); NOT_FOUND (GPUs are asked for, and there is no driver, or no such
 * GPU), INVALID_ARGUMENT (more devices than the topology has; a GPU named twice), UNSUPPORTED (built without
 * CUDA), SYSTEM, NO_MEMORY. NICs are those that the settings name, else the interfaces with an address at
 * which the daemon is to listen.
 */
blink_result_t machine_make(const settings_t *settings, machine_t *machine);
void machine_fini(machine_t *machine);

/* "8 host devices on memory", for messages. Returns `text`. */
const char *machine_describe(const machine_t *machine, char *text, size_t bytes);

#endif

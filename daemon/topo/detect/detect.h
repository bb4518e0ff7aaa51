/*
 * Finding out the topology of the machine that this runs on. Not part of `topo`, which is pure: this asks
 * hwloc, NVML and sysfs.
 */
#ifndef BLINK_TOPO_DETECT_H
#define BLINK_TOPO_DETECT_H

#include "topo/topo.h"

/* Where to look. {0} is this machine; the tests look elsewhere. */
typedef struct detect_sources {
    const char *sysfs;     /* NULL: "/sys" */
    const char *hwloc_xml; /* NULL: this machine; else a file in which hwloc exported one */
    const char *nvml;      /* NULL: "libnvidia-ml.so.1" */
} detect_sources_t;

/*
 * The topology of one host, "n0", from what can be found; what cannot is left out, nothing is made up:
 * - gpu0, gpu1, …: GPUs in the order of their PCI addresses, as NVML or the PCI classes of NVIDIA and AMD
 * tell them;
 * - NVLinks between them; those that lead to NVSwitches lead to the one switch "nvswitch" (NVML);
 * - cpu0, cpu1, …: the packages, linked in pairs (hwloc). A device whose package is unknown hangs on cpu0;
 * - pci-<address>: PCIe bridges that branch to GPUs or NICs (hwloc); those in between only bound the link's
 * capacity;
 * - <verbs device>, such as mlx5_0: its active port 1; other active ports are <verbs device>:<port> (sysfs).
 * A port that has no PCI device (a software one) hangs on cpu0. Capacities are counted as for NCCL's topology
 * files. The name is that of the GPUs, if NVML tells one for all. Thread-safe. *topo is owned by the caller:
 * topo_destroy(). Errors: NOT_FOUND (no GPU; tells what was asked and found), SYSTEM (hwloc cannot look),
 * INVALID_ARGUMENT (what was found contradicts itself), NO_MEMORY.
 */
blink_result_t topo_detect(const detect_sources_t *sources, topo_t **topo);

/* GB/s of a network interface in one direction, as its driver tells sysfs (virtual Ethernet: 1.25); 0: it
 * does not tell, or there is no such interface. `sysfs` NULL: "/sys". */
double detect_nic_GBps(const char *sysfs, const char *interface);

/* How many GPUs of NVIDIA this machine has for computing, whether or not the driver works: "3D controllers"
 * on PCI, and all that the kernel's driver "nvidia" has. `sysfs` NULL: "/sys". Thread-safe. */
uint32_t detect_nvidia_gpus(const char *sysfs);

#endif

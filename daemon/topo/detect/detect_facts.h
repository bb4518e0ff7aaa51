/*
 * What detection found, before anything is concluded from it: the readers of hwloc, NVML and sysfs each add
 * their part, detect_build() makes a topology of it. Between them so that neither has to know the others.
 */
#ifndef BLINK_TOPO_DETECT_FACTS_H
#define BLINK_TOPO_DETECT_FACTS_H

#include "topo/detect/detect.h"

#define DETECT_NONE UINT32_MAX

/* A PCI function in one number: domain, bus (8 bits), device (5), function (3). Sorts as lspci does. */
typedef uint64_t detect_address_t;
#define DETECT_NO_ADDRESS UINT64_MAX
#define DETECT_PCI_BYTES  24 /* "00000000:06:00.0" */

typedef struct detect_cpu {
    double GBps; /* to other packages */
} detect_cpu_t;

typedef enum detect_pci_kind { DETECT_BRIDGE, DETECT_GPU, DETECT_OTHER } detect_pci_kind_t;

typedef struct detect_pci {
    detect_address_t address;
    detect_pci_kind_t kind;
    uint32_t parent; /* the bridge above; it comes earlier. DETECT_NONE: the cpu */
    uint32_t cpu;
    double GBps; /* of its own link */
} detect_pci_t;

typedef struct detect_gpu {
    detect_address_t address;
    char name[64];
    long sm; /* compute capability, 70 for 7.0; 0: unknown */
} detect_gpu_t;

/* One NVLink as the GPU at its `from` end sees it; the other end tells the other direction. */
typedef struct detect_nvlink {
    detect_address_t from, to;
    bool to_switch;
} detect_nvlink_t;

/* A port of a verbs device. */
typedef struct detect_port {
    char device[64];
    uint32_t number;
    detect_address_t address; /* of its PCI function, or DETECT_NO_ADDRESS */
    bool active;
    double GBps;
} detect_port_t;

typedef struct detect_facts {
    detect_cpu_t *cpus; /* packages; at least one */
    detect_pci_t *pcis;
    detect_gpu_t *gpus; /* NVML's */
    detect_nvlink_t *nvlinks;
    detect_port_t *ports;
    uint32_t cpu_count, pci_count, gpu_count, nvlink_count, port_count;
    uint32_t verbs_device_count;
    char nvml_trouble[64]; /* why NVML told nothing; "" if it did */
} detect_facts_t;

/* Start from {0}. Adding copies; NO_MEMORY leaves the facts as they were. */
blink_result_t detect_add_cpu(detect_facts_t *facts, const detect_cpu_t *cpu);
blink_result_t detect_add_pci(detect_facts_t *facts, const detect_pci_t *pci);
blink_result_t detect_add_gpu(detect_facts_t *facts, const detect_gpu_t *gpu);
blink_result_t detect_add_nvlink(detect_facts_t *facts, const detect_nvlink_t *nvlink);
blink_result_t detect_add_port(detect_facts_t *facts, const detect_port_t *port);
void detect_facts_release(detect_facts_t *facts);

detect_address_t detect_address(unsigned domain, unsigned bus, unsigned device, unsigned function);
/* "0000:06:00.0", with a domain of any length; DETECT_NO_ADDRESS for any other text. */
detect_address_t detect_parse_address(const char *text);
/* Returns `text`. */
const char *detect_address_text(detect_address_t address, char text[DETECT_PCI_BYTES]);

/* Packages and the PCI tree. SYSTEM if hwloc fails. */
blink_result_t detect_read_hwloc(const char *xml, const char *sysfs, detect_facts_t *facts);
/* GPUs and NVLinks. What goes wrong with NVML itself is a fact, not an error: only NO_MEMORY. */
blink_result_t detect_read_nvml(const char *library, detect_facts_t *facts);
/* Verbs devices. A system without any is no error: only NO_MEMORY. */
blink_result_t detect_read_verbs(const char *sysfs, detect_facts_t *facts);
/* GB/s of a PCI function's own link at its best, from sysfs; 0 if that does not tell. */
double detect_pcie_GBps(const char *sysfs, detect_address_t address);

/* Conclude. Errors as topo_detect()'s. */
blink_result_t detect_build(const detect_facts_t *facts, topo_t **topo);

#endif

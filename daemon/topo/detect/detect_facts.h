/*
 * What detection found, before anything is concluded from it: the readers (detect_read.h) add to the facts,
 * detect_build() makes a topology of them.
 */
#ifndef BLINK_TOPO_DETECT_FACTS_H
#define BLINK_TOPO_DETECT_FACTS_H

#include "base/vec.h"
#include "blink/types.h"

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

/* {0} is no facts. Arrays are added to by vec_push(). */
typedef struct detect_facts {
    VEC(detect_cpu_t) cpus; /* packages; at least one, once hwloc was read */
    VEC(detect_pci_t) pcis;
    VEC(detect_gpu_t) gpus; /* NVML's */
    VEC(detect_nvlink_t) nvlinks;
    VEC(detect_port_t) ports;
    uint32_t verbs_device_count;
    char nvml_trouble[64]; /* why NVML told nothing; "" if it did */
} detect_facts_t;

void detect_facts_release(detect_facts_t *facts);

/* What a reader returns when it cannot add to the facts: NO_MEMORY. */
blink_result_t detect_out_of_memory(void);

detect_address_t detect_address(unsigned domain, unsigned bus, unsigned device, unsigned function);
/* "0000:06:00.0", with a domain of any length; DETECT_NO_ADDRESS for any other text. */
detect_address_t detect_parse_address(const char *text);
/* Returns `text`. */
const char *detect_address_text(detect_address_t address, char text[DETECT_PCI_BYTES]);

#endif

/*
 * The readers of detection: each asks one source and adds what it tells to the facts.
 */
#ifndef BLINK_TOPO_DETECT_READ_H
#define BLINK_TOPO_DETECT_READ_H

#include "topo/detect/detect_facts.h"

/* Packages and the PCI tree, of this machine or of a file that hwloc exported. Errors: SYSTEM (hwloc fails),
 * NO_MEMORY. */
blink_result_t detect_read_hwloc(const char *xml, const char *sysfs, detect_facts_t *facts);

/* GPUs and NVLinks. What goes wrong with NVML itself is a fact, not an error. Errors: NO_MEMORY. */
blink_result_t detect_read_nvml(const char *library, detect_facts_t *facts);

/* Verbs devices. A system without any is no error. Errors: NO_MEMORY. */
blink_result_t detect_read_verbs(const char *sysfs, detect_facts_t *facts);

/* The first line of a file of sysfs, or what fits of it; false: there is none. */
#define DETECT_VALUE_BYTES 64
bool detect_read_value(const char *path, char value[DETECT_VALUE_BYTES]);

/* GB/s of a PCI function's own link at its best, from sysfs; 0 if sysfs does not tell. */
double detect_pcie_GBps(const char *sysfs, detect_address_t address);

#endif

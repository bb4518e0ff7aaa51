/*
 * Detection from end to end, and the facts as they are collected.
 */
#include "error.h"
#include "topo/detect/detect_facts.h"

#include <stdio.h>
#include <stdlib.h>

blink_result_t topo_detect(const detect_sources_t *sources, topo_t **topo)
{
    const char *sysfs = sources->sysfs ? sources->sysfs : "/sys";
    detect_facts_t facts = {0};
    blink_result_t result = detect_read_hwloc(sources->hwloc_xml, sysfs, &facts);
    if (result == BLINK_OK)
        result = detect_read_nvml(sources->nvml ? sources->nvml : "libnvidia-ml.so.1", &facts);
    if (result == BLINK_OK)
        result = detect_read_verbs(sysfs, &facts);
    if (result == BLINK_OK)
        result = detect_build(&facts, topo);
    detect_facts_release(&facts);
    return result;
}

/* The array with room for one more item; it is full whenever its count is a power of two. NULL: no memory. */
static void *make_room(void *items, uint32_t count, size_t item_bytes)
{
    if (count & (count - 1))
        return items;
    void *grown = realloc(items, (count ? (size_t)count * 2 : 1) * item_bytes);
    if (!grown)
        blink_error_set(BLINK_ERR_NO_MEMORY, "out of memory detecting the topology");
    return grown;
}

blink_result_t detect_add_cpu(detect_facts_t *facts, const detect_cpu_t *cpu)
{
    detect_cpu_t *cpus = make_room(facts->cpus, facts->cpu_count, sizeof(*cpus));
    if (!cpus)
        return BLINK_ERR_NO_MEMORY;
    facts->cpus = cpus;
    cpus[facts->cpu_count++] = *cpu;
    return BLINK_OK;
}

blink_result_t detect_add_pci(detect_facts_t *facts, const detect_pci_t *pci)
{
    detect_pci_t *pcis = make_room(facts->pcis, facts->pci_count, sizeof(*pcis));
    if (!pcis)
        return BLINK_ERR_NO_MEMORY;
    facts->pcis = pcis;
    pcis[facts->pci_count++] = *pci;
    return BLINK_OK;
}

blink_result_t detect_add_gpu(detect_facts_t *facts, const detect_gpu_t *gpu)
{
    detect_gpu_t *gpus = make_room(facts->gpus, facts->gpu_count, sizeof(*gpus));
    if (!gpus)
        return BLINK_ERR_NO_MEMORY;
    facts->gpus = gpus;
    gpus[facts->gpu_count++] = *gpu;
    return BLINK_OK;
}

blink_result_t detect_add_nvlink(detect_facts_t *facts, const detect_nvlink_t *nvlink)
{
    detect_nvlink_t *nvlinks = make_room(facts->nvlinks, facts->nvlink_count, sizeof(*nvlinks));
    if (!nvlinks)
        return BLINK_ERR_NO_MEMORY;
    facts->nvlinks = nvlinks;
    nvlinks[facts->nvlink_count++] = *nvlink;
    return BLINK_OK;
}

blink_result_t detect_add_port(detect_facts_t *facts, const detect_port_t *port)
{
    detect_port_t *ports = make_room(facts->ports, facts->port_count, sizeof(*ports));
    if (!ports)
        return BLINK_ERR_NO_MEMORY;
    facts->ports = ports;
    ports[facts->port_count++] = *port;
    return BLINK_OK;
}

void detect_facts_release(detect_facts_t *facts)
{
    free(facts->cpus);
    free(facts->pcis);
    free(facts->gpus);
    free(facts->nvlinks);
    free(facts->ports);
    *facts = (detect_facts_t){0};
}

detect_address_t detect_address(unsigned domain, unsigned bus, unsigned device, unsigned function)
{
    return (detect_address_t)domain << 16 | (bus & 0xff) << 8 | (device & 0x1f) << 3 | (function & 7);
}

detect_address_t detect_parse_address(const char *text)
{
    unsigned domain, bus, device, function;
    int end = 0;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 || text[end])
        return DETECT_NO_ADDRESS;
    return detect_address(domain, bus, device, function);
}

const char *detect_address_text(detect_address_t address, char text[DETECT_PCI_BYTES])
{
    snprintf(text, DETECT_PCI_BYTES, "%04x:%02x:%02x.%x", (unsigned)(address >> 16),
             (unsigned)(address >> 8) & 0xff, (unsigned)(address >> 3) & 0x1f, (unsigned)address & 7);
    return text;
}

#include "topo/detect/detect_facts.h"

#include "error.h"

#include <stdio.h>

void detect_facts_release(detect_facts_t *facts)
{
    vec_free(&facts->cpus);
    vec_free(&facts->pcis);
    vec_free(&facts->gpus);
    vec_free(&facts->nvlinks);
    vec_free(&facts->ports);
    *facts = (detect_facts_t){0};
}

blink_result_t detect_out_of_memory(void)
{
    return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "out of memory detecting the topology");
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

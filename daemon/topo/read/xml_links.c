/* The links of NCCL's topology XML that are not its PCIe tree: NVLink, AMD's xGMI, links to CPUs, and those
 * between PCIe switches. */
#include "topo/read/xml_reader.h"

#include "topo/rates.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NVSWITCH_ID "nvswitch"

/* The classes of what such a link leads to, as NCCL knows them. A switch that a virtual machine cannot see
 * has the target below. */
#define CLASS_NVSWITCH     "0x068000"
#define CLASS_CPU          "0x068001"
#define INVISIBLE_NVSWITCH "fffffff:ffff:ff"

/* Whether all GPUs that have NVLinks are of those whose NVSwitches reduce. gpu_link_GBps() checks the
 * numbers. */
static bool nvswitch_reduces(const xml_reader_t *reader)
{
    for (uint32_t i = 0; i < reader->device_count; i++) {
        const xml_device_t *device = &reader->devices[i];
        bool has_links = device->is_gpu_element && xml_child(device->element, "nvlink");
        const char *sm = has_links ? xml_text(device->element, "sm") : NULL;
        if (sm && !topo_nvswitch_reduces(strtol(sm, NULL, 10)))
            return false;
    }
    return true;
}

/* All NVSwitches are one, of no host if there are several. */
static blink_result_t link_to_nvswitch(xml_reader_t *reader, const char *gpu_id, double GBps, uint32_t count)
{
    if (!reader->has_nvswitch)
        BLINK_TRY(topo_build_nvswitch(reader->builder, reader->host_count > 1 ? NULL : "n0", NVSWITCH_ID,
                                      nvswitch_reduces(reader)));
    reader->has_nvswitch = true;
    return topo_build_link(reader->builder, gpu_id, NVSWITCH_ID, TOPO_NVSWITCH, GBps, count,
                           TOPO_DEFAULT_LATENCY_US, true);
}

/* To all parts of the GPU that is the target. One way: it lists the other direction itself. */
static blink_result_t link_to_gpu(xml_reader_t *reader, const xmlNode *link, const xml_device_t *gpu,
                                  const char *target, double GBps, uint32_t count)
{
    char id[XML_ID_BYTES], peer_id[XML_ID_BYTES];
    size_t count_there = 0, found = 0;
    xml_device_id(gpu, id);
    if (strcasecmp(target, gpu->busid) == 0)
        return NOTE_XML(reader, link, "of %s leads to itself, and is left out", id);
    const xml_busid_t *there = xml_busids_find(&reader->device_busids, gpu->host, target, &count_there);
    for (size_t i = 0; i < count_there; i++) {
        const xml_device_t *peer = &reader->devices[there[i].index];
        if (peer->kind != TOPO_DEVICE)
            continue;
        xml_device_id(peer, peer_id);
        BLINK_TRY(topo_build_link(reader->builder, id, peer_id, TOPO_NVLINK, GBps / peer->parts, count,
                                  TOPO_DEFAULT_LATENCY_US, false));
        found++;
    }
    if (found == 0) /* the process that wrote the file was not given that GPU */
        return NOTE_XML(reader, link, "of %s leads to " TOPO_SHOWN ", which the file does not have: left out",
                        id, target);
    return BLINK_OK;
}

/* GB/s of one link of the gpu, by what kind of element it is. */
static blink_result_t gpu_link_GBps(const xml_reader_t *reader, const xmlNode *link, const xml_device_t *gpu,
                                    double *GBps)
{
    long sm = 0;
    if (xml_is(link, "xgmi")) {
        *GBps = topo_xgmi_GBps(xml_text(gpu->element, "gcn"));
        return BLINK_OK;
    }
    BLINK_TRY(xml_integer(reader, gpu->element, "sm", 0, INT_MAX, &sm));
    *GBps = topo_nvlink_GBps(sm);
    if (*GBps == 0)
        return FAIL_XML(reader, link, "of gpu%ld: sm_%ld is older than NVLink", gpu->number, sm);
    return BLINK_OK;
}

static blink_result_t read_gpu_link(xml_reader_t *reader, const xmlNode *link, const xml_device_t *gpu,
                                    const char *cpu_id)
{
    const char *target = xml_text(link, "target"), *tclass = xml_text(link, "tclass");
    char id[XML_ID_BYTES];
    double GBps = 0;
    long count = 0;
    xml_device_id(gpu, id);
    if (!target)
        return FAIL_XML(reader, link, "of %s has no target", id);
    BLINK_TRY(xml_integer(reader, link, "count", 1, TOPO_PARALLEL_MAX, &count));
    BLINK_TRY(gpu_link_GBps(reader, link, gpu, &GBps));
    GBps /= gpu->parts;
    bool is_invisible = strncmp(target, INVISIBLE_NVSWITCH, strlen(INVISIBLE_NVSWITCH)) == 0;
    if (is_invisible || (tclass && strcmp(tclass, CLASS_NVSWITCH) == 0))
        return link_to_nvswitch(reader, id, GBps, (uint32_t)count);
    if (tclass && strcmp(tclass, CLASS_CPU) == 0)
        return topo_build_link(reader->builder, id, cpu_id, TOPO_NVLINK, GBps, (uint32_t)count,
                               TOPO_DEFAULT_LATENCY_US, true);
    return link_to_gpu(reader, link, gpu, target, GBps, (uint32_t)count);
}

static blink_result_t read_c2c(xml_reader_t *reader, const xmlNode *c2c, const xml_device_t *gpu,
                               const char *cpu_id)
{
    char id[XML_ID_BYTES];
    long MBps = 0, count = 0;
    xml_device_id(gpu, id);
    BLINK_TRY(xml_integer(reader, c2c, "bw", 1, INT_MAX, &MBps));
    BLINK_TRY(xml_integer(reader, c2c, "count", 1, TOPO_PARALLEL_MAX, &count));
    return topo_build_link(reader->builder, id, cpu_id, TOPO_NVLINK, (double)MBps / 1000 / gpu->parts,
                           (uint32_t)count, TOPO_DEFAULT_LATENCY_US, true);
}

/* With each part of the same GPU that comes before it. */
static blink_result_t link_to_parts(xml_reader_t *reader, const xml_device_t *gpu)
{
    char id[XML_ID_BYTES], part_id[XML_ID_BYTES];
    xml_device_id(gpu, id);
    for (const xml_device_t *part = reader->devices; part < gpu; part++) {
        if (part->pci != gpu->pci)
            continue;
        xml_device_id(part, part_id);
        BLINK_TRY(topo_build_link(reader->builder, part_id, id, TOPO_NVLINK, TOPO_GPU_PARTS_GBps, 1,
                                  TOPO_DEFAULT_LATENCY_US, true));
    }
    return BLINK_OK;
}

blink_result_t xml_read_gpu(xml_reader_t *reader, const xml_device_t *gpu, const char *cpu_id)
{
    BLINK_TRY(link_to_parts(reader, gpu));
    for (const xmlNode *child = gpu->element->children; child; child = child->next) {
        if (xml_is(child, "nvlink") || xml_is(child, "xgmi"))
            BLINK_TRY(read_gpu_link(reader, child, gpu, cpu_id));
        else if (xml_is(child, "c2c"))
            BLINK_TRY(read_c2c(reader, child, gpu, cpu_id));
        else if (child->type == XML_ELEMENT_NODE)
            BLINK_TRY(NOTE_XML(reader, child, "is nothing that is known of a GPU, and is left out"));
    }
    return BLINK_OK;
}

/* ---- between PCIe switches ---- */

/* One way: the other switch lists its own. */
static blink_result_t read_pcilink(xml_reader_t *reader, const xml_busids_t *busids, const xmlNode *link,
                                   const xml_switch_t *from)
{
    const char *target = xml_text(link, "target");
    size_t count = 0;
    if (!target)
        return FAIL_XML(reader, link, "of %s has no target", from->id);
    const xml_busid_t *there = xml_busids_find(busids, from->host, target, &count);
    for (size_t i = 0; i < count; i++) {
        const xml_switch_t *to = &reader->switches.items[there[i].index];
        if (to != from)
            return topo_build_link(reader->builder, from->id, to->id, TOPO_PCIE, TOPO_PCIE_SWITCHES_GBps, 1,
                                   TOPO_PCIE_LATENCY_US, false);
    }
    return NOTE_XML(reader, link, "of %s leads to " TOPO_SHOWN ", which is no other switch: left out",
                    from->id, target);
}

static blink_result_t sort_switches(const xml_reader_t *reader, xml_busids_t *busids)
{
    if (!vec_reserve(busids, reader->switches.count))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory",
                          topo_source_tail(reader->source));
    for (size_t i = 0; i < reader->switches.count; i++) {
        const xml_switch_t *of = &reader->switches.items[i];
        busids->items[busids->count++] =
            (xml_busid_t){.host = of->host, .busid = of->busid, .index = (uint32_t)i};
    }
    xml_busids_sort(busids);
    return BLINK_OK;
}

blink_result_t xml_read_pcilinks(xml_reader_t *reader)
{
    xml_busids_t busids = {0};
    blink_result_t result = sort_switches(reader, &busids);
    for (size_t i = 0; i < reader->switches.count; i++) {
        const xml_switch_t *from = &reader->switches.items[i];
        for (const xmlNode *child = from->pci->children; child && result == BLINK_OK; child = child->next)
            if (xml_is(child, "pcilink"))
                result = read_pcilink(reader, &busids, child, from);
    }
    vec_free(&busids);
    return result;
}

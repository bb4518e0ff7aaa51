/* The devices of NCCL's topology XML, on one host or, by their CPUs' host_hash, on several. */
#include "topo/read/xml_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what there is ---- */

/* Of what kind is a pci element by its PCI class, where the file has no elements of that kind? */
static bool device_by_class(const xml_reader_t *reader, const xmlNode *pci, topo_node_kind_t *kind)
{
    static const char *const gpu_classes[] = {"0x0302", "0x0300", "0x0380", "0x1200"};
    const char *class = xml_text(pci, "class");
    bool is_gpu = false;
    for (size_t i = 0; class && i < sizeof(gpu_classes) / sizeof(gpu_classes[0]); i++)
        is_gpu |= strncmp(class, gpu_classes[i], 6) == 0;
    *kind = is_gpu ? TOPO_DEVICE : TOPO_NIC;
    return is_gpu ? reader->gpus_by_class : reader->nics_by_class && class && strncmp(class, "0x02", 4) == 0;
}

static blink_result_t add_device(xml_reader_t *reader, const xmlNode *element, const xml_device_t *device)
{
    if (reader->device_count == XML_DEVICES_MAX)
        return FAIL_XML(reader, element, "is one more than the %u devices of a topology", XML_DEVICES_MAX);
    reader->devices[reader->device_count++] = *device;
    return BLINK_OK;
}

/* The gpu elements of a pci are ranks on that GPU, or parts of it: a device for each part. */
static blink_result_t collect_gpus(xml_reader_t *reader, const xmlNode *pci, uint32_t host)
{
    uint32_t first = reader->device_count;
    const char *busid = NULL;
    BLINK_TRY(xml_busid(reader, pci, &busid));
    for (const xmlNode *gpu = pci->children; gpu; gpu = gpu->next) {
        if (!xml_is(gpu, "gpu"))
            continue;
        xml_device_t device = {.element = gpu,
                               .pci = pci,
                               .is_gpu_element = true,
                               .busid = busid,
                               .kind = TOPO_DEVICE,
                               .host = host};
        BLINK_TRY(xml_integer(reader, gpu, "dev", 0, INT_MAX, &device.number));
        BLINK_TRY(xml_integer_or(reader, gpu, "mlopart", 0, INT_MAX, -1, &device.part));
        uint32_t same = first;
        while (same < reader->device_count && reader->devices[same].part != device.part)
            same++;
        if (same == reader->device_count)
            BLINK_TRY(add_device(reader, gpu, &device));
        else
            BLINK_TRY(NOTE_XML(reader, gpu,
                               "is another rank on the GPU of line %ld: one device stands for both",
                               xmlGetLineNo(reader->devices[same].element)));
    }
    for (uint32_t i = first; i < reader->device_count; i++)
        reader->devices[i].parts = reader->device_count - first;
    return BLINK_OK;
}

static blink_result_t collect_ports(xml_reader_t *reader, const xmlNode *nic, uint32_t host)
{
    for (const xmlNode *net = nic->children; net; net = net->next) {
        xml_device_t device = {.element = net, .kind = TOPO_NIC, .host = host, .part = -1, .parts = 1};
        if (!xml_is(net, "net"))
            continue;
        BLINK_TRY(xml_integer(reader, net, "dev", 0, INT_MAX, &device.number));
        BLINK_TRY(add_device(reader, net, &device));
    }
    return BLINK_OK;
}

/* Recursion is bounded: the parser refuses documents nested deeper than 256 elements. */
static blink_result_t collect(xml_reader_t *reader, const xmlNode *parent, uint32_t host)
{
    for (const xmlNode *child = parent->children; child; child = child->next) {
        xml_device_t device = {.element = child, .pci = child, .host = host, .part = -1, .parts = 1};
        if (xml_is(child, "nic")) {
            BLINK_TRY(collect_ports(reader, child, host));
        } else if (!xml_is(child, "pci")) {
            continue;
        } else if (xml_child(child, "gpu")) {
            BLINK_TRY(collect_gpus(reader, child, host));
        } else if (device_by_class(reader, child, &device.kind)) {
            BLINK_TRY(xml_busid(reader, child, &device.busid));
            BLINK_TRY(add_device(reader, child, &device));
        } else {
            BLINK_TRY(collect(reader, child, host));
        }
    }
    return BLINK_OK;
}

/* ---- hosts ---- */

static const char *host_hash(const xmlNode *cpu)
{
    const char *hash = xml_text(cpu, "host_hash");
    return hash ? hash : "";
}

uint32_t xml_host_of(const xml_reader_t *reader, const xmlNode *cpu)
{
    uint32_t host = 0;
    while (host < reader->host_count && strcmp(reader->hosts[host], host_hash(cpu)) != 0)
        host++;
    return host;
}

static blink_result_t add_host(xml_reader_t *reader, const xmlNode *cpu)
{
    if (xml_host_of(reader, cpu) < reader->host_count)
        return BLINK_OK;
    if (reader->host_count == XML_HOSTS_MAX)
        return FAIL_XML(reader, cpu, "is of one more than the %u hosts of a file", XML_HOSTS_MAX);
    reader->hosts[reader->host_count++] = host_hash(cpu);
    return BLINK_OK;
}

/* ---- their names ---- */

/* By kind, host, and number, then by bus, which is the order in which the driver numbers them, and part. */
static int compare_devices(const void *one, const void *other)
{
    const xml_device_t *a = one, *b = other;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    int order = a->busid && b->busid ? strcasecmp(a->busid, b->busid) : 0;
    if (order != 0)
        return order;
    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    const long line = xmlGetLineNo(a->element), other_line = xmlGetLineNo(b->element);
    return (line > other_line) - (line < other_line);
}

/* Number those of a kind, sorted, from `first` on. *end: where they end. */
static blink_result_t number_kind(xml_reader_t *reader, uint32_t first, uint32_t *end)
{
    xml_device_t *devices = reader->devices;
    const xml_device_t *odd = NULL;
    bool are_told_apart = reader->host_count == 1;
    uint32_t i = first + 1;
    for (; i < reader->device_count && devices[i].kind == devices[first].kind; i++) {
        const xml_device_t *last = &devices[i - 1], *device = &devices[i];
        if (device->host != last->host || device->number != last->number)
            continue;
        are_told_apart = false;
        if (device->element != device->pci && (!device->pci || device->pci != last->pci))
            odd = device;
    }
    *end = i;
    for (i = first; i < *end && !are_told_apart; i++)
        devices[i].number = i - first;
    return odd ? NOTE_XML(reader, odd->element,
                          "has a dev that another one has: all are numbered in the order of hosts and buses")
               : BLINK_OK;
}

static blink_result_t sort_busids(xml_reader_t *reader)
{
    if (!vec_reserve(&reader->device_busids, reader->device_count))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory",
                          topo_source_tail(reader->source));
    for (uint32_t i = 0; i < reader->device_count; i++) {
        const xml_device_t *device = &reader->devices[i];
        if (device->busid)
            reader->device_busids.items[reader->device_busids.count++] =
                (xml_busid_t){.host = device->host, .busid = device->busid, .index = i};
    }
    xml_busids_sort(&reader->device_busids);
    return BLINK_OK;
}

/* Parts of one GPU share its bus id, and nothing else does. */
static blink_result_t check_busids(const xml_reader_t *reader)
{
    for (size_t i = 1; i < reader->device_busids.count; i++) {
        const xml_busid_t *before = &reader->device_busids.items[i - 1], *busid = before + 1;
        const xml_device_t *other = &reader->devices[before->index];
        const xml_device_t *device = &reader->devices[busid->index];
        if (before->host == busid->host && other->pci != device->pci &&
            strcasecmp(before->busid, busid->busid) == 0)
            return FAIL_XML(reader, device->pci,
                            "has busid \"" TOPO_SHOWN "\", as the device of line %ld has: give each its own",
                            device->busid, xmlGetLineNo(other->pci));
    }
    return BLINK_OK;
}

void xml_device_id(const xml_device_t *device, char id[XML_ID_BYTES])
{
    snprintf(id, XML_ID_BYTES, "%s%ld", topo_node_kind_name(device->kind), device->number);
}

const xml_device_t *xml_device_of(const xmlNode *element)
{
    return element->_private;
}

blink_result_t xml_add_node(xml_reader_t *reader, const char *id, topo_node_kind_t kind, uint32_t host)
{
    char host_name[XML_ID_BYTES], name[XML_ID_BYTES];
    snprintf(name, sizeof(name), "%s", id);
    snprintf(host_name, sizeof(host_name), "n%u", host);
    return topo_build_node(reader->builder, &(topo_node_t){.id = name, .host = host_name, .kind = kind});
}

blink_result_t xml_add_devices(xml_reader_t *reader, const xmlNode *system)
{
    reader->gpus_by_class = !xml_contains(system, "gpu");
    reader->nics_by_class = !xml_contains(system, "net");
    for (const xmlNode *cpu = system->children; cpu; cpu = cpu->next) {
        if (!xml_is(cpu, "cpu"))
            continue;
        BLINK_TRY(add_host(reader, cpu));
        BLINK_TRY(collect(reader, cpu, xml_host_of(reader, cpu)));
    }
    qsort(reader->devices, reader->device_count, sizeof(reader->devices[0]), compare_devices);
    BLINK_TRY(sort_busids(reader));
    BLINK_TRY(check_busids(reader));
    for (uint32_t i = 0; i < reader->device_count;)
        BLINK_TRY(number_kind(reader, i, &i));
    for (uint32_t i = 0; i < reader->device_count; i++) {
        xml_device_t *device = &reader->devices[i];
        char id[XML_ID_BYTES];
        ((xmlNode *)(uintptr_t)device->element)->_private = device;
        xml_device_id(device, id);
        BLINK_TRY(xml_add_node(reader, id, device->kind, device->host));
    }
    return BLINK_OK;
}

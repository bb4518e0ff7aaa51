/*
 * Packages and the PCI tree, from hwloc.
 */
#include "topo/detect/detect_read.h"

#include "error.h"
#include "topo/rates.h"

#include <hwloc.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* hwloc counts what the line carries: 15.75 GB/s where NCCL counts 12. */
#define LINE_SHARE (12 / 15.75)

typedef struct hwloc_reader {
    hwloc_topology_t topology;
    const char *sysfs;
    detect_facts_t *facts;
} hwloc_reader_t;

static blink_result_t load(const char *xml, hwloc_topology_t topology)
{
    /* Devices as software names them would start every GPU runtime that hwloc has a plug-in for. */
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_NONE) != 0)
        return BLINK_FAIL_ERRNO("configure hwloc");
    if (xml && hwloc_topology_set_xml(topology, xml) != 0)
        return BLINK_FAIL_ERRNO("hwloc topology %.80s", xml);
    if (hwloc_topology_load(topology) != 0)
        return BLINK_FAIL_ERRNO("hwloc cannot find out this machine");
    return BLINK_OK;
}

static blink_result_t read_packages(const hwloc_reader_t *reader)
{
    hwloc_obj_t package = NULL;
    const char *arch = hwloc_obj_get_info_by_name(hwloc_get_root_obj(reader->topology), "Architecture");
    while ((package = hwloc_get_next_obj_by_type(reader->topology, HWLOC_OBJ_PACKAGE, package))) {
        const char *model = hwloc_obj_get_info_by_name(package, "CPUModelNumber");
        detect_cpu_t cpu = {.GBps = topo_socket_GBps(arch, hwloc_obj_get_info_by_name(package, "CPUVendor"),
                                                     model ? strtol(model, NULL, 10) : 0)};
        if (!vec_push(&reader->facts->cpus, cpu))
            return detect_out_of_memory();
    }
    /* A machine that does not tell its packages has one. */
    if (reader->facts->cpus.count == 0 && !vec_push(&reader->facts->cpus, (detect_cpu_t){0}))
        return detect_out_of_memory();
    return BLINK_OK;
}

/* The package of an object that is no I/O device: the one around it, else the first one inside it. */
static uint32_t package_of(hwloc_topology_t topology, hwloc_obj_t object)
{
    hwloc_obj_t package = object->type == HWLOC_OBJ_PACKAGE
                              ? object
                              : hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
    if (!package && object->cpuset)
        package = hwloc_get_next_obj_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_PACKAGE, NULL);
    return package ? package->logical_index : 0;
}

static detect_pci_kind_t device_kind(const struct hwloc_pcidev_attr_s *pci)
{
    enum { VGA = 0x0300, CONTROLLER_3D = 0x0302, OTHER_DISPLAY = 0x0380, NVIDIA = 0x10de, AMD = 0x1002 };
    bool graphics = pci->class_id == VGA || pci->class_id == CONTROLLER_3D;
    if (pci->vendor_id == NVIDIA && graphics)
        return DETECT_GPU;
    return pci->vendor_id == AMD && (graphics || pci->class_id == OTHER_DISPLAY) ? DETECT_GPU : DETECT_OTHER;
}

/* What the link can do; hwloc tells what it does now, which is less while a GPU saves power. */
static double link_GBps(const hwloc_reader_t *reader, const struct hwloc_pcidev_attr_s *pci,
                        detect_address_t address)
{
    double GBps = detect_pcie_GBps(reader->sysfs, address);
    if (GBps > 0)
        return GBps;
    return pci->linkspeed > 0 ? LINE_SHARE * (double)pci->linkspeed : topo_pcie_GBps(NULL, 0);
}

/* hwloc's trees are as deep as the machine's PCI buses are nested, 256 at most. */
static blink_result_t read_device(const hwloc_reader_t *reader, hwloc_obj_t object, uint32_t parent,
                                  uint32_t cpu)
{
    const struct hwloc_pcidev_attr_s *attributes = NULL;
    detect_pci_t pci = {.kind = DETECT_BRIDGE, .parent = parent, .cpu = cpu};
    if (object->type == HWLOC_OBJ_PCI_DEVICE) {
        attributes = &object->attr->pcidev;
        pci.kind = device_kind(attributes);
    } else if (object->type == HWLOC_OBJ_BRIDGE &&
               object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
        attributes = &object->attr->bridge.upstream.pci;
    }
    if (attributes) {
        pci.address = detect_address(attributes->domain, attributes->bus, attributes->dev, attributes->func);
        pci.GBps = link_GBps(reader, attributes, pci.address);
        parent = (uint32_t)reader->facts->pcis.count;
        if (!vec_push(&reader->facts->pcis, pci))
            return detect_out_of_memory();
    }
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
        BLINK_TRY(read_device(reader, child, parent, cpu));
    return BLINK_OK;
}

/* Every tree of devices from its root: what hangs on an object that is no device. */
static blink_result_t read_trees(const hwloc_reader_t *reader, hwloc_obj_type_t type)
{
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(reader->topology, type, object))) {
        if (!hwloc_obj_type_is_io(object->parent->type))
            BLINK_TRY(read_device(reader, object, DETECT_NONE, package_of(reader->topology, object->parent)));
    }
    return BLINK_OK;
}

blink_result_t detect_read_hwloc(const char *xml, const char *sysfs, detect_facts_t *facts)
{
    hwloc_reader_t reader = {.sysfs = sysfs, .facts = facts};
    if (hwloc_topology_init(&reader.topology) != 0)
        return BLINK_FAIL_ERRNO("start hwloc");
    blink_result_t result = load(xml, reader.topology);
    if (result == BLINK_OK)
        result = read_packages(&reader);
    if (result == BLINK_OK)
        result = read_trees(&reader, HWLOC_OBJ_BRIDGE);
    if (result == BLINK_OK)
        result = read_trees(&reader, HWLOC_OBJ_PCI_DEVICE);
    hwloc_topology_destroy(reader.topology);
    return result;
}

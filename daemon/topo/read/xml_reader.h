/*
 * What the parts of the reader of NCCL's topology XML share: read_xml.c walks the document, xml_devices.c
 * finds its devices and gives them names, xml_links.c reads what joins them, xml_busids.c finds what a link
 * leads to, xml_element.c reads elements.
 */
#ifndef BLINK_XML_READER_H
#define BLINK_XML_READER_H

#include "base/vec.h"
#include "error.h"
#include "topo/source.h"
#include "topo/topo.h"

#include <libxml/tree.h>

#define XML_ID_BYTES     64
#define XML_DEVICES_MAX  1024u
#define XML_CPUS_MAX     256u
#define XML_HOSTS_MAX    256u
#define XML_SWITCHES_MAX 4096u

/* A GPU, a part of one, or a port of a NIC; in a skeleton a GPU or NIC by its PCI class. */
typedef struct xml_device {
    const xmlNode *element, *pci; /* gpu, net, or in a skeleton pci; the pci it is in, NULL of a net */
    bool is_gpu_element;
    const char *busid; /* of the pci; borrowed from the document. NULL of a net */
    topo_node_kind_t kind;
    uint32_t host;
    long number;    /* that the file gives, then the one of its name */
    long part;      /* of a GPU that is divided (MLOPart); -1: it is not */
    uint32_t parts; /* so many devices are parts of the same GPU; 1: it is not divided */
} xml_device_t;

typedef struct xml_cpu {
    char id[XML_ID_BYTES];
    uint32_t host;
    double GBps; /* to other sockets */
} xml_cpu_t;

/* A switch of the PCIe tree. */
typedef struct xml_switch {
    const xmlNode *pci;
    const char *busid;
    uint32_t host;
    char id[XML_ID_BYTES];
} xml_switch_t;

/* What has a bus id; of one host several may have the same. */
typedef struct xml_busid {
    uint32_t host;
    const char *busid; /* borrowed from the document */
    uint32_t index;    /* of the device or switch */
} xml_busid_t;

typedef VEC(xml_busid_t) xml_busids_t;

typedef struct xml_reader {
    const char *source;
    topo_builder_t *builder;
    bool gpus_by_class, nics_by_class; /* a skeleton: no gpu, no net elements */
    bool has_nvswitch, has_net;
    uint32_t device_count, cpu_count, host_count;
    const char *hosts[XML_HOSTS_MAX]; /* their host_hash, "" of those that have none; borrowed */
    xml_device_t devices[XML_DEVICES_MAX];
    xml_cpu_t cpus[XML_CPUS_MAX];
    xml_busids_t device_busids; /* sorted once all devices are there */
    VEC(xml_switch_t) switches;
} xml_reader_t;

/* ---- xml_element.c ---- */

#define FAIL_XML(reader, element, format, ...)                                                               \
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": line %ld: <" TOPO_SHOWN "> " format,                \
               topo_source_tail((reader)->source), xmlGetLineNo(element),                                    \
               (const char *)(element)->name __VA_OPT__(, ) __VA_ARGS__)

/* Say that something of the file does not become part of the topology. */
#define NOTE_XML(reader, element, format, ...)                                                               \
    topo_build_note((reader)->builder, "line %ld: <" TOPO_SHOWN "> " format, xmlGetLineNo(element),          \
                    (const char *)(element)->name __VA_OPT__(, ) __VA_ARGS__)

bool xml_is(const xmlNode *node, const char *name);
const xmlNode *xml_child(const xmlNode *parent, const char *name);

/* Whether there is such an element anywhere below. */
bool xml_contains(const xmlNode *parent, const char *name);

/* The attribute's text, borrowed from the document, or NULL. */
const char *xml_text(const xmlNode *element, const char *name);

/* An integer attribute from `low` to `high`; must be there. Errors, of these three: INVALID_ARGUMENT. */
blink_result_t xml_integer(const xml_reader_t *reader, const xmlNode *element, const char *name, long low,
                           long high, long *value);
blink_result_t xml_integer_or(const xml_reader_t *reader, const xmlNode *element, const char *name, long low,
                              long high, long otherwise, long *value);
blink_result_t xml_busid(const xml_reader_t *reader, const xmlNode *pci, const char **busid);

/* ---- xml_busids.c ---- */

void xml_busids_sort(xml_busids_t *busids);

/* Those of the host with this bus id, upper and lower case alike, in the order of their indices: *count of
 * them, NULL if there are none. The list is sorted. */
const xml_busid_t *xml_busids_find(const xml_busids_t *busids, uint32_t host, const char *busid,
                                   size_t *count);

/* ---- xml_devices.c ---- */

/* Find hosts and devices below <system>, number them and add their nodes, of the host `n<h>`: the numbers are
 * the file's where it has one host and gives no number twice, else they follow each other through all hosts.
 * Errors: INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t xml_add_devices(xml_reader_t *reader, const xmlNode *system);

/* The device that the element stands for, or NULL. */
const xml_device_t *xml_device_of(const xmlNode *element);

void xml_device_id(const xml_device_t *device, char id[XML_ID_BYTES]);

/* The host of a <cpu>. */
uint32_t xml_host_of(const xml_reader_t *reader, const xmlNode *cpu);

/* Add a node of that host. */
blink_result_t xml_add_node(xml_reader_t *reader, const char *id, topo_node_kind_t kind, uint32_t host);

/* ---- xml_links.c ---- */

/* What a <gpu> says of its links, to GPUs, switches and the CPU above it; and those between the parts of one
 * GPU. Errors: INVALID_ARGUMENT, NO_MEMORY. */
blink_result_t xml_read_gpu(xml_reader_t *reader, const xml_device_t *gpu, const char *cpu_id);

/* The links between PCIe switches that a file lists apart from their tree, once all switches are there. */
blink_result_t xml_read_pcilinks(xml_reader_t *reader);

#endif

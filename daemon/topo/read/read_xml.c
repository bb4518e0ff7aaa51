/*
 * Reads NCCL's topology XML: complete dumps, and skeletons without gpu elements as clouds ship them. Maps its
 * tree of cpu, pci, gpu, nic and net elements onto nodes and links; rates follow from classes and widths.
 * Elements and attributes not named here are ignored, as NCCL does.
 */
#include "topo/topo.h"

#include "error.h"
#include "topo/rates.h"
#include "topo/source.h"

#include <libxml/parser.h>
#include <libxml/tree.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOST        "n0"
#define NVSWITCH_ID "nvswitch"
#define ID_BYTES    64
#define BUSID_MAX   32
#define DEVICES_MAX 1024u
#define CPUS_MAX    256u

/* A leaf of the PCIe tree that becomes a node of its own. */
typedef struct xml_device {
    xmlNode *pci;
    const xmlNode *gpu; /* NULL in a skeleton */
    const char *busid;  /* borrowed from the document */
    topo_node_kind_t kind;
    long number;
} xml_device_t;

typedef struct xml_cpu {
    char id[ID_BYTES];
    double GBps; /* to other sockets */
} xml_cpu_t;

typedef struct xml_reader {
    const char *source;
    topo_builder_t *builder;
    bool gpus_by_class, nics_by_class; /* a skeleton: no gpu, no net elements */
    bool has_nvswitch;
    uint32_t device_count, cpu_count;
    xml_device_t devices[DEVICES_MAX];
    xml_cpu_t cpus[CPUS_MAX];
} xml_reader_t;

#define FAIL_XML(reader, element, format, ...)                                                               \
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": line %ld: <" TOPO_SHOWN "> " format,                \
               topo_source_tail((reader)->source), xmlGetLineNo(element),                                    \
               (const char *)(element)->name __VA_OPT__(, ) __VA_ARGS__)

static bool is_element(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

static const xmlNode *find_child(const xmlNode *parent, const char *name)
{
    for (const xmlNode *child = parent->children; child; child = child->next) {
        if (is_element(child, name))
            return child;
    }
    return NULL;
}

/* The attribute's text, borrowed from the document, or NULL. Without a document type there are no entities,
 * so a value is one text node. */
static const char *text_of(const xmlNode *element, const char *name)
{
    const xmlAttr *attribute = xmlHasProp(element, (const xmlChar *)name);
    if (!attribute)
        return NULL;
    const xmlNode *value = attribute->children;
    return value && value->type == XML_TEXT_NODE && value->content ? (const char *)value->content : "";
}

/* An integer attribute from `low` to `high`; must be there. */
static blink_result_t integer_of(const xml_reader_t *reader, const xmlNode *element, const char *name,
                                 long low, long high, long *value)
{
    const char *text = text_of(element, name);
    if (!text)
        return FAIL_XML(reader, element, "has no %s", name);
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    if (end == text || *end || errno || *value < low || *value > high)
        return FAIL_XML(reader, element, "%s must be an integer from %ld to %ld, not \"%.24s\"", name, low,
                        high, text);
    return BLINK_OK;
}

static blink_result_t integer_or(const xml_reader_t *reader, const xmlNode *element, const char *name,
                                 long low, long high, long otherwise, long *value)
{
    *value = otherwise;
    return text_of(element, name) ? integer_of(reader, element, name, low, high, value) : BLINK_OK;
}

static blink_result_t busid_of(const xml_reader_t *reader, const xmlNode *pci, const char **busid)
{
    *busid = text_of(pci, "busid");
    if (!*busid || !**busid)
        return FAIL_XML(reader, pci, "has no busid");
    if (strlen(*busid) > BUSID_MAX)
        return FAIL_XML(reader, pci, "busid is longer than %d characters: " TOPO_SHOWN, BUSID_MAX, *busid);
    return BLINK_OK;
}

static blink_result_t pcie_GBps(const xml_reader_t *reader, const xmlNode *pci, double *GBps)
{
    long width = 0;
    BLINK_TRY(integer_or(reader, pci, "link_width", 0, INT_MAX, 0, &width));
    *GBps = topo_pcie_GBps(text_of(pci, "link_speed"), width);
    return BLINK_OK;
}

static bool contains(const xmlNode *parent, const char *name)
{
    for (const xmlNode *child = parent->children; child; child = child->next) {
        if (is_element(child, name) || (child->type == XML_ELEMENT_NODE && contains(child, name)))
            return true;
    }
    return false;
}

/* Is this pci element a device, and of what kind? A GPU carries a gpu element, and a NIC is found by its
 * ports; only where the file names none of them the PCI class tells. */
static bool device_kind(const xml_reader_t *reader, const xmlNode *pci, topo_node_kind_t *kind)
{
    const char *class = text_of(pci, "class");
    bool gpu_class = class && (strncmp(class, "0x0302", 6) == 0 || strncmp(class, "0x0300", 6) == 0);
    bool nic_class = class && strncmp(class, "0x02", 4) == 0;
    bool gpu = find_child(pci, "gpu") || (reader->gpus_by_class && gpu_class);
    *kind = gpu ? TOPO_DEVICE : TOPO_NIC;
    return gpu || (reader->nics_by_class && nic_class);
}

static blink_result_t collect_devices(xml_reader_t *reader, xmlNode *parent)
{
    for (xmlNode *child = parent->children; child; child = child->next) {
        topo_node_kind_t kind;
        if (!is_element(child, "pci"))
            continue;
        if (!device_kind(reader, child, &kind)) {
            BLINK_TRY(collect_devices(reader, child));
            continue;
        }
        if (reader->device_count == DEVICES_MAX)
            return FAIL_XML(reader, child, "is one more than the %u devices of a topology", DEVICES_MAX);
        xml_device_t *device = &reader->devices[reader->device_count++];
        *device = (xml_device_t){.pci = child, .gpu = find_child(child, "gpu"), .kind = kind};
        BLINK_TRY(busid_of(reader, child, &device->busid));
        if (device->gpu)
            BLINK_TRY(integer_of(reader, device->gpu, "dev", 0, INT_MAX, &device->number));
    }
    return BLINK_OK;
}

/* By kind, then number where there is one, then bus: the order in which the driver numbers them. */
static int compare_devices(const void *one, const void *other)
{
    const xml_device_t *a = one, *b = other;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return strcasecmp(a->busid, b->busid);
}

static void device_id(const xml_device_t *device, char id[ID_BYTES])
{
    snprintf(id, ID_BYTES, "%s%ld", topo_node_kind_name(device->kind), device->number);
}

static blink_result_t add_node(xml_reader_t *reader, const char *id, topo_node_kind_t kind)
{
    char host[] = HOST, name[ID_BYTES];
    snprintf(name, sizeof(name), "%s", id);
    return topo_build_node(reader->builder, &(topo_node_t){.id = name, .host = host, .kind = kind});
}

static blink_result_t add_devices(xml_reader_t *reader)
{
    qsort(reader->devices, reader->device_count, sizeof(reader->devices[0]), compare_devices);
    long numbers[] = {[TOPO_DEVICE] = 0, [TOPO_NIC] = 0};
    for (uint32_t i = 0; i < reader->device_count; i++) {
        xml_device_t *device = &reader->devices[i];
        if (!device->gpu)
            device->number = numbers[device->kind]++;
        device->pci->_private = device;
        char id[ID_BYTES];
        device_id(device, id);
        BLINK_TRY(add_node(reader, id, device->kind));
    }
    return BLINK_OK;
}

static const xml_device_t *device_by_busid(const xml_reader_t *reader, const char *busid)
{
    for (uint32_t i = 0; i < reader->device_count; i++) {
        if (strcasecmp(reader->devices[i].busid, busid) == 0)
            return &reader->devices[i];
    }
    return NULL;
}

/* Whether all GPUs that have NVLinks are of those whose NVSwitches reduce. read_gpu() checks the numbers. */
static bool nvswitch_reduces(const xml_reader_t *reader)
{
    for (uint32_t i = 0; i < reader->device_count; i++) {
        const xmlNode *gpu = reader->devices[i].gpu;
        const char *sm = gpu && find_child(gpu, "nvlink") ? text_of(gpu, "sm") : NULL;
        if (sm && !topo_nvswitch_reduces(strtol(sm, NULL, 10)))
            return false;
    }
    return true;
}

static blink_result_t read_nvlink(xml_reader_t *reader, const xmlNode *nvlink, const char *gpu_id, long sm)
{
    const char *target = text_of(nvlink, "target"), *tclass = text_of(nvlink, "tclass");
    long count = 0;
    if (!target)
        return FAIL_XML(reader, nvlink, "of %s has no target", gpu_id);
    BLINK_TRY(integer_of(reader, nvlink, "count", 1, TOPO_PARALLEL_MAX, &count));
    double GBps = topo_nvlink_GBps(sm);
    if (GBps == 0)
        return FAIL_XML(reader, nvlink, "of %s: sm_%ld is older than NVLink", gpu_id, sm);

    /* A switch that a virtual machine cannot see has this target. */
    bool invisible = strncmp(target, "fffffff:ffff:ff", 15) == 0;
    if (invisible || (tclass && strncmp(tclass, "0x068000", 8) == 0)) {
        if (!reader->has_nvswitch)
            BLINK_TRY(topo_build_nvswitch(reader->builder, HOST, NVSWITCH_ID, nvswitch_reduces(reader)));
        reader->has_nvswitch = true;
        return topo_build_link(reader->builder, gpu_id, NVSWITCH_ID, TOPO_NVSWITCH, GBps, (uint32_t)count,
                               TOPO_DEFAULT_LATENCY_US, true);
    }
    const xml_device_t *peer = device_by_busid(reader, target);
    if (!peer)
        return BLINK_OK; /* a GPU that the dumping process was not given */
    char peer_id[ID_BYTES];
    device_id(peer, peer_id);
    /* One way: the peer lists the other direction itself. */
    return topo_build_link(reader->builder, gpu_id, peer_id, TOPO_NVLINK, GBps, (uint32_t)count,
                           TOPO_DEFAULT_LATENCY_US, false);
}

static blink_result_t read_c2c(xml_reader_t *reader, const xmlNode *c2c, const char *gpu_id,
                               const char *cpu_id)
{
    long MBps = 0, count = 0;
    BLINK_TRY(integer_of(reader, c2c, "bw", 1, INT_MAX, &MBps));
    BLINK_TRY(integer_of(reader, c2c, "count", 1, TOPO_PARALLEL_MAX, &count));
    return topo_build_link(reader->builder, gpu_id, cpu_id, TOPO_NVLINK, (double)MBps / 1000, (uint32_t)count,
                           TOPO_DEFAULT_LATENCY_US, true);
}

static blink_result_t read_gpu(xml_reader_t *reader, const xmlNode *gpu, const char *gpu_id,
                               const char *cpu_id)
{
    long sm = 0;
    if (find_child(gpu, "nvlink"))
        BLINK_TRY(integer_of(reader, gpu, "sm", 0, INT_MAX, &sm));
    for (const xmlNode *child = gpu->children; child; child = child->next) {
        if (is_element(child, "nvlink"))
            BLINK_TRY(read_nvlink(reader, child, gpu_id, sm));
        else if (is_element(child, "c2c"))
            BLINK_TRY(read_c2c(reader, child, gpu_id, cpu_id));
    }
    return BLINK_OK;
}

/* One node per port; the PCIe link above it is shared by all ports of a card. */
static blink_result_t read_nic(xml_reader_t *reader, const xmlNode *nic, const char *parent_id)
{
    for (const xmlNode *net = nic->children; net; net = net->next) {
        if (!is_element(net, "net"))
            continue;
        long dev = 0, Mbps = 0;
        BLINK_TRY(integer_of(reader, net, "dev", 0, INT_MAX, &dev));
        BLINK_TRY(integer_or(reader, net, "speed", INT_MIN, INT_MAX, 0, &Mbps));
        if (Mbps <= 0) /* a port that does not know its speed counts as 10 Gb/s, as in NCCL */
            Mbps = 10000;
        char id[ID_BYTES];
        snprintf(id, sizeof(id), "nic%ld", dev);
        BLINK_TRY(add_node(reader, id, TOPO_NIC));
        BLINK_TRY(topo_build_link(reader->builder, id, parent_id, TOPO_NIC_LINK, (double)Mbps / 8000, 1,
                                  TOPO_DEFAULT_LATENCY_US, true));
    }
    return BLINK_OK;
}

static blink_result_t read_pci(xml_reader_t *reader, const xmlNode *pci, const char *parent_id,
                               const char *cpu_id);

static blink_result_t read_children(xml_reader_t *reader, const xmlNode *element, const char *id,
                                    const char *cpu_id)
{
    for (const xmlNode *child = element->children; child; child = child->next) {
        if (is_element(child, "pci"))
            BLINK_TRY(read_pci(reader, child, id, cpu_id));
        else if (is_element(child, "nic"))
            BLINK_TRY(read_nic(reader, child, id));
    }
    return BLINK_OK;
}

/* Recursion is bounded: the parser refuses documents nested deeper than 256 elements. */
static blink_result_t read_pci(xml_reader_t *reader, const xmlNode *pci, const char *parent_id,
                               const char *cpu_id)
{
    const xml_device_t *device = pci->_private;
    const char *busid = NULL;
    double GBps = 0;
    BLINK_TRY(busid_of(reader, pci, &busid));
    BLINK_TRY(pcie_GBps(reader, pci, &GBps));
    char id[ID_BYTES];
    if (device) {
        device_id(device, id);
    } else if (find_child(pci, "pci") || find_child(pci, "nic")) {
        snprintf(id, sizeof(id), "pci-%s", busid);
        BLINK_TRY(add_node(reader, id, TOPO_SWITCH));
    } else {
        return BLINK_OK; /* leads to nothing that moves data */
    }
    BLINK_TRY(
        topo_build_link(reader->builder, id, parent_id, TOPO_PCIE, GBps, 1, TOPO_PCIE_LATENCY_US, true));
    if (device && device->gpu)
        BLINK_TRY(read_gpu(reader, device->gpu, id, cpu_id));
    return device ? BLINK_OK : read_children(reader, pci, id, cpu_id);
}

static blink_result_t read_cpu(xml_reader_t *reader, const xmlNode *element)
{
    if (reader->cpu_count == CPUS_MAX)
        return FAIL_XML(reader, element, "is one more than the %u of a topology", CPUS_MAX);
    long numaid = 0, modelid = 0;
    BLINK_TRY(integer_of(reader, element, "numaid", -1, INT_MAX, &numaid));
    BLINK_TRY(integer_or(reader, element, "modelid", INT_MIN, INT_MAX, 0, &modelid));
    xml_cpu_t *cpu = &reader->cpus[reader->cpu_count];
    snprintf(cpu->id, sizeof(cpu->id), "cpu%ld", numaid);
    cpu->GBps = topo_socket_GBps(text_of(element, "arch"), text_of(element, "vendor"), modelid);
    BLINK_TRY(add_node(reader, cpu->id, TOPO_CPU));
    for (uint32_t i = 0; i < reader->cpu_count; i++) {
        const xml_cpu_t *other = &reader->cpus[i];
        BLINK_TRY(topo_build_link(reader->builder, other->id, cpu->id, TOPO_QPI,
                                  other->GBps < cpu->GBps ? other->GBps : cpu->GBps, 1, TOPO_QPI_LATENCY_US,
                                  true));
    }
    reader->cpu_count++;
    return read_children(reader, element, cpu->id, cpu->id);
}

static blink_result_t read_system(xml_reader_t *reader, xmlNode *system)
{
    if (!is_element(system, "system"))
        return FAIL_XML(reader, system, "is not the <system> of an NCCL topology");
    reader->gpus_by_class = !contains(system, "gpu");
    reader->nics_by_class = !contains(system, "net");
    for (xmlNode *child = system->children; child; child = child->next) {
        if (is_element(child, "cpu"))
            BLINK_TRY(collect_devices(reader, child));
    }
    BLINK_TRY(add_devices(reader));
    for (const xmlNode *child = system->children; child; child = child->next) {
        if (is_element(child, "cpu"))
            BLINK_TRY(read_cpu(reader, child));
    }
    return BLINK_OK;
}

static blink_result_t read_document(xmlDoc *document, const char *source, topo_t **topo)
{
    char name[64];
    topo_source_stem(source, name, sizeof(name));
    xml_reader_t *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo_source_tail(source));
    reader->source = source;
    blink_result_t result = topo_build_create(name, source, &reader->builder);
    if (result == BLINK_OK)
        result = read_system(reader, xmlDocGetRootElement(document));
    if (result == BLINK_OK)
        result = topo_build_finish(reader->builder, topo);
    topo_build_destroy(reader->builder);
    free(reader);
    return result;
}

/* No topology needs a document type, and without one there are no entities to expand or fetch. */
static void refuse_document_type(void *context, const xmlChar *name, const xmlChar *external_id,
                                 const xmlChar *system_id)
{
    (void)name;
    (void)external_id;
    (void)system_id;
    xmlParserCtxt *parser = context;
    bool *refused = parser->_private;
    *refused = true;
    xmlStopParser(parser);
}

static blink_result_t fail_malformed(xmlParserCtxt *parser, bool refused, const char *source)
{
    if (refused)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          TOPO_SHOWN ": a document type (<!DOCTYPE) is not allowed",
                          topo_source_tail(source));
    const xmlError *error = xmlCtxtGetLastError(parser);
    if (error && error->code == XML_ERR_NO_MEMORY)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo_source_tail(source));
    const char *message = error && error->message ? error->message : "no element";
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": malformed XML at line %d: %.*s",
                      topo_source_tail(source), error ? error->line : 1, (int)strcspn(message, "\n"),
                      message);
}

blink_result_t topo_parse_nccl_xml(const char *text, size_t bytes, const char *source, topo_t **topo)
{
    if (bytes > INT_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": %zu bytes are too many",
                          topo_source_tail(source), bytes);
    xmlParserCtxt *parser = xmlNewParserCtxt();
    if (!parser)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo_source_tail(source));
    bool refused = false;
    parser->_private = &refused;
    parser->sax->internalSubset = refuse_document_type;
    xmlDoc *document =
        xmlCtxtReadMemory(parser, text, (int)bytes, NULL, NULL,
                          XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_BIG_LINES);
    blink_result_t result = document && !refused ? read_document(document, source, topo)
                                                 : fail_malformed(parser, refused, source);
    xmlFreeDoc(document);
    xmlFreeParserCtxt(parser);
    return result;
}

/*
 * Reads NCCL's topology XML: complete dumps, of one host or several, those of RCCL, and skeletons without gpu
 * elements as clouds ship them. Maps its tree of cpu, pci, gpu, nic and net elements onto nodes and links;
 * rates follow from classes and widths. Attributes not named here are ignored, as NCCL does; elements that
 * are not known are noted (topo_t.notes).
 */
#include "topo/read/xml_reader.h"

#include "topo/rates.h"

#include <libxml/parser.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NET_ID "net"

/* ---- the PCIe tree ---- */

static blink_result_t note_unknown(xml_reader_t *reader, const xmlNode *element, const xmlNode *parent)
{
    if (element->type != XML_ELEMENT_NODE)
        return BLINK_OK;
    return NOTE_XML(reader, element, "is nothing that is known of a <%s>, and is left out",
                    (const char *)parent->name);
}

static blink_result_t pcie_GBps(const xml_reader_t *reader, const xmlNode *pci, double *GBps)
{
    long width = 0;
    BLINK_TRY(xml_integer_or(reader, pci, "link_width", 0, INT_MAX, 0, &width));
    *GBps = topo_pcie_GBps(xml_text(pci, "link_speed"), width);
    return BLINK_OK;
}

/* "cpu0", "pci-0000:c5:00.0", or where the file has several hosts with the host before it: "cpu1_0". */
static void place_id(const xml_reader_t *reader, const char *kind, uint32_t host, const char *name,
                     char id[XML_ID_BYTES])
{
    if (reader->host_count > 1)
        snprintf(id, XML_ID_BYTES, "%.3s%u_%.48s", kind, host, name);
    else
        snprintf(id, XML_ID_BYTES, "%.4s%.48s", kind, name);
}

/* Hosts of one file are joined by a network that does not block, as those of a generated topology are. */
static blink_result_t link_to_net(xml_reader_t *reader, const char *id, double GBps)
{
    if (reader->host_count == 1)
        return BLINK_OK;
    if (!reader->has_net)
        BLINK_TRY(topo_build_node(reader->builder, &(topo_node_t){.id = NET_ID, .kind = TOPO_SWITCH}));
    reader->has_net = true;
    return topo_build_link(reader->builder, id, NET_ID, TOPO_NET, GBps, 1, TOPO_NET_LATENCY_US, true);
}

/* One node per port; the PCIe link above it is shared by all ports of a card. */
static blink_result_t read_nic(xml_reader_t *reader, const xmlNode *nic, const char *parent_id)
{
    for (const xmlNode *net = nic->children; net; net = net->next) {
        const xml_device_t *port = xml_device_of(net);
        char id[XML_ID_BYTES];
        long Mbps = 0;
        if (!port) {
            BLINK_TRY(note_unknown(reader, net, nic));
            continue;
        }
        BLINK_TRY(xml_integer_or(reader, net, "speed", INT_MIN, INT_MAX, 0, &Mbps));
        if (Mbps <= 0) /* a port that does not know its speed counts as 10 Gb/s, as in NCCL */
            Mbps = 10000;
        xml_device_id(port, id);
        BLINK_TRY(topo_build_link(reader->builder, id, parent_id, TOPO_NIC_LINK, (double)Mbps / 8000, 1,
                                  TOPO_DEFAULT_LATENCY_US, true));
        BLINK_TRY(link_to_net(reader, id, (double)Mbps / 8000));
    }
    return BLINK_OK;
}

/* A switch of the PCIe tree, below the parent. Files repeat bus ids: the second one of a host is
 * "pci-0000:c5:00.0_2". */
static blink_result_t add_switch(xml_reader_t *reader, const xmlNode *pci, const char *parent_id, double GBps,
                                 const xml_cpu_t *cpu, char id[XML_ID_BYTES])
{
    xml_switch_t added = {.pci = pci, .host = cpu->host};
    char name[XML_ID_BYTES];
    uint32_t times = 1;
    if (reader->switches.count == XML_SWITCHES_MAX)
        return FAIL_XML(reader, pci, "is one more than the %u switches of a topology", XML_SWITCHES_MAX);
    BLINK_TRY(xml_busid(reader, pci, &added.busid));
    for (size_t i = 0; i < reader->switches.count; i++) {
        const xml_switch_t *other = &reader->switches.items[i];
        times += other->host == added.host && strcmp(other->busid, added.busid) == 0;
    }
    if (times > 1)
        snprintf(name, sizeof(name), "%s_%u", added.busid, times);
    else
        snprintf(name, sizeof(name), "%s", added.busid);
    place_id(reader, "pci-", cpu->host, name, added.id);
    memcpy(id, added.id, sizeof(added.id));
    if (!vec_push(&reader->switches, added))
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory",
                          topo_source_tail(reader->source));
    BLINK_TRY(xml_add_node(reader, id, TOPO_SWITCH, cpu->host));
    return topo_build_link(reader->builder, id, parent_id, TOPO_PCIE, GBps, 1, TOPO_PCIE_LATENCY_US, true);
}

static blink_result_t read_pci(xml_reader_t *reader, const xmlNode *pci, const char *parent_id,
                               const xml_cpu_t *cpu);

static blink_result_t read_children(xml_reader_t *reader, const xmlNode *element, const char *id,
                                    const xml_cpu_t *cpu)
{
    for (const xmlNode *child = element->children; child; child = child->next) {
        if (xml_is(child, "pci"))
            BLINK_TRY(read_pci(reader, child, id, cpu));
        else if (xml_is(child, "nic"))
            BLINK_TRY(read_nic(reader, child, id));
        else if (!xml_is(child, "pcilink")) /* xml_read_pcilinks() */
            BLINK_TRY(note_unknown(reader, child, element));
    }
    return BLINK_OK;
}

static blink_result_t read_device(xml_reader_t *reader, const xml_device_t *device, const char *parent_id,
                                  double GBps, const xml_cpu_t *cpu)
{
    char id[XML_ID_BYTES];
    xml_device_id(device, id);
    BLINK_TRY(
        topo_build_link(reader->builder, id, parent_id, TOPO_PCIE, GBps, 1, TOPO_PCIE_LATENCY_US, true));
    return device->is_gpu_element ? xml_read_gpu(reader, device, cpu->id) : BLINK_OK;
}

/* The GPU of the pci, or its parts, which share the link above it behind a switch. */
static blink_result_t read_gpus(xml_reader_t *reader, const xmlNode *pci, const char *parent_id, double GBps,
                                const xml_cpu_t *cpu)
{
    char switch_id[XML_ID_BYTES];
    if (xml_device_of(xml_child(pci, "gpu"))->parts > 1) {
        BLINK_TRY(add_switch(reader, pci, parent_id, GBps, cpu, switch_id));
        parent_id = switch_id;
    }
    for (const xmlNode *child = pci->children; child; child = child->next) {
        const xml_device_t *device = xml_device_of(child);
        if (device)
            BLINK_TRY(read_device(reader, device, parent_id, GBps, cpu));
        else if (!xml_is(child, "gpu"))
            BLINK_TRY(note_unknown(reader, child, pci));
    }
    return BLINK_OK;
}

/* Recursion is bounded: the parser refuses documents nested deeper than 256 elements. */
static blink_result_t read_pci(xml_reader_t *reader, const xmlNode *pci, const char *parent_id,
                               const xml_cpu_t *cpu)
{
    char id[XML_ID_BYTES];
    double GBps = 0;
    BLINK_TRY(pcie_GBps(reader, pci, &GBps));
    if (xml_device_of(pci))
        return read_device(reader, xml_device_of(pci), parent_id, GBps, cpu);
    if (xml_child(pci, "gpu"))
        return read_gpus(reader, pci, parent_id, GBps, cpu);
    if (!xml_child(pci, "pci") && !xml_child(pci, "nic"))
        return BLINK_OK; /* leads to nothing that moves data */
    BLINK_TRY(add_switch(reader, pci, parent_id, GBps, cpu, id));
    return read_children(reader, pci, id, cpu);
}

/* ---- the document ---- */

/* With all CPUs of its host that came before it. */
static blink_result_t link_to_cpus(xml_reader_t *reader, const xml_cpu_t *cpu)
{
    for (uint32_t i = 0; i < reader->cpu_count; i++) {
        const xml_cpu_t *other = &reader->cpus[i];
        if (other->host == cpu->host)
            BLINK_TRY(topo_build_link(reader->builder, other->id, cpu->id, TOPO_QPI,
                                      other->GBps < cpu->GBps ? other->GBps : cpu->GBps, 1,
                                      TOPO_QPI_LATENCY_US, true));
    }
    return BLINK_OK;
}

static blink_result_t read_cpu(xml_reader_t *reader, const xmlNode *element)
{
    if (reader->cpu_count == XML_CPUS_MAX)
        return FAIL_XML(reader, element, "is one more than the %u of a topology", XML_CPUS_MAX);
    long numaid = 0, modelid = 0;
    char number[24];
    BLINK_TRY(xml_integer(reader, element, "numaid", -1, INT_MAX, &numaid));
    BLINK_TRY(xml_integer_or(reader, element, "modelid", INT_MIN, INT_MAX, 0, &modelid));
    xml_cpu_t *cpu = &reader->cpus[reader->cpu_count];
    cpu->host = xml_host_of(reader, element);
    snprintf(number, sizeof(number), "%ld", numaid);
    place_id(reader, "cpu", cpu->host, number, cpu->id);
    cpu->GBps = topo_socket_GBps(xml_text(element, "arch"), xml_text(element, "vendor"), modelid);
    BLINK_TRY(xml_add_node(reader, cpu->id, TOPO_CPU, cpu->host));
    BLINK_TRY(link_to_cpus(reader, cpu));
    reader->cpu_count++;
    return read_children(reader, element, cpu->id, cpu);
}

static blink_result_t read_system(xml_reader_t *reader, const xmlNode *system)
{
    if (!xml_is(system, "system"))
        return FAIL_XML(reader, system, "is not the <system> of an NCCL topology");
    BLINK_TRY(xml_add_devices(reader, system));
    for (const xmlNode *child = system->children; child; child = child->next) {
        if (xml_is(child, "cpu"))
            BLINK_TRY(read_cpu(reader, child));
        else
            BLINK_TRY(note_unknown(reader, child, system));
    }
    return xml_read_pcilinks(reader);
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
    vec_free(&reader->device_busids);
    vec_free(&reader->switches);
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

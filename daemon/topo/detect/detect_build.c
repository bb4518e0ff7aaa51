#include "topo/detect/detect_build.h"

#include "error.h"
#include "topo/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST        "n0"
#define NVSWITCH_ID "nvswitch"
#define ID_BYTES    96

typedef char node_id_t[ID_BYTES];

/* A GPU that NVML, the PCI tree or both have told of. */
typedef struct build_gpu {
    detect_address_t address;
    uint32_t pci;  /* DETECT_NONE: not in the tree */
    uint32_t nvml; /* DETECT_NONE: not one of NVML's */
} build_gpu_t;

typedef struct build {
    const detect_facts_t *facts;
    build_gpu_t *gpus; /* sorted by address: gpu0, gpu1, … */
    uint32_t gpu_count;
    uint32_t *branches; /* by PCI item: how many ways down lead to GPUs or active ports */
    topo_builder_t *builder;
} build_t;

static uint32_t find_pci(const detect_facts_t *facts, detect_address_t address)
{
    for (uint32_t i = 0; i < facts->pcis.count; i++) {
        if (facts->pcis.items[i].address == address)
            return i;
    }
    return DETECT_NONE;
}

static uint32_t find_gpu(const build_t *build, detect_address_t address)
{
    for (uint32_t i = 0; i < build->gpu_count; i++) {
        if (build->gpus[i].address == address)
            return i;
    }
    return DETECT_NONE;
}

static int compare_gpus(const void *one, const void *other)
{
    const build_gpu_t *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

static void collect_gpus(build_t *build)
{
    const detect_facts_t *facts = build->facts;
    for (uint32_t i = 0; i < facts->gpus.count; i++) {
        detect_address_t address = facts->gpus.items[i].address;
        build->gpus[build->gpu_count++] = (build_gpu_t){address, find_pci(facts, address), i};
    }
    for (uint32_t i = 0; i < facts->pcis.count; i++) {
        const detect_pci_t *pci = &facts->pcis.items[i];
        if (pci->kind == DETECT_GPU && find_gpu(build, pci->address) == DETECT_NONE)
            build->gpus[build->gpu_count++] = (build_gpu_t){pci->address, i, DETECT_NONE};
    }
    qsort(build->gpus, build->gpu_count, sizeof(*build->gpus), compare_gpus);
}

static blink_result_t fail_without_gpu(const detect_facts_t *facts)
{
    const char *trouble = *facts->nvml_trouble ? facts->nvml_trouble : "NVML has no GPU";
    return BLINK_FAIL(
        BLINK_ERR_NOT_FOUND,
        "no GPU found: %s; none of NVIDIA or AMD among %zu PCI devices; CPU packages: %zu, verbs devices: %u",
        trouble, facts->pcis.count, facts->cpus.count, facts->verbs_device_count);
}

static bool is_useful(const detect_port_t *port)
{
    return port->active && port->GBps > 0;
}

/* Parents come before their children, so one pass from the end sums up what is below each. */
static void count_branches(build_t *build)
{
    const detect_facts_t *facts = build->facts;
    for (uint32_t i = 0; i < facts->ports.count; i++) {
        uint32_t pci = find_pci(facts, facts->ports.items[i].address);
        if (is_useful(&facts->ports.items[i]) && pci != DETECT_NONE)
            build->branches[pci]++;
    }
    for (uint32_t i = 0; i < build->gpu_count; i++) {
        if (build->gpus[i].pci != DETECT_NONE)
            build->branches[build->gpus[i].pci] = 1;
    }
    for (size_t i = facts->pcis.count; i-- > 0;) {
        if (build->branches[i] > 0 && facts->pcis.items[i].parent != DETECT_NONE)
            build->branches[facts->pcis.items[i].parent]++;
    }
}

static blink_result_t add_node(build_t *build, const char *id, topo_node_kind_t kind)
{
    char host[] = HOST;
    return topo_build_node(build->builder, &(topo_node_t){.id = (char *)id, .host = host, .kind = kind});
}

static void gpu_id(uint32_t gpu, node_id_t id)
{
    snprintf(id, ID_BYTES, "gpu%u", gpu);
}

static void pci_id(const build_t *build, uint32_t pci, node_id_t id)
{
    char address[DETECT_PCI_BYTES];
    snprintf(id, ID_BYTES, "pci-%s", detect_address_text(build->facts->pcis.items[pci].address, address));
}

static void port_id(const detect_port_t *port, node_id_t id)
{
    if (port->number == 1)
        snprintf(id, ID_BYTES, "%s", port->device);
    else
        snprintf(id, ID_BYTES, "%s:%u", port->device, port->number);
}

static blink_result_t add_nodes(build_t *build)
{
    const detect_facts_t *facts = build->facts;
    node_id_t id;
    for (uint32_t i = 0; i < build->gpu_count; i++) {
        gpu_id(i, id);
        BLINK_TRY(add_node(build, id, TOPO_DEVICE));
    }
    for (uint32_t i = 0; i < facts->ports.count; i++) {
        port_id(&facts->ports.items[i], id);
        if (is_useful(&facts->ports.items[i]))
            BLINK_TRY(add_node(build, id, TOPO_NIC));
    }
    for (uint32_t i = 0; i < facts->pcis.count; i++) {
        pci_id(build, i, id);
        if (build->branches[i] > 1)
            BLINK_TRY(add_node(build, id, TOPO_SWITCH));
    }
    for (uint32_t i = 0; i < facts->cpus.count; i++) {
        snprintf(id, sizeof(id), "cpu%u", i);
        BLINK_TRY(add_node(build, id, TOPO_CPU));
    }
    return BLINK_OK;
}

/* Link `id`, which hangs on (or is) PCI item `pci`, to the nearest branching bridge above it or to its cpu.
 * Bridges in between have no node: the slowest link of the way counts. */
static blink_result_t link_up(build_t *build, const char *id, uint32_t pci, topo_link_kind_t kind,
                              double GBps)
{
    const detect_pci_t *pcis = build->facts->pcis.items;
    uint32_t above = pcis[pci].parent;
    GBps = fmin(GBps, pcis[pci].GBps);
    while (above != DETECT_NONE && build->branches[above] < 2) {
        GBps = fmin(GBps, pcis[above].GBps);
        above = pcis[above].parent;
    }
    node_id_t to;
    if (above == DETECT_NONE)
        snprintf(to, sizeof(to), "cpu%u", pcis[pci].cpu);
    else
        pci_id(build, above, to);
    return topo_build_link(build->builder, id, to, kind, GBps, 1, TOPO_PCIE_LATENCY_US, true);
}

static blink_result_t link_port(build_t *build, const detect_port_t *port)
{
    node_id_t id, to = "cpu0";
    uint32_t pci = find_pci(build->facts, port->address);
    port_id(port, id);
    if (pci != DETECT_NONE && build->branches[pci] < 2)
        return link_up(build, id, pci, TOPO_NIC_LINK, port->GBps);
    if (pci != DETECT_NONE)
        pci_id(build, pci, to);
    return topo_build_link(build->builder, id, to, TOPO_NIC_LINK, port->GBps, 1, TOPO_DEFAULT_LATENCY_US,
                           true);
}

static blink_result_t link_pci_tree(build_t *build)
{
    const detect_facts_t *facts = build->facts;
    node_id_t id;
    for (uint32_t i = 0; i < build->gpu_count; i++) {
        gpu_id(i, id);
        if (build->gpus[i].pci != DETECT_NONE)
            BLINK_TRY(link_up(build, id, build->gpus[i].pci, TOPO_PCIE, INFINITY));
    }
    for (uint32_t i = 0; i < facts->ports.count; i++) {
        if (is_useful(&facts->ports.items[i]))
            BLINK_TRY(link_port(build, &facts->ports.items[i]));
    }
    for (uint32_t i = 0; i < facts->pcis.count; i++) {
        pci_id(build, i, id);
        if (build->branches[i] > 1)
            BLINK_TRY(link_up(build, id, i, TOPO_PCIE, INFINITY));
    }
    return BLINK_OK;
}

static long sm_of(const build_t *build, const detect_nvlink_t *nvlink)
{
    uint32_t gpu = find_gpu(build, nvlink->from);
    return build->facts->gpus.items[build->gpus[gpu].nvml].sm;
}

static bool nvswitch_reduces(const build_t *build)
{
    for (uint32_t i = 0; i < build->facts->nvlinks.count; i++) {
        const detect_nvlink_t *nvlink = &build->facts->nvlinks.items[i];
        if (nvlink->to_switch && !topo_nvswitch_reduces(sm_of(build, nvlink)))
            return false;
    }
    return true;
}

/* One way: the other end tells the other direction. Switches tell nothing, so their links go both ways. */
static blink_result_t link_nvlinks(build_t *build)
{
    bool has_switch = false;
    for (uint32_t i = 0; i < build->facts->nvlinks.count; i++) {
        const detect_nvlink_t *nvlink = &build->facts->nvlinks.items[i];
        uint32_t from = find_gpu(build, nvlink->from), to = find_gpu(build, nvlink->to);
        double GBps = topo_nvlink_GBps(sm_of(build, nvlink));
        if (GBps == 0 || (to == DETECT_NONE && !nvlink->to_switch))
            continue; /* of unknown speed, or to a GPU that this process may not see */
        node_id_t from_id, to_id = NVSWITCH_ID;
        gpu_id(from, from_id);
        if (!nvlink->to_switch)
            gpu_id(to, to_id);
        else if (!has_switch)
            BLINK_TRY(topo_build_nvswitch(build->builder, HOST, NVSWITCH_ID, nvswitch_reduces(build)));
        has_switch = has_switch || nvlink->to_switch;
        BLINK_TRY(topo_build_link(build->builder, from_id, to_id,
                                  nvlink->to_switch ? TOPO_NVSWITCH : TOPO_NVLINK, GBps, 1,
                                  TOPO_DEFAULT_LATENCY_US, nvlink->to_switch));
    }
    return BLINK_OK;
}

static blink_result_t link_cpus(build_t *build)
{
    const detect_cpu_t *cpus = build->facts->cpus.items;
    for (uint32_t i = 0; i < build->facts->cpus.count; i++) {
        for (uint32_t j = i + 1; j < build->facts->cpus.count; j++) {
            node_id_t from, to;
            snprintf(from, sizeof(from), "cpu%u", i);
            snprintf(to, sizeof(to), "cpu%u", j);
            BLINK_TRY(topo_build_link(build->builder, from, to, TOPO_QPI, fmin(cpus[i].GBps, cpus[j].GBps), 1,
                                      TOPO_QPI_LATENCY_US, true));
        }
    }
    return BLINK_OK;
}

/* The GPUs' name if all have the same. */
static const char *machine_name(const build_t *build)
{
    const detect_facts_t *facts = build->facts;
    for (uint32_t i = 0; i < facts->gpus.count; i++) {
        if (strcmp(facts->gpus.items[i].name, facts->gpus.items[0].name) != 0)
            return "detected";
    }
    bool all = facts->gpus.count == build->gpu_count;
    return all && *facts->gpus.items[0].name ? facts->gpus.items[0].name : "detected";
}

static blink_result_t build_topology(build_t *build, topo_t **topo)
{
    collect_gpus(build);
    if (build->gpu_count == 0)
        return fail_without_gpu(build->facts);
    count_branches(build);
    BLINK_TRY(topo_build_create(machine_name(build), "this machine", &build->builder));
    BLINK_TRY(add_nodes(build));
    BLINK_TRY(link_nvlinks(build));
    BLINK_TRY(link_pci_tree(build));
    BLINK_TRY(link_cpus(build));
    return topo_build_finish(build->builder, topo);
}

blink_result_t detect_build(const detect_facts_t *facts, topo_t **topo)
{
    build_t build = {.facts = facts};
    build.gpus = calloc(facts->gpus.count + facts->pcis.count + 1, sizeof(*build.gpus));
    build.branches = calloc(facts->pcis.count + 1, sizeof(*build.branches));
    blink_result_t result =
        build.gpus && build.branches ? build_topology(&build, topo) : detect_out_of_memory();
    topo_build_destroy(build.builder);
    free(build.branches);
    free(build.gpus);
    return result;
}

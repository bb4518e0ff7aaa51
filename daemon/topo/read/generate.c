#include "topo/read/generate.h"

#include "error.h"
#include "topo/network.h"
#include "topo/rates.h"
#include "topo/read/builtin.h"
#include "topo/source.h"
#include "topo/topo.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 32 /* of a built-in */
#define ID_BYTES   48

typedef char node_id_t[ID_BYTES];

/* "64xdgx1v@5" taken apart; all borrowed from it. */
typedef struct generated_name {
    const char *hosts;
    int hosts_bytes;
    char machine[NAME_BYTES];
    const char *GBps; /* NULL: none */
} generated_name_t;

typedef struct generator {
    const char *what;
    topo_t *machine; /* one host */
    uint32_t host_count;
    uint32_t own_nics;   /* of the machine */
    uint32_t added_nics; /* what each host gets if it has none of its own */
    double nic_GBps;     /* 0: that of the machine's own */
    uint32_t *switches;  /* nodes of the machine: PCIe switches with gpus on them */
    uint32_t switch_count;
    node_id_t *ids; /* of the current host's nodes, as the machine numbers them */
    topo_builder_t *builder;
} generator_t;

/* What a machine that lists no NICs is usually networked with. */
typedef struct machine_nics {
    const char *machine; /* NULL: any other */
    uint32_t count;
    double GBps;
} machine_nics_t;
static const machine_nics_t machine_nics[] = {
    {"dgx2", 8, 12.5}, {"dgx_a100", 8, 25}, {"dgx_h100", 8, 50}, {NULL, 4, 12.5}};

#define FAIL_GENERATE(what, format, ...)                                                                     \
    BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": " format, what __VA_OPT__(, ) __VA_ARGS__)

static bool take_apart(const char *what, generated_name_t *name)
{
    size_t digits = strspn(what, "0123456789");
    if (digits == 0 || what[digits] != 'x')
        return false;
    const char *machine = what + digits + 1;
    size_t bytes = strcspn(machine, "@");
    if (bytes >= sizeof(name->machine))
        return false;
    name->hosts = what;
    name->hosts_bytes = (int)digits;
    memcpy(name->machine, machine, bytes);
    name->machine[bytes] = '\0';
    name->GBps = machine[bytes] == '@' ? machine + bytes + 1 : NULL;
    return true;
}

bool topo_is_generated(const char *what)
{
    generated_name_t name;
    return take_apart(what, &name) && topo_builtin_find(name.machine);
}

/* A decimal number above 0, with a point whatever the locale. */
static blink_result_t parse_GBps(const char *what, const char *text, double *GBps)
{
    locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!c_locale)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", what);
    char *end;
    *GBps = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    if (!*text || text[strspn(text, "0123456789.")] || *end || *GBps <= 0)
        return FAIL_GENERATE(what, "after @ stands the GB/s of each NIC, a number above 0, not \"%.24s\"",
                             text);
    return BLINK_OK;
}

static blink_result_t check_size(const generator_t *generator, const generated_name_t *name)
{
    const topo_t *machine = generator->machine;
    for (uint32_t i = 1; i < machine->node_count; i++) {
        if (strcmp(machine->nodes[i].host, machine->nodes[0].host) != 0)
            return FAIL_GENERATE(generator->what, "%s is more than one host already; N repeats one host",
                                 name->machine);
    }
    if (generator->host_count < 1 || generator->host_count > TOPO_GENERATED_HOSTS_MAX)
        return FAIL_GENERATE(generator->what, "from 1 to %u hosts, not %.*s", TOPO_GENERATED_HOSTS_MAX,
                             name->hosts_bytes < 24 ? name->hosts_bytes : 24, name->hosts);
    uint32_t gpus = generator->host_count * machine->gpu_count;
    if (gpus > TOPO_GENERATED_GPUS_MAX)
        return FAIL_GENERATE(generator->what, "%u hosts of %u gpus are %u gpus, %u are possible",
                             generator->host_count, machine->gpu_count, gpus, TOPO_GENERATED_GPUS_MAX);
    return BLINK_OK;
}

/* Decide what NICs a host gets. */
static void choose_nics(generator_t *generator, const char *machine_name)
{
    const topo_t *machine = generator->machine;
    for (uint32_t i = 0; i < machine->node_count; i++) {
        generator->own_nics += machine->nodes[i].kind == TOPO_NIC;
        if (topo_is_pcie_switch(machine, i))
            generator->switches[generator->switch_count++] = i;
    }
    if (generator->own_nics)
        return;
    const machine_nics_t *nics = machine_nics;
    while (nics->machine && strcmp(nics->machine, machine_name) != 0)
        nics++;
    generator->added_nics = generator->switch_count ? generator->switch_count : nics->count;
    if (generator->nic_GBps == 0)
        generator->nic_GBps = nics->GBps;
}

static blink_result_t add_node(generator_t *generator, const char *id, const char *host,
                               const topo_node_t *like)
{
    topo_node_t node = *like;
    node.id = (char *)id;
    node.host = (char *)host;
    return topo_build_node(generator->builder, &node);
}

static blink_result_t add_link(generator_t *generator, const char *from, const char *to,
                               topo_link_kind_t kind, double GBps, double latency_us)
{
    return topo_build_link(generator->builder, from, to, kind, GBps, 1, latency_us, true);
}

static blink_result_t add_machine_nodes(generator_t *generator, uint32_t host, const char *host_name)
{
    const topo_t *machine = generator->machine;
    uint32_t gpu = host * machine->gpu_count, nic = host * generator->own_nics;
    for (uint32_t i = 0; i < machine->node_count; i++) {
        const topo_node_t *node = &machine->nodes[i];
        char *id = generator->ids[i];
        int stem = (int)strcspn(node->id, "0123456789");
        if (node->kind == TOPO_DEVICE)
            snprintf(id, ID_BYTES, "gpu%u", gpu++);
        else if (node->kind == TOPO_NIC)
            snprintf(id, ID_BYTES, "nic%u", nic++);
        else
            snprintf(id, ID_BYTES, "%.*s%u_%s", stem, node->id, host, node->id + stem);
        BLINK_TRY(add_node(generator, id, host_name, node));
    }
    return BLINK_OK;
}

/* Links of NICs get the capacity that the name asks for. */
static blink_result_t add_machine_links(generator_t *generator)
{
    const topo_t *machine = generator->machine;
    for (uint32_t i = 0; i < machine->link_count; i++) {
        topo_link_t link = machine->links[i];
        if (link.kind == TOPO_NIC_LINK && generator->nic_GBps > 0)
            link.GBps = link.unit_GBps = generator->nic_GBps;
        BLINK_TRY(
            topo_build_again(generator->builder, generator->ids[link.from], generator->ids[link.to], &link));
    }
    return BLINK_OK;
}

/* Join NIC `nic` of a host to its PCIe switch, or to its share of the gpus. */
static blink_result_t attach_nic(generator_t *generator, uint32_t nic, const char *id)
{
    const topo_t *machine = generator->machine;
    if (generator->switch_count) {
        uint32_t node = generator->switches[nic];
        return add_link(generator, generator->ids[node], id, TOPO_PCIE, topo_fastest_GBps(machine, node),
                        TOPO_PCIE_LATENCY_US);
    }
    uint32_t first = nic * machine->gpu_count / generator->added_nics;
    uint32_t end = (nic + 1) * machine->gpu_count / generator->added_nics;
    for (uint32_t i = first; i < end; i++)
        BLINK_TRY(add_link(generator, generator->ids[machine->gpus[i]], id, TOPO_NIC_LINK,
                           generator->nic_GBps, TOPO_DEFAULT_LATENCY_US));
    return BLINK_OK;
}

static blink_result_t add_nics(generator_t *generator, uint32_t host, const char *host_name)
{
    for (uint32_t i = 0; i < generator->added_nics; i++) {
        node_id_t id;
        snprintf(id, sizeof(id), "nic%u", host * generator->added_nics + i);
        BLINK_TRY(add_node(generator, id, host_name, &(topo_node_t){.kind = TOPO_NIC}));
        BLINK_TRY(attach_nic(generator, i, id));
        BLINK_TRY(add_link(generator, id, TOPO_NET_ID, TOPO_NET, generator->nic_GBps, TOPO_NET_LATENCY_US));
    }
    return BLINK_OK;
}

static blink_result_t connect_own_nics(generator_t *generator)
{
    const topo_t *machine = generator->machine;
    for (uint32_t i = 0; i < machine->node_count; i++) {
        if (machine->nodes[i].kind != TOPO_NIC)
            continue;
        double GBps = generator->nic_GBps > 0 ? generator->nic_GBps : topo_fastest_GBps(machine, i);
        BLINK_TRY(add_link(generator, generator->ids[i], TOPO_NET_ID, TOPO_NET, GBps, TOPO_NET_LATENCY_US));
    }
    return BLINK_OK;
}

static blink_result_t add_hosts(generator_t *generator)
{
    for (uint32_t host = 0; host < generator->host_count; host++) {
        char host_name[ID_BYTES];
        snprintf(host_name, sizeof(host_name), "n%u", host);
        BLINK_TRY(add_machine_nodes(generator, host, host_name));
        BLINK_TRY(add_machine_links(generator));
        BLINK_TRY(add_nics(generator, host, host_name));
        BLINK_TRY(connect_own_nics(generator));
    }
    return add_node(generator, TOPO_NET_ID, "", &(topo_node_t){.kind = TOPO_SWITCH});
}

static blink_result_t build(generator_t *generator, const char *machine_name, topo_t **topo)
{
    generator->switches = calloc(generator->machine->node_count, sizeof(*generator->switches));
    generator->ids = calloc(generator->machine->node_count, sizeof(*generator->ids));
    if (!generator->switches || !generator->ids)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", generator->what);
    choose_nics(generator, machine_name);
    BLINK_TRY(topo_build_create(generator->what, generator->what, &generator->builder));
    BLINK_TRY(add_hosts(generator));
    return topo_build_finish(generator->builder, topo);
}

blink_result_t topo_generate(const char *what, topo_t **topo)
{
    generated_name_t name;
    const topo_builtin_t *builtin = take_apart(what, &name) ? topo_builtin_find(name.machine) : NULL;
    if (!builtin)
        return FAIL_GENERATE(what, "not NxNAME with the name of a built-in");
    generator_t generator = {.what = what};
    if (name.GBps)
        BLINK_TRY(parse_GBps(what, name.GBps, &generator.nic_GBps));
    BLINK_TRY(topo_parse_json(builtin->text, builtin->bytes, name.machine, &generator.machine));
    unsigned long hosts = strtoul(name.hosts, NULL, 10); /* what does not fit is ULONG_MAX */
    generator.host_count = hosts > TOPO_GENERATED_HOSTS_MAX ? UINT32_MAX : (uint32_t)hosts;
    blink_result_t result = check_size(&generator, &name);
    if (result == BLINK_OK)
        result = build(&generator, name.machine, topo);
    topo_build_destroy(generator.builder);
    free(generator.ids);
    free(generator.switches);
    topo_destroy(generator.machine);
    return result;
}

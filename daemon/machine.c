#include "machine.h"

#include "base/log.h"
#include "base/vec.h"
#include "control/peers/peers.h"
#include "net/address.h"
#include "topo/detect/detect.h"
#include "topo/network.h"
#include "topo/reached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* The plain host topology: every device hangs on the one memory. Among links of equal capacity the planner
 * prefers direct ways. */
#define MEMORY_LINK_GBPS  20.0
#define MEMORY_LATENCY_US 0.1
#define MEMORY_DEVICES    8u /* when neither --devices nor --topology says how many */

/* Parts of a GPU share its memory: the rate where the driver does not tell one, and the latency of a chunk.
 */
#define GPU_MEMORY_GBPS       1000.0
#define GPU_MEMORY_LATENCY_US 1.0

/* GPUs of which nothing is known but that they are there: PCIe 4.0 x16 to one hub. */
#define HUB            "cpu0"
#define HUB_GBPS       24.0
#define HUB_LATENCY_US 1.5

/* Of silence. Where the build has no machine code for a GPU, the driver compiles the kernels: tens of seconds
 * for each GPU, unless it finds them in its cache. */
#define HELLO_TIMEOUT_MS 60000u

#define ID_BYTES 32

/* An interface whose driver does not tell how fast it is, and what stands for the network where there is no
 * interface (daemons that talk over the loopback): 10 Gbit/s. */
#define NIC_DEFAULT_GBPS 1.25
#define NIC_DEFAULT_ID   "nic0"

#define INTERFACES_MAX 64u

/* ---- host devices ---- */

static blink_result_t add_part(topo_builder_t *builder, const char *id, const char *memory, double GBps,
                               double latency_us)
{
    topo_node_t device = {.id = (char *)(uintptr_t)id, .host = "n0", .kind = TOPO_DEVICE};
    BLINK_TRY(topo_build_node(builder, &device));
    return topo_build_link(builder, id, memory, TOPO_SHM, GBps, 1, latency_us, true);
}

static blink_result_t add_host_devices(topo_builder_t *builder, uint32_t count)
{
    topo_node_t memory = {.id = "memory", .host = "n0", .kind = TOPO_SWITCH};
    if (count == 0)
        return BLINK_OK;
    BLINK_TRY(topo_build_node(builder, &memory));
    for (uint32_t i = 0; i < count; i++) {
        char id[ID_BYTES];
        snprintf(id, sizeof(id), "host%u", i);
        BLINK_TRY(add_part(builder, id, memory.id, MEMORY_LINK_GBPS, MEMORY_LATENCY_US));
    }
    return BLINK_OK;
}

/* ---- GPUs ---- */

/* What the settings ask for, with `all` written out. */
static blink_result_t choose_gpus(const settings_devices_t *asked, const gpu_hello_t *hello,
                                  settings_devices_t *chosen)
{
    bool seen[GPU_MAX] = {false};
    *chosen = *asked;
    if (asked->all_gpus) {
        chosen->gpu_count = hello->gpu_count;
        for (uint32_t i = 0; i < hello->gpu_count; i++)
            chosen->gpus[i] = (settings_gpu_t){i, 1};
    }
    for (uint32_t i = 0; i < chosen->gpu_count; i++) {
        uint32_t gpu = chosen->gpus[i].gpu;
        if (gpu >= hello->gpu_count)
            return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "devices cuda:%u: this machine has GPUs 0 to %u", gpu,
                              hello->gpu_count - 1);
        if (seen[gpu])
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "devices cuda: GPU %u is named twice", gpu);
        seen[gpu] = true;
    }
    return BLINK_OK;
}

/* The node by which a GPU is linked to others: the device itself, or what its parts have in common. */
static void gpu_node_id(uint32_t gpu, char id[ID_BYTES])
{
    snprintf(id, ID_BYTES, "gpu%u", gpu);
}

static blink_result_t add_gpu(topo_builder_t *builder, const settings_gpu_t *chosen, const gpu_facts_t *facts)
{
    char id[ID_BYTES], part[2 * ID_BYTES];
    gpu_node_id(chosen->gpu, id);
    topo_node_t node = {.id = id, .host = "n0", .kind = chosen->parts > 1 ? TOPO_SWITCH : TOPO_DEVICE};
    double GBps = facts->memory_GBps > 0 ? facts->memory_GBps : GPU_MEMORY_GBPS;
    BLINK_TRY(topo_build_node(builder, &node));
    for (uint32_t i = 0; i < chosen->parts && chosen->parts > 1; i++) {
        snprintf(part, sizeof(part), "%s.%u", id, i);
        BLINK_TRY(add_part(builder, part, id, GBps / chosen->parts, GPU_MEMORY_LATENCY_US));
    }
    return BLINK_OK;
}

static bool is_chosen(const settings_devices_t *chosen, uint32_t gpu)
{
    uint32_t i = 0;
    while (i < chosen->gpu_count && chosen->gpus[i].gpu != gpu)
        i++;
    return i < chosen->gpu_count;
}

/* How many GPUs come before this one by PCI address, which is how detection numbers them. */
static uint32_t number_by_address(const gpu_hello_t *hello, uint32_t gpu)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < hello->gpu_count; i++)
        before += strcmp(hello->gpus[i].pci, hello->gpus[gpu].pci) < 0;
    return before;
}

/* What a node of the detected topology is called in the daemon's topology; "" if it has no place there. */
static void name_detected(const topo_t *detected, uint32_t node, const gpu_hello_t *hello,
                          const settings_devices_t *chosen, char id[ID_BYTES])
{
    id[0] = '\0';
    if (detected->nodes[node].kind != TOPO_DEVICE) {
        snprintf(id, ID_BYTES, "%s", detected->nodes[node].id);
        return;
    }
    for (uint32_t gpu = 0; gpu < hello->gpu_count; gpu++) {
        if (detected->gpus[number_by_address(hello, gpu)] == node && is_chosen(chosen, gpu))
            gpu_node_id(gpu, id);
    }
}

static blink_result_t add_detected(topo_builder_t *builder, const topo_t *detected, const gpu_hello_t *hello,
                                   const settings_devices_t *chosen)
{
    char from[ID_BYTES], to[ID_BYTES];
    for (uint32_t i = 0; i < detected->node_count; i++) {
        if (detected->nodes[i].kind != TOPO_DEVICE)
            BLINK_TRY(topo_build_node(builder, &detected->nodes[i]));
    }
    for (uint32_t i = 0; i < detected->link_count; i++) {
        const topo_link_t *link = &detected->links[i];
        name_detected(detected, link->from, hello, chosen, from);
        name_detected(detected, link->to, hello, chosen, to);
        if (from[0] != '\0' && to[0] != '\0')
            BLINK_TRY(topo_build_link(builder, from, to, link->kind, link->GBps, 1, link->latency_us, false));
    }
    return BLINK_OK;
}

static blink_result_t add_hub(topo_builder_t *builder, const settings_devices_t *chosen)
{
    topo_node_t hub = {.id = HUB, .host = "n0", .kind = TOPO_CPU};
    BLINK_TRY(topo_build_node(builder, &hub));
    for (uint32_t i = 0; i < chosen->gpu_count; i++) {
        char id[ID_BYTES];
        gpu_node_id(chosen->gpus[i].gpu, id);
        BLINK_TRY(topo_build_link(builder, id, HUB, TOPO_PCIE, HUB_GBPS, 1, HUB_LATENCY_US, true));
    }
    return BLINK_OK;
}

/* Links between several GPUs. Detection sees all GPUs of the machine: where the driver shows fewer, there is
 * no telling which. */
static blink_result_t add_links(topo_builder_t *builder, const gpu_hello_t *hello,
                                const settings_devices_t *chosen)
{
    topo_t *detected = NULL;
    if (chosen->gpu_count < 2)
        return BLINK_OK;
    const detect_sources_t sources = {0};
    blink_result_t result = topo_detect(&sources, &detected);
    if (result == BLINK_OK && detected->gpu_count == hello->gpu_count) {
        result = add_detected(builder, detected, hello, chosen);
    } else {
        LOG_WARNING("the links between the GPUs are not known (%s): planning for one PCIe hub",
                    result != BLINK_OK ? blink_error_text() : "the driver hides some of the machine's GPUs");
        result = add_hub(builder, chosen);
    }
    topo_destroy(detected);
    return result;
}

static blink_result_t build_topology(const settings_devices_t *chosen, const gpu_hello_t *hello,
                                     topo_t **topo)
{
    topo_builder_t *builder;
    BLINK_TRY(topo_build_create(hello ? "gpus" : "memory", "--devices", &builder));
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < chosen->gpu_count && result == BLINK_OK; i++)
        result = add_gpu(builder, &chosen->gpus[i], &hello->gpus[chosen->gpus[i].gpu]);
    if (result == BLINK_OK && hello)
        result = add_links(builder, hello, chosen);
    if (result == BLINK_OK)
        result = add_host_devices(builder, chosen->host_count);
    if (result == BLINK_OK)
        result = topo_build_finish(builder, topo);
    topo_build_destroy(builder);
    return result;
}

/* What the driver says of GPUs, the planner hears of the devices on them. */
static blink_result_t note_non_peers(machine_t *machine)
{
    const topo_t *topo = machine->topo;
    VEC(topo_pair_t) pairs = {0};
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; i < topo->gpu_count; i++) {
        for (uint32_t j = i + 1; j < topo->gpu_count && result == BLINK_OK; j++) {
            uint32_t one = machine->gpu_of_node[topo->gpus[i]], other = machine->gpu_of_node[topo->gpus[j]];
            if (one == GPU_NONE || other == GPU_NONE || gpu_are_peers(machine->hello.gpus, one, other))
                continue;
            if (!vec_push(&pairs, ((topo_pair_t){topo->gpus[i], topo->gpus[j]})))
                result = BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu pairs of GPUs", pairs.count);
        }
    }
    if (result == BLINK_OK)
        result = topo_add_non_peers(machine->topo, pairs.items, (uint32_t)pairs.count);
    vec_free(&pairs);
    return result;
}

/* The node of a GPU and those of its parts; host devices come after all of them. */
static blink_result_t note_gpus(machine_t *machine, const settings_devices_t *chosen)
{
    uint32_t device = 0;
    machine->gpu_of_node = malloc(machine->topo->node_count * sizeof(*machine->gpu_of_node));
    if (!machine->gpu_of_node)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %u nodes", machine->topo->node_count);
    for (uint32_t i = 0; i < machine->topo->node_count; i++)
        machine->gpu_of_node[i] = GPU_NONE;
    for (uint32_t i = 0; i < chosen->gpu_count; i++) {
        for (uint32_t part = 0; part < chosen->gpus[i].parts; part++)
            machine->gpu_of_node[machine->topo->gpus[device++]] = chosen->gpus[i].gpu;
    }
    return note_non_peers(machine);
}

static blink_result_t await_hello(machine_t *machine)
{
    do {
        sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%u", HELLO_TIMEOUT_MS * 1000);
        BLINK_TRY(gpu_worker_receive_hello(&machine->worker, (int)HELLO_TIMEOUT_MS, &machine->hello));
    } while (machine->hello.is_opening);
    return BLINK_OK;
}

static blink_result_t start_worker(const settings_t *settings, machine_t *machine)
{
    BLINK_TRY(wire_memory_create(&machine->wires));
    BLINK_TRY(gpu_worker_start(settings, wire_memory_fd(machine->wires), &machine->worker));
    blink_result_t result = await_hello(machine);
    if (result != BLINK_OK)
        gpu_worker_end(&machine->worker, NULL, 0);
    machine->has_gpus = result == BLINK_OK;
    return result;
}

/* The driver shows no others, and numbers those as they are named. */
static void note_visible(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        LOG_INFO("CUDA_VISIBLE_DEVICES=%s: blinkd has the GPUs that it names, numbered in that order",
                 visible);
}

static void note_sharing(const settings_t *settings, const gpu_hello_t *hello)
{
    if (settings->network_gpu_direct && settings->network_transport == SETTINGS_TCP)
        LOG_WARNING("[network] gpu_direct: not with transport = tcp");
    if (settings->gpu_mps && !hello->is_mps)
        LOG_WARNING(
            "gpu sharing = mps, but no MPS daemon serves this process: kernels take turns with others'");
}

/* Start the worker if the settings ask for GPUs, and write out which. */
static blink_result_t find_gpus(const settings_t *settings, machine_t *machine, settings_devices_t *chosen)
{
    bool wants_gpus = chosen->automatic || chosen->all_gpus || chosen->gpu_count > 0;
    if (!wants_gpus)
        return BLINK_OK;
    note_visible();
    if (start_worker(settings, machine) == BLINK_OK) {
        chosen->all_gpus |= chosen->automatic;
        note_sharing(settings, &machine->hello);
        return choose_gpus(chosen, &machine->hello, chosen);
    }
    if (!chosen->automatic)
        return blink_error_set(BLINK_ERR_NOT_FOUND, "devices cuda: %s", blink_error_text());
    uint32_t installed = detect_nvidia_gpus(NULL);
    if (installed > 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                          "devices auto: %u of NVIDIA's GPUs cannot be used: make them so (as root: "
                          "nvidia-modprobe -c0 -u), or set devices = host:%u. %s",
                          installed, installed, blink_error_text());
    LOG_INFO("no GPUs: %s", blink_error_text());
    return BLINK_OK;
}

static uint32_t count_devices(const settings_devices_t *chosen)
{
    uint32_t count = chosen->host_count;
    for (uint32_t i = 0; i < chosen->gpu_count; i++)
        count += chosen->gpus[i].parts;
    return count;
}

/* ---- the network ---- */

typedef struct nics {
    uint32_t count;
    topo_nic_t nics[SETTINGS_NICS_MAX];
    char names[SETTINGS_NICS_MAX][SETTINGS_NIC_BYTES];
} nics_t;

static void add_nic(nics_t *nics, const char *name, double GBps)
{
    if (nics->count == SETTINGS_NICS_MAX)
        return;
    snprintf(nics->names[nics->count], sizeof(nics->names[0]), "%.*s", SETTINGS_NIC_BYTES - 1, name);
    nics->nics[nics->count] = (topo_nic_t){nics->names[nics->count], GBps > 0 ? GBps : NIC_DEFAULT_GBPS};
    nics->count++;
}

/* A NIC that is not there would be planned with and move nothing. */
static blink_result_t take_named_nics(const settings_t *settings, nics_t *nics)
{
    char copy[SETTINGS_TEXT_BYTES], *rest = strcpy(copy, settings->network_nics);
    for (char *item; (item = settings_next_item(&rest));) {
        settings_nic_t nic;
        if (!settings_parse_nic(item, &nic))
            continue;
        if (address_check_interface(nic.name) != BLINK_OK)
            return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "[network] nics: %s", blink_error_text());
        add_nic(nics, nic.name, nic.GBps > 0 ? nic.GBps : detect_nic_GBps(NULL, nic.name));
    }
    return BLINK_OK;
}

static bool is_listened_at(const settings_t *settings, const net_address_t *address)
{
    char copy[SETTINGS_TEXT_BYTES], *rest = strcpy(copy, settings->network_listen);
    net_address_t listening;
    for (char *item; (item = settings_next_item(&rest));)
        if (address_parse(item, 0, &listening) == BLINK_OK) {
            listening.v4.sin_port = 0; /* IPv6 has it at the same place */
            if (address_is_own(&listening, address))
                return true;
        }
    return false;
}

static blink_result_t find_nics(const settings_t *settings, nics_t *nics)
{
    net_interface_t interfaces[INTERFACES_MAX];
    uint32_t count;
    BLINK_TRY(address_interfaces(interfaces, INTERFACES_MAX, &count));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t known = 0;
        while (known < nics->count && strcmp(nics->names[known], interfaces[i].name) != 0)
            known++;
        if (known == nics->count && is_listened_at(settings, &interfaces[i].address))
            add_nic(nics, interfaces[i].name, detect_nic_GBps(NULL, interfaces[i].name));
    }
    return BLINK_OK;
}

/* With what the fabric file says, if the settings name one. */
static blink_result_t add_network(const settings_t *settings, const nics_t *nics, machine_t *machine)
{
    char host[SETTINGS_TEXT_BYTES];
    fabric_file_t *file = NULL;
    if (*settings->network_fabric == '\0')
        return topo_add_network(machine->topo, nics->nics, nics->count, NULL, &machine->with_network);
    BLINK_TRY(peers_find_name(settings, host));
    BLINK_TRY(fabric_file_read(settings->network_fabric, &file));
    const topo_fabric_t fabric = {.file = file, .host = host};
    blink_result_t result =
        topo_add_network(machine->topo, nics->nics, nics->count, &fabric, &machine->with_network);
    fabric_file_destroy(file);
    if (result != BLINK_OK)
        return BLINK_FAIL(result, "fabric file %s: %s", settings->network_fabric, blink_error_text());
    return BLINK_OK;
}

static blink_result_t make_network(const settings_t *settings, machine_t *machine)
{
    nics_t nics = {0};
    if (*settings->network_listen == '\0')
        return BLINK_OK;
    if (*settings->network_nics)
        BLINK_TRY(take_named_nics(settings, &nics));
    else
        BLINK_TRY(find_nics(settings, &nics));
    if (nics.count == 0)
        add_nic(&nics, NIC_DEFAULT_ID, NIC_DEFAULT_GBPS);
    return add_network(settings, &nics, machine);
}

/* ---- all of it ---- */

/* As GPUs use it, if all devices are on GPUs. */
static blink_result_t load_topology(const settings_t *settings, machine_t *machine, bool all_gpus)
{
    if (all_gpus && topo_is_machine(settings->topology))
        return topo_load_as_reached(settings->topology, &machine->topo);
    BLINK_TRY(topo_load(settings->topology, &machine->topo));
    for (const char *note = machine->topo->notes; note;
         note = strchr(note, '\n') ? strchr(note, '\n') + 1 : NULL)
        LOG_WARNING("topology %s: %.*s", settings->topology, (int)strcspn(note, "\n"), note);
    return BLINK_OK;
}

/* Devices laid out as another machine's: the plans are that machine's, whatever memory the devices have. */
static blink_result_t make_emulated(const settings_t *settings, machine_t *machine)
{
    settings_devices_t chosen = settings->devices;
    chosen.automatic = false;
    BLINK_TRY(find_gpus(settings, machine, &chosen));
    BLINK_TRY(load_topology(settings, machine, machine->has_gpus && chosen.host_count == 0));
    uint32_t gpus = machine->topo->gpu_count;
    machine->device_count = count_devices(&chosen) > 0 ? count_devices(&chosen) : gpus;
    if (machine->device_count > gpus)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u devices, but topology %s has only %u gpus",
                          machine->device_count, settings->topology, gpus);
    return machine->has_gpus ? note_gpus(machine, &chosen) : BLINK_OK;
}

static blink_result_t make_devices(const settings_t *settings, machine_t *machine)
{
    settings_devices_t chosen = settings->devices;
    BLINK_TRY(find_gpus(settings, machine, &chosen));
    if (!machine->has_gpus && chosen.host_count == 0)
        chosen.host_count = MEMORY_DEVICES;
    machine->device_count = count_devices(&chosen);
    BLINK_TRY(build_topology(&chosen, machine->has_gpus ? &machine->hello : NULL, &machine->topo));
    return machine->has_gpus ? note_gpus(machine, &chosen) : BLINK_OK;
}

blink_result_t machine_make(const settings_t *settings, machine_t *machine)
{
    *machine = (machine_t){
        .worker = {.socket_fd = -1, .channel = {.ring_fd = -1, .doorbell_fd = -1, .event_fd = -1}}};
    blink_result_t result =
        settings->topology[0] != '\0' ? make_emulated(settings, machine) : make_devices(settings, machine);
    if (result == BLINK_OK)
        result = make_network(settings, machine);
    if (result != BLINK_OK) {
        char text[BLINK_ERROR_TEXT_BYTES];
        snprintf(text, sizeof(text), "%s", blink_error_text());
        machine_fini(machine);
        return BLINK_FAIL(result, "%s", text);
    }
    return BLINK_OK;
}

void machine_fini(machine_t *machine)
{
    gpu_worker_end(&machine->worker, NULL, 0);
    wire_memory_destroy(machine->wires);
    topo_destroy(machine->with_network);
    topo_destroy(machine->topo);
    free(machine->gpu_of_node);
    machine->wires = NULL;
    machine->with_network = machine->topo = NULL;
    machine->gpu_of_node = NULL;
}

const char *machine_describe(const machine_t *machine, char *text, size_t bytes)
{
    uint32_t on_gpus = 0;
    for (uint32_t i = 0; i < machine->device_count && machine->has_gpus; i++)
        on_gpus += machine->gpu_of_node[machine->topo->gpus[i]] != GPU_NONE;
    uint32_t on_host = machine->device_count - on_gpus;
    if (on_gpus == 0)
        snprintf(text, bytes, "%u host devices on %s", on_host, machine->topo->name);
    else if (on_host == 0)
        snprintf(text, bytes, "%u device%s on GPUs", on_gpus, on_gpus == 1 ? "" : "s");
    else
        snprintf(text, bytes, "%u devices on GPUs and %u host devices", on_gpus, on_host);
    return text;
}

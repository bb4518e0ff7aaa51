/* One table of keys serves the file, the flags and --check-config, so they cannot drift apart. */
#include "config.h"

#include "base/ini_file.h"
#include "base/near.h"
#include "base/value.h"
#include "frame.h"
#include "names.h"
#include "net/net.h"

#include <errno.h>
#include <float.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum value_kind {
    VALUE_TEXT,
    VALUE_LIST, /* as VALUE_TEXT, with room for more */
    VALUE_COUNT,
    VALUE_THREADS,
    VALUE_BYTES,
    VALUE_SECONDS,
    VALUE_MODE,
    VALUE_YES_NO,
    VALUE_OTHER
} value_kind_t;

typedef struct config_key {
    const char *section, *key;
    value_kind_t kind;
    size_t offset;
    /* Of VALUE_OTHER. Of texts a check that sets nothing; NULL: any text is right. */
    blink_result_t (*parse)(settings_t *settings, const char *value);
    void (*print)(const settings_t *settings);
} config_key_t;

/* ---- values ---- */

#define MIB           ((uint64_t)1 << 20)
#define TIB           ((uint64_t)1 << 40)
#define COUNT_MAX     10000000u
#define GPU_PARTS_MAX 64u
#define THREADS_MAX   1024u
#define SECONDS_MAX   1e6

static blink_result_t parse_count(const char *value, uint32_t most, uint32_t *count)
{
    uint64_t parsed;
    if (!value_parse_number(value, most, &parsed))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is not a count from 0 to %u", value, most);
    *count = (uint32_t)parsed;
    return BLINK_OK;
}

static blink_result_t parse_count64(const char *value, uint64_t *count)
{
    uint32_t parsed;
    BLINK_TRY(parse_count(value, COUNT_MAX, &parsed));
    *count = parsed;
    return BLINK_OK;
}

static blink_result_t parse_bytes(const char *value, uint64_t *bytes)
{
    if (!value_parse_bytes(value, bytes))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is not " VALUE_BYTES_EXAMPLES, value);
    return BLINK_OK;
}

static blink_result_t parse_seconds(const char *value, double *seconds)
{
    if (!value_parse_positive(value, SECONDS_MAX, seconds))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "'%s' is not a number of seconds above 0 and up to 1000000", value);
    return BLINK_OK;
}

static blink_result_t parse_mode(const char *value, uint32_t *mode)
{
    char *end;
    unsigned long parsed = strtoul(value, &end, 8);
    if (end == value || *end != '\0' || parsed > 0777)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is not an octal file mode such as 0660", value);
    *mode = (uint32_t)parsed;
    return BLINK_OK;
}

static blink_result_t parse_yes_no(const char *value, bool *yes)
{
    *yes = strcmp(value, "yes") == 0;
    if (!*yes && strcmp(value, "no") != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "'%s' is not yes or no", value);
    return BLINK_OK;
}

/* "0" or "0x8". */
static bool parse_gpu(const char *value, settings_gpu_t *gpu)
{
    char number[16];
    const char *cut = strchr(value, 'x');
    size_t length = cut ? (size_t)(cut - value) : strlen(value);
    if (length >= sizeof(number))
        return false;
    memcpy(number, value, length);
    number[length] = '\0';
    gpu->parts = 1;
    return parse_count(number, SETTINGS_GPUS_MAX - 1, &gpu->gpu) == BLINK_OK &&
           (!cut || (parse_count(cut + 1, GPU_PARTS_MAX, &gpu->parts) == BLINK_OK && gpu->parts > 0));
}

/* The list behind "cuda:", which it takes apart. */
static bool parse_gpus(char *list, settings_devices_t *devices)
{
    char *rest = NULL;
    if (strcmp(list, "all") == 0) {
        devices->all_gpus = true;
        return devices->gpu_count == 0;
    }
    if (*list == '\0')
        return false;
    for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (devices->all_gpus || devices->gpu_count == SETTINGS_GPUS_MAX ||
            !parse_gpu(one, &devices->gpus[devices->gpu_count++]))
            return false;
    }
    return true;
}

static bool parse_summand(char *value, settings_devices_t *devices)
{
    if (strcmp(value, "host") == 0)
        return true;
    if (strncmp(value, "host:", 5) == 0)
        return devices->host_count == 0 &&
               parse_count(value + 5, COUNT_MAX, &devices->host_count) == BLINK_OK && devices->host_count > 0;
    if (strcmp(value, "cuda") == 0)
        return parse_gpus((char[]){"all"}, devices);
    return strncmp(value, "cuda:", 5) == 0 && parse_gpus(value + 5, devices);
}

static blink_result_t parse_devices(settings_t *settings, const char *value)
{
    settings_devices_t devices = {.automatic = strcmp(value, "auto") == 0};
    char copy[SETTINGS_TEXT_BYTES], *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", value);
    char *one = devices.automatic ? NULL : strtok_r(copy, "+", &rest);
    bool good = devices.automatic || (one && strlen(value) < sizeof(copy));
    for (; one && good; one = strtok_r(NULL, "+", &rest))
        good = parse_summand(one, &devices);
    if (!good)
        return BLINK_FAIL(
            BLINK_ERR_INVALID_ARGUMENT,
            "devices '%s': auto, host:8, cuda:all, cuda:0,3, cuda:0x8 (GPU 0 as 8 devices), or a sum such "
            "as cuda:all+host:4",
            value);
    settings->devices = devices;
    return BLINK_OK;
}

static void print_devices(const settings_t *settings)
{
    const settings_devices_t *devices = &settings->devices;
    const char *plus = "";
    if (devices->automatic || devices->all_gpus) {
        printf("%s", devices->automatic ? "auto" : "cuda:all");
        plus = "+";
    }
    for (uint32_t i = 0; i < devices->gpu_count; i++) {
        printf("%s%u", i == 0 ? "cuda:" : ",", devices->gpus[i].gpu);
        if (devices->gpus[i].parts > 1)
            printf("x%u", devices->gpus[i].parts);
        plus = "+";
    }
    if (devices->host_count > 0)
        printf("%shost:%u", plus, devices->host_count);
    else if (*plus == '\0')
        printf("host");
}

static blink_result_t parse_sharing(settings_t *settings, const char *value)
{
    settings->gpu_mps = strcmp(value, "mps") == 0;
    if (!settings->gpu_mps && strcmp(value, "isolated") != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "gpu sharing '%s': isolated or mps", value);
    return BLINK_OK;
}

static void print_sharing(const settings_t *settings)
{
    printf("%s", settings_sharing_name(settings));
}

static const char *const nvswitch_names[] = {
    [SETTINGS_NVSWITCH_EXACT] = "exact", [SETTINGS_NVSWITCH_ALL] = "all", [SETTINGS_NVSWITCH_NO] = "no"};

static blink_result_t parse_nvswitch(settings_t *settings, const char *value)
{
    for (settings_nvswitch_t i = SETTINGS_NVSWITCH_EXACT; i <= SETTINGS_NVSWITCH_NO; i++) {
        settings->gpu_nvswitch = i;
        if (strcmp(value, nvswitch_names[i]) == 0)
            return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "nvswitch_reduces '%s': exact, all or no", value);
}

static void print_nvswitch(const settings_t *settings)
{
    printf("%s", nvswitch_names[settings->gpu_nvswitch]);
}

static blink_result_t parse_protocol(settings_t *settings, const char *value)
{
    settings->force_protocol = strcmp(value, "auto") != 0;
    if (settings->force_protocol && !blink_parse_protocol(value, &settings->protocol))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "protocol '%s': auto, simple, ll or ll128", value);
    return BLINK_OK;
}

static void print_protocol(const settings_t *settings)
{
    printf("%s", settings->force_protocol ? blink_name_protocol(settings->protocol) : "auto");
}

static blink_result_t parse_pace(settings_t *settings, const char *value)
{
    if (strcmp(value, "auto") == 0) {
        settings->pace_scale = SETTINGS_PACE_AUTO;
        return BLINK_OK;
    }
    if (strcmp(value, "off") == 0) {
        settings->pace_scale = 0;
        return BLINK_OK;
    }
    double scale;
    if (!value_parse_positive(value, DBL_MAX, &scale))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "pace scale '%s': a number above 0 such as 0.004, auto or off", value);
    settings->pace_scale = scale;
    return BLINK_OK;
}

static void print_pace(const settings_t *settings)
{
    if (settings->pace_scale == SETTINGS_PACE_AUTO)
        printf("auto");
    else if (settings->pace_scale > 0)
        printf("%g", settings->pace_scale);
    else
        printf("off");
}

static blink_result_t parse_tenants_by(settings_t *settings, const char *value)
{
    settings->tenants_by_cgroup = strcmp(value, "cgroup") == 0;
    if (!settings->tenants_by_cgroup && strcmp(value, "uid") != 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "tenants_by '%s': uid or cgroup", value);
    return BLINK_OK;
}

static void print_tenants_by(const settings_t *settings)
{
    printf("%s", settings->tenants_by_cgroup ? "cgroup" : "uid");
}

static blink_result_t parse_level(settings_t *settings, const char *value)
{
    if (!log_parse_level(value, &settings->log_level))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "log level '%s': error, warning, info or debug", value);
    return BLINK_OK;
}

static void print_level(const settings_t *settings)
{
    printf("%s", log_level_name(settings->log_level));
}

/* One address, or several. */
static blink_result_t check_listen(settings_t *settings, const char *value)
{
    char copy[SETTINGS_TEXT_BYTES], *rest = strcpy(copy, value);
    (void)settings;
    for (char *one; (one = settings_next_item(&rest));) {
        net_address_t address;
        BLINK_TRY(address_parse(one, NET_PORT_DEFAULT, &address));
    }
    return BLINK_OK;
}

/* Hosts by name or address. */
static blink_result_t check_peers(settings_t *settings, const char *value)
{
    char copy[SETTINGS_LIST_BYTES], *rest = strcpy(copy, value);
    (void)settings;
    for (char *one; (one = settings_next_item(&rest));)
        BLINK_TRY(address_check(one));
    return BLINK_OK;
}

/* Interfaces, each with its GB/s or without. */
static blink_result_t check_nics(settings_t *settings, const char *value)
{
    char copy[SETTINGS_TEXT_BYTES], *rest = strcpy(copy, value);
    (void)settings;
    for (char *one; (one = settings_next_item(&rest));) {
        settings_nic_t nic;
        if (!settings_parse_nic(one, &nic))
            return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                              "'%s' is not an interface such as eth0, or eth0@5 with its GB/s", one);
    }
    return BLINK_OK;
}

static const char *const transports[] = {
    [SETTINGS_TCP] = "tcp", [SETTINGS_AUTO] = "auto", [SETTINGS_RDMA] = "rdma"};

static blink_result_t parse_transport(settings_t *settings, const char *value)
{
    for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
        if (strcmp(value, transports[i]) != 0)
            continue;
        settings->network_transport = (settings_transport_t)i;
        return BLINK_OK;
    }
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "network transport '%s': tcp, auto or rdma", value);
}

static void print_transport(const settings_t *settings)
{
    printf("%s", transports[settings->network_transport]);
}

/* ---- keys ---- */

/* The two keys of a resource that tenants are charged for (base/budget.h). */
#define LIMIT(name, kind, resource)                                                                          \
    {"limits", name "_per_tenant", kind, offsetof(settings_t, limits[resource].tenant), NULL, NULL},         \
    {                                                                                                        \
        "limits", name "_per_node", kind, offsetof(settings_t, limits[resource].node), NULL, NULL            \
    }

static const config_key_t keys[] = {
    {"daemon", "socket", VALUE_TEXT, offsetof(settings_t, socket), NULL, NULL},
    {"daemon", "socket_mode", VALUE_MODE, offsetof(settings_t, socket_mode), NULL, NULL},
    {"daemon", "admin_group", VALUE_TEXT, offsetof(settings_t, admin_group), NULL, NULL},
    {"devices", "devices", VALUE_OTHER, 0, parse_devices, print_devices},
    {"devices", "topology", VALUE_TEXT, offsetof(settings_t, topology), NULL, NULL},
    {"plan", "protocol", VALUE_OTHER, 0, parse_protocol, print_protocol},
    {"plan", "plan_seconds", VALUE_SECONDS, offsetof(settings_t, plan_seconds), NULL, NULL},
    {"gpu", "sharing", VALUE_OTHER, 0, parse_sharing, print_sharing},
    {"gpu", "legacy_ipc", VALUE_YES_NO, offsetof(settings_t, gpu_legacy_ipc), NULL, NULL},
    {"gpu", "nvswitch_reduces", VALUE_OTHER, 0, parse_nvswitch, print_nvswitch},
    {"pace", "scale", VALUE_OTHER, 0, parse_pace, print_pace},
    {"workers", "count", VALUE_THREADS, offsetof(settings_t, workers), NULL, NULL},
    {"limits", "tenants_by", VALUE_OTHER, 0, parse_tenants_by, print_tenants_by},
    LIMIT("connections", VALUE_COUNT, BUDGET_CONNECTIONS),
    LIMIT("clients", VALUE_COUNT, BUDGET_CLIENTS),
    LIMIT("communicators", VALUE_COUNT, BUDGET_COMMUNICATORS),
    LIMIT("gathering_ranks", VALUE_COUNT, BUDGET_GATHERING_RANKS),
    LIMIT("regions", VALUE_COUNT, BUDGET_REGIONS),
    LIMIT("registered_bytes", VALUE_BYTES, BUDGET_REGISTERED_BYTES),
    LIMIT("pinned_bytes", VALUE_BYTES, BUDGET_PINNED_BYTES),
    LIMIT("reply_bytes", VALUE_BYTES, BUDGET_REPLY_BYTES),
    LIMIT("op_bytes", VALUE_BYTES, BUDGET_OP_BYTES),
    LIMIT("scratch_bytes", VALUE_BYTES, BUDGET_SCRATCH_BYTES),
    LIMIT("gpu_scratch_bytes", VALUE_BYTES, BUDGET_GPU_SCRATCH_BYTES),
    {"limits", "idle_scratch_bytes", VALUE_BYTES, offsetof(settings_t, idle_scratch_bytes), NULL, NULL},
    {"limits", "idle_scratch_s", VALUE_SECONDS, offsetof(settings_t, idle_scratch_s), NULL, NULL},
    {"limits", "cached_plan_bytes", VALUE_BYTES, offsetof(settings_t, cached_plan_bytes), NULL, NULL},
    {"limits", "cached_plan_s", VALUE_SECONDS, offsetof(settings_t, cached_plan_s), NULL, NULL},
    {"limits", "init_timeout_s", VALUE_SECONDS, offsetof(settings_t, init_timeout_s), NULL, NULL},
    {"limits", "op_timeout_s", VALUE_SECONDS, offsetof(settings_t, op_timeout_s), NULL, NULL},
    {"limits", "run_timeout_s", VALUE_SECONDS, offsetof(settings_t, run_timeout_s), NULL, NULL},
    {"limits", "run_timeout_factor", VALUE_SECONDS, offsetof(settings_t, run_timeout_factor), NULL, NULL},
    {"network", "listen", VALUE_TEXT, offsetof(settings_t, network_listen), check_listen, NULL},
    {"network", "peers", VALUE_LIST, offsetof(settings_t, network_peers), check_peers, NULL},
    {"network", "host", VALUE_TEXT, offsetof(settings_t, network_host), NULL, NULL},
    {"network", "cluster", VALUE_TEXT, offsetof(settings_t, network_cluster), NULL, NULL},
    {"network", "nics", VALUE_TEXT, offsetof(settings_t, network_nics), check_nics, NULL},
    {"network", "fabric", VALUE_TEXT, offsetof(settings_t, network_fabric), NULL, NULL},
    {"network", "key", VALUE_TEXT, offsetof(settings_t, network_key), NULL, NULL},
    {"network", "timeout_s", VALUE_SECONDS, offsetof(settings_t, network_timeout_s), NULL, NULL},
    {"network", "peers_most", VALUE_COUNT, offsetof(settings_t, network_peers_most), NULL, NULL},
    {"network", "transport", VALUE_OTHER, 0, parse_transport, print_transport},
    {"network", "adaptive_routing", VALUE_YES_NO, offsetof(settings_t, network_adaptive_routing), NULL, NULL},
    {"network", "gpu_direct", VALUE_YES_NO, offsetof(settings_t, network_gpu_direct), NULL, NULL},
    {"log", "level", VALUE_OTHER, 0, parse_level, print_level},
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

void config_set_defaults(settings_t *settings)
{
    *settings = (settings_t){.socket = BLINK_SOCKET_DEFAULT,
                             .socket_mode = 0666,
                             .admin_group = "blink",
                             .devices = {.automatic = true},
                             .gpu_legacy_ipc = true,
                             .limits = {[BUDGET_CONNECTIONS] = {0, 0},
                                        [BUDGET_CLIENTS] = {1024, 0},
                                        [BUDGET_COMMUNICATORS] = {16384, 65536},
                                        [BUDGET_GATHERING_RANKS] = {262144, 1048576},
                                        [BUDGET_REGIONS] = {16384, 0},
                                        [BUDGET_REGISTERED_BYTES] = {1 * TIB, 16 * TIB},
                                        [BUDGET_PINNED_BYTES] = {512 * MIB, 1024 * MIB},
                                        [BUDGET_REPLY_BYTES] = {64 * MIB, 256 * MIB},
                                        [BUDGET_OP_BYTES] = {512 * MIB, 1024 * MIB},
                                        [BUDGET_SCRATCH_BYTES] = {512 * MIB, 1024 * MIB},
                                        [BUDGET_GPU_SCRATCH_BYTES] = {1024 * MIB, 2048 * MIB}},
                             .idle_scratch_bytes = 256 * MIB,
                             .idle_scratch_s = 30,
                             .cached_plan_bytes = 64 * MIB,
                             .cached_plan_s = 600,
                             .plan_seconds = 5,
                             .init_timeout_s = 60,
                             .op_timeout_s = 300,
                             .run_timeout_s = 60,
                             .run_timeout_factor = 100,
                             .network_cluster = "blink",
                             .network_timeout_s = NET_TIMEOUT_DEFAULT_S,
                             .log_level = LOG_LEVEL_INFO};
}

static blink_result_t set_text(const config_key_t *key, char *target, const char *value)
{
    size_t room = key->kind == VALUE_LIST ? SETTINGS_LIST_BYTES : SETTINGS_TEXT_BYTES;
    if (strlen(value) >= room)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s has %zu bytes, at most %zu are allowed", key->key,
                          strlen(value), room - 1);
    if (key->parse)
        BLINK_TRY(key->parse(NULL, value));
    memcpy(target, value, strlen(value) + 1);
    return BLINK_OK;
}

static blink_result_t set_value(const config_key_t *key, settings_t *settings, const char *value)
{
    void *target = (char *)settings + key->offset;
    switch (key->kind) {
    case VALUE_TEXT:
    case VALUE_LIST:
        return set_text(key, target, value);
    case VALUE_COUNT:
        return parse_count64(value, target);
    case VALUE_THREADS:
        return parse_count(value, THREADS_MAX, target);
    case VALUE_BYTES:
        return parse_bytes(value, target);
    case VALUE_SECONDS:
        return parse_seconds(value, target);
    case VALUE_MODE:
        return parse_mode(value, target);
    case VALUE_YES_NO:
        return parse_yes_no(value, target);
    case VALUE_OTHER:
        break;
    }
    return key->parse(settings, value);
}

static bool starts_section(size_t key)
{
    return key == 0 || strcmp(keys[key].section, keys[key - 1].section) != 0;
}

/* "socket, socket_mode", for messages. */
typedef struct name_list {
    char text[BLINK_ERROR_TEXT_BYTES];
} name_list_t;

static void add_name(name_list_t *list, const char *name)
{
    size_t used = strlen(list->text);
    snprintf(list->text + used, sizeof(list->text) - used, "%s%s", used ? ", " : "", name);
}

/* [weights]: a user, by name or number, and the user's share. */
static blink_result_t set_weight(settings_t *settings, const char *user, const char *value)
{
    settings_weight_t set = {0};
    const struct passwd *known = getpwnam(user);
    if (known)
        set.uid = known->pw_uid;
    else if (parse_count(user, UINT32_MAX - 1, &set.uid) != BLINK_OK)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[weights] '%s': no user of this name or number", user);
    if (parse_count(value, SETTINGS_WEIGHT_MOST, &set.weight) != BLINK_OK || set.weight == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[weights] %s = '%s': a number from 1 to %u", user,
                          value, SETTINGS_WEIGHT_MOST);
    uint32_t at = 0;
    while (at < settings->weight_count && settings->weights[at].uid != set.uid)
        at++;
    if (at == SETTINGS_WEIGHTS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "[weights] names more than %u users",
                          SETTINGS_WEIGHTS_MAX);
    settings->weights[at] = set;
    if (at == settings->weight_count)
        settings->weight_count++;
    return BLINK_OK;
}

blink_result_t config_set(settings_t *settings, const char *section, const char *key, const char *value)
{
    name_list_t known_keys = {""}, known_sections = {""};
    char hint[NEAR_HINT_BYTES];
    near_t near = near_begin(key);
    if (strcmp(section, "weights") == 0)
        return set_weight(settings, key, value);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (starts_section(i))
            add_name(&known_sections, keys[i].section);
        if (strcmp(keys[i].section, section) != 0)
            continue;
        if (strcmp(keys[i].key, key) == 0)
            return set_value(&keys[i], settings, value);
        add_name(&known_keys, keys[i].key);
        near_try(&near, keys[i].key);
    }
    if (*known_keys.text)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown key '%s' in [%s]%s, which has %s", key,
                          section, near_hint(&near, hint), known_keys.text);
    add_name(&known_sections, "weights");
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown section [%s]; there are %s", section,
                      known_sections.text);
}

/* ---- the file ---- */

static blink_result_t take_pair(void *settings, const char *section, const char *key, const char *value)
{
    return config_set(settings, section, key, value);
}

blink_result_t config_read_file(const char *path, settings_t *settings)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "configuration file %s: %s", path, strerror(errno));
    blink_result_t result = ini_file_read(file, path, take_pair, settings);
    fclose(file);
    return result;
}

static void print_value(const config_key_t *key, const settings_t *settings)
{
    const void *value = (const char *)settings + key->offset;
    switch (key->kind) {
    case VALUE_TEXT:
    case VALUE_LIST:
        printf("%s", (const char *)value);
        break;
    case VALUE_THREADS:
        printf("%u", *(const uint32_t *)value);
        break;
    case VALUE_COUNT:
    case VALUE_BYTES:
        printf("%lu", (unsigned long)*(const uint64_t *)value);
        break;
    case VALUE_SECONDS:
        printf("%g", *(const double *)value);
        break;
    case VALUE_MODE:
        printf("%04o", *(const uint32_t *)value);
        break;
    case VALUE_YES_NO:
        printf("%s", *(const bool *)value ? "yes" : "no");
        break;
    case VALUE_OTHER:
        key->print(settings);
        break;
    }
}

void config_print(const settings_t *settings)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (starts_section(i))
            printf("%s[%s]\n", i ? "\n" : "", keys[i].section);
        printf("%s = ", keys[i].key);
        print_value(&keys[i], settings);
        printf("\n");
    }
    for (uint32_t i = 0; i < settings->weight_count; i++)
        printf("%s%u = %u\n", i ? "" : "\n[weights]\n", settings->weights[i].uid,
               settings->weights[i].weight);
}

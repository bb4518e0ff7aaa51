/*
 * GPUs and NVLinks, from NVML, which is loaded at run time: one program runs with and without an NVIDIA
 * driver. What is declared here is NVML's stable binary interface.
 */
#include "topo/detect/detect_read.h"

#include "error.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NVML_SUCCESS        0
#define NVML_LINKS_MAX      18
#define NVML_REMOTE_GPU     0
#define NVML_REMOTE_SWITCH  2
#define NVML_REMOTE_UNKNOWN 255

typedef struct nvml_device nvml_device_t;

typedef struct nvml_pci_info {
    char legacy_address[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
} nvml_pci_info_t;

typedef struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*device)(unsigned index, nvml_device_t **device);
    int (*pci)(nvml_device_t *device, nvml_pci_info_t *pci);
    int (*name)(nvml_device_t *device, char *name, unsigned bytes);
    int (*capability)(nvml_device_t *device, int *major, int *minor);
    int (*link_state)(nvml_device_t *device, unsigned link, unsigned *active);
    int (*link_pci)(nvml_device_t *device, unsigned link, nvml_pci_info_t *pci);
    int (*link_remote)(nvml_device_t *device, unsigned link, unsigned *type); /* NULL: an old driver */
} nvml_t;

static bool fail(detect_facts_t *facts, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(detect_facts_t *facts, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(facts->nvml_trouble, sizeof(facts->nvml_trouble), format, arguments);
    va_end(arguments);
    return false;
}

static bool find(const nvml_t *nvml, const char *name, void *function, detect_facts_t *facts)
{
    void *found = dlsym(nvml->library, name);
    memcpy(function, &found, sizeof(found));
    return found || fail(facts, "NVML has no %.40s", name);
}

static bool find_all(nvml_t *nvml, detect_facts_t *facts)
{
    void *remote = dlsym(nvml->library, "nvmlDeviceGetNvLinkRemoteDeviceType");
    memcpy(&nvml->link_remote, &remote, sizeof(remote));
    return find(nvml, "nvmlInit_v2", &nvml->init, facts) &&
           find(nvml, "nvmlShutdown", &nvml->shutdown, facts) &&
           find(nvml, "nvmlDeviceGetCount_v2", &nvml->count, facts) &&
           find(nvml, "nvmlDeviceGetHandleByIndex_v2", &nvml->device, facts) &&
           find(nvml, "nvmlDeviceGetPciInfo_v3", &nvml->pci, facts) &&
           find(nvml, "nvmlDeviceGetName", &nvml->name, facts) &&
           find(nvml, "nvmlDeviceGetCudaComputeCapability", &nvml->capability, facts) &&
           find(nvml, "nvmlDeviceGetNvLinkState", &nvml->link_state, facts) &&
           find(nvml, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->link_pci, facts);
}

/* Load and start NVML, or say why not. */
static bool open_nvml(nvml_t *nvml, const char *library, detect_facts_t *facts)
{
    nvml->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        const char *slash = strrchr(library, '/');
        return fail(facts, "no %.40s", slash ? slash + 1 : library);
    }
    if (find_all(nvml, facts)) {
        int error = nvml->init();
        if (error == NVML_SUCCESS)
            return true;
        fail(facts, "NVML does not start (error %d)", error);
    }
    dlclose(nvml->library);
    return false;
}

static blink_result_t read_nvlink(const nvml_t *nvml, nvml_device_t *device, unsigned link,
                                  detect_address_t from, detect_facts_t *facts)
{
    unsigned active = 0, type = NVML_REMOTE_UNKNOWN;
    nvml_pci_info_t remote = {0};
    if (nvml->link_state(device, link, &active) != NVML_SUCCESS || !active)
        return BLINK_OK;
    if (nvml->link_remote && nvml->link_remote(device, link, &type) != NVML_SUCCESS)
        type = NVML_REMOTE_UNKNOWN;
    detect_nvlink_t nvlink = {.from = from, .to = DETECT_NO_ADDRESS, .to_switch = type == NVML_REMOTE_SWITCH};
    if (nvml->link_pci(device, link, &remote) == NVML_SUCCESS)
        nvlink.to = detect_address(remote.domain, remote.bus, remote.device, 0);
    bool useful = nvlink.to_switch || type == NVML_REMOTE_GPU || type == NVML_REMOTE_UNKNOWN;
    return !useful || vec_push(&facts->nvlinks, nvlink) ? BLINK_OK : detect_out_of_memory();
}

static blink_result_t read_gpu(const nvml_t *nvml, nvml_device_t *device, detect_facts_t *facts)
{
    nvml_pci_info_t pci = {0};
    if (nvml->pci(device, &pci) != NVML_SUCCESS)
        return BLINK_OK;
    detect_gpu_t gpu = {.address = detect_address(pci.domain, pci.bus, pci.device, 0)};
    int major = 0, minor = 0;
    if (nvml->name(device, gpu.name, sizeof(gpu.name)) != NVML_SUCCESS)
        gpu.name[0] = '\0';
    gpu.name[sizeof(gpu.name) - 1] = '\0';
    if (nvml->capability(device, &major, &minor) == NVML_SUCCESS)
        gpu.sm = 10L * major + minor;
    if (!vec_push(&facts->gpus, gpu))
        return detect_out_of_memory();
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++)
        BLINK_TRY(read_nvlink(nvml, device, link, gpu.address, facts));
    return BLINK_OK;
}

static blink_result_t read_gpus(const nvml_t *nvml, detect_facts_t *facts)
{
    unsigned count = 0;
    int error = nvml->count(&count);
    if (error != NVML_SUCCESS)
        fail(facts, "NVML does not count GPUs (error %d)", error);
    else if (count == 0)
        fail(facts, "NVML has no GPU");
    for (unsigned i = 0; error == NVML_SUCCESS && i < count; i++) {
        nvml_device_t *device = NULL;
        if (nvml->device(i, &device) == NVML_SUCCESS)
            BLINK_TRY(read_gpu(nvml, device, facts));
    }
    return BLINK_OK;
}

blink_result_t detect_read_nvml(const char *library, detect_facts_t *facts)
{
    nvml_t nvml = {0};
    if (!open_nvml(&nvml, library, facts))
        return BLINK_OK;
    blink_result_t result = read_gpus(&nvml, facts);
    nvml.shutdown();
    dlclose(nvml.library);
    return result;
}

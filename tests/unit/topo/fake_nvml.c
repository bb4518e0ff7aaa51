/*
 * A stand-in for libnvidia-ml, one per machine (FAKE_DGX1V, FAKE_H100, FAKE_NO_DRIVER), so that detection
 * loads and asks a library as it does in earnest.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9 };
enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };

typedef struct fake_pci {
    char legacy_address[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
} fake_pci_t;

typedef struct fake_device {
    unsigned bus;
    unsigned link_count;
    unsigned remote_bus[18];
} fake_device_t;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, const fake_device_t **device);
int nvmlDeviceGetPciInfo_v3(const fake_device_t *device, fake_pci_t *pci);
int nvmlDeviceGetName(const fake_device_t *device, char *name, unsigned bytes);
int nvmlDeviceGetCudaComputeCapability(const fake_device_t *device, int *major, int *minor);
int nvmlDeviceGetNvLinkState(const fake_device_t *device, unsigned link, unsigned *active);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(const fake_device_t *device, unsigned link, fake_pci_t *pci);
int nvmlDeviceGetNvLinkRemoteDeviceType(const fake_device_t *device, unsigned link, unsigned *type);

#ifdef FAKE_H100
static const char name_of_all[] = "NVIDIA H100 80GB HBM3";
static const int major_of_all = 9;
static const unsigned remote_type = REMOTE_SWITCH;
#define SWITCHES                                                                                             \
    {                                                                                                        \
        7, 7, 7, 7, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 10                                            \
    }
static const fake_device_t devices[] = {{0x1b, 18, SWITCHES}, {0x43, 18, SWITCHES}, {0x52, 18, SWITCHES},
                                        {0x61, 18, SWITCHES}, {0x9d, 18, SWITCHES}, {0xc3, 18, SWITCHES},
                                        {0xd1, 18, SWITCHES}, {0xdf, 18, SWITCHES}};
#else
static const char name_of_all[] = "Tesla V100-SXM2-16GB";
static const int major_of_all = 7;
static const unsigned remote_type = REMOTE_GPU;
static const fake_device_t devices[] = {
    {0x06, 6, {0x07, 0x0a, 0x0b, 0x0b, 0x85, 0x85}}, {0x07, 6, {0x06, 0x0a, 0x0a, 0x0b, 0x86, 0x86}},
    {0x0a, 6, {0x06, 0x07, 0x07, 0x0b, 0x0b, 0x89}}, {0x0b, 6, {0x06, 0x06, 0x07, 0x0a, 0x0a, 0x8a}},
    {0x85, 6, {0x06, 0x06, 0x86, 0x89, 0x8a, 0x8a}}, {0x86, 6, {0x07, 0x07, 0x85, 0x89, 0x89, 0x8a}},
    {0x89, 6, {0x0a, 0x85, 0x86, 0x86, 0x8a, 0x8a}}, {0x8a, 6, {0x0b, 0x85, 0x85, 0x86, 0x89, 0x89}}};
#endif

#define DEVICE_COUNT (sizeof(devices) / sizeof(devices[0]))

static void fill_pci(unsigned bus, fake_pci_t *pci)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = bus;
    snprintf(pci->address, sizeof(pci->address), "00000000:%02X:00.0", bus);
}

VISIBLE int nvmlInit_v2(void)
{
#ifdef FAKE_NO_DRIVER
    return DRIVER_NOT_LOADED;
#else
    return SUCCESS;
#endif
}

VISIBLE int nvmlShutdown(void)
{
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = DEVICE_COUNT;
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetHandleByIndex_v2(unsigned index, const fake_device_t **device)
{
    *device = &devices[index];
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetPciInfo_v3(const fake_device_t *device, fake_pci_t *pci)
{
    fill_pci(device->bus, pci);
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetName(const fake_device_t *device, char *name, unsigned bytes)
{
    (void)device;
    snprintf(name, bytes, "%s", name_of_all);
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetCudaComputeCapability(const fake_device_t *device, int *major, int *minor)
{
    (void)device;
    *major = major_of_all;
    *minor = 0;
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetNvLinkState(const fake_device_t *device, unsigned link, unsigned *active)
{
    *active = link < device->link_count;
    return *active ? SUCCESS : NOT_SUPPORTED;
}

VISIBLE int nvmlDeviceGetNvLinkRemotePciInfo_v2(const fake_device_t *device, unsigned link, fake_pci_t *pci)
{
    if (link >= device->link_count)
        return INVALID_ARGUMENT;
    fill_pci(device->remote_bus[link], pci);
    return SUCCESS;
}

VISIBLE int nvmlDeviceGetNvLinkRemoteDeviceType(const fake_device_t *device, unsigned link, unsigned *type)
{
    *type = remote_type;
    return link < device->link_count ? SUCCESS : INVALID_ARGUMENT;
}

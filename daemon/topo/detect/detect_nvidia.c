#include "topo/detect/detect.h"

#include "topo/detect/detect_read.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* NVIDIA's "3D controllers" are GPUs that nothing but its driver is for; "VGA controllers" may be used by
 * other drivers. */
#define VENDOR_NVIDIA       "0x10de"
#define CLASS_3D_CONTROLLER "0x0302"

static bool starts_with(const char *sysfs, const char *device, const char *file, const char *text)
{
    char path[PATH_MAX], value[DETECT_VALUE_BYTES];
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", sysfs, device, file);
    return detect_read_value(path, value) && strncmp(value, text, strlen(text)) == 0;
}

static bool driver_has(const char *sysfs, const char *device)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/bus/pci/drivers/nvidia/%s", sysfs, device);
    return access(path, F_OK) == 0;
}

uint32_t detect_nvidia_gpus(const char *sysfs)
{
    char path[PATH_MAX];
    uint32_t count = 0;
    sysfs = sysfs ? sysfs : "/sys";
    snprintf(path, sizeof(path), "%s/bus/pci/devices", sysfs);
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && (entry = readdir(directory));)
        count += starts_with(sysfs, entry->d_name, "vendor", VENDOR_NVIDIA) &&
                 (starts_with(sysfs, entry->d_name, "class", CLASS_3D_CONTROLLER) ||
                  driver_has(sysfs, entry->d_name));
    if (directory)
        (void)closedir(directory);
    return count;
}

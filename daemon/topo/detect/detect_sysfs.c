/*
 * PCIe links and verbs devices, from sysfs. The root is a parameter, so that a test can show any machine.
 */
#include "topo/detect/detect_read.h"

#include "error.h"
#include "topo/rates.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_ACTIVE 4

bool detect_read_value(const char *path, char value[DETECT_VALUE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, value, DETECT_VALUE_BYTES - 1);
    close(fd);
    value[got > 0 ? got : 0] = '\0';
    value[strcspn(value, "\n")] = '\0';
    return got > 0;
}

double detect_pcie_GBps(const char *sysfs, detect_address_t address)
{
    char path[PATH_MAX], text[DETECT_PCI_BYTES], speed[DETECT_VALUE_BYTES], width[DETECT_VALUE_BYTES];
    detect_address_text(address, text);
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/max_link_speed", sysfs, text);
    if (!detect_read_value(path, speed))
        return 0;
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/max_link_width", sysfs, text);
    return topo_pcie_GBps(speed, detect_read_value(path, width) ? strtol(width, NULL, 10) : 0);
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)"; 0 if it is anything else. The point is one in any locale. */
static double parse_rate_GBps(const char *text)
{
    char *end;
    unsigned long whole = strtoul(text, &end, 10);
    double Gbps = (double)whole;
    if (end[0] == '.' && end[1] >= '0' && end[1] <= '9') {
        Gbps += (end[1] - '0') / 10.0;
        end += 2;
    }
    return end != text && strncmp(end, " Gb/sec", 7) == 0 ? Gbps / 8 : 0;
}

static blink_result_t read_port(const char *device_path, const char *name, const detect_port_t *like,
                                detect_facts_t *facts)
{
    char path[PATH_MAX], value[DETECT_VALUE_BYTES];
    detect_port_t port = *like;
    port.number = (uint32_t)strtoul(name, NULL, 10);
    snprintf(path, sizeof(path), "%s/ports/%s/state", device_path, name);
    port.active = detect_read_value(path, value) && strtol(value, NULL, 10) == PORT_ACTIVE;
    snprintf(path, sizeof(path), "%s/ports/%s/rate", device_path, name);
    port.GBps = detect_read_value(path, value) ? parse_rate_GBps(value) : 0;
    return vec_push(&facts->ports, port) ? BLINK_OK : detect_out_of_memory();
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Names in a directory, sorted as people count; none if it cannot be read. */
static uint32_t list_names(const char *path, struct dirent ***entries)
{
    int count = scandir(path, entries, is_visible, versionsort);
    if (count < 0)
        *entries = NULL;
    return count > 0 ? (uint32_t)count : 0;
}

static void free_names(struct dirent **entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static blink_result_t read_device(const char *sysfs, const char *name, detect_facts_t *facts)
{
    char path[PATH_MAX / 2], link[PATH_MAX], target[PATH_MAX];
    detect_port_t port = {.address = DETECT_NO_ADDRESS};
    snprintf(port.device, sizeof(port.device), "%.63s", name); /* the kernel's names are no longer */
    snprintf(path, sizeof(path), "%s/class/infiniband/%s", sysfs, name);
    snprintf(link, sizeof(link), "%s/device", path);
    if (realpath(link, target))
        port.address = detect_parse_address(strrchr(target, '/') + 1);
    snprintf(link, sizeof(link), "%s/ports", path);
    struct dirent **names;
    uint32_t count = list_names(link, &names);
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; result == BLINK_OK && i < count; i++)
        result = read_port(path, names[i]->d_name, &port, facts);
    free_names(names, count);
    facts->verbs_device_count++;
    return result;
}

blink_result_t detect_read_verbs(const char *sysfs, detect_facts_t *facts)
{
    char path[PATH_MAX];
    struct dirent **names;
    snprintf(path, sizeof(path), "%s/class/infiniband", sysfs);
    uint32_t count = list_names(path, &names);
    blink_result_t result = BLINK_OK;
    for (uint32_t i = 0; result == BLINK_OK && i < count; i++)
        result = read_device(sysfs, names[i]->d_name, facts);
    free_names(names, count);
    return result;
}

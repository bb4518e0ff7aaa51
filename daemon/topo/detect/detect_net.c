#include "topo/detect/detect.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of one Mbit/s. */
#define GBPS_PER_MBIT (1.0 / 8e3)

double detect_nic_GBps(const char *sysfs, const char *interface)
{
    char path[PATH_MAX], text[32];
    snprintf(path, sizeof(path), "%s/class/net/%s/speed", sysfs ? sysfs : "/sys", interface);
    if (strchr(interface, '/'))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    long Mbits = strtol(text, NULL, 10);
    return Mbits > 0 ? (double)Mbits * GBPS_PER_MBIT : 0;
}

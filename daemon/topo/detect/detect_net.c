#include "topo/detect/detect.h"

#include "topo/detect/detect_read.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one Mbit/s. */
#define GBPS_PER_MBIT (1.0 / 8e3)

double detect_nic_GBps(const char *sysfs, const char *interface)
{
    char path[PATH_MAX], text[DETECT_VALUE_BYTES];
    snprintf(path, sizeof(path), "%s/class/net/%s/speed", sysfs ? sysfs : "/sys", interface);
    if (strchr(interface, '/'))
        return 0;
    if (!detect_read_value(path, text))
        return 0;
    long Mbits = strtol(text, NULL, 10);
    return Mbits > 0 ? (double)Mbits * GBPS_PER_MBIT : 0;
}

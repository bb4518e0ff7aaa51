#include "topo/rates.h"

#include <stdlib.h>
#include <string.h>

#define LANES_MAX     32
#define LANES_UNKNOWN 16

/* Transfer rate per lane in 0.1 Gb/s. A rate that the kernel did not know counts as 8 GT/s, as in NCCL. */
static unsigned pcie_code(const char *speed)
{
    static const struct {
        unsigned long tenths;
        unsigned code;
    } codes[] = {{25, 15}, {50, 30}, {80, 60}, {160, 120}, {320, 240}, {640, 480}};
    char *end;
    unsigned long tenths = speed ? strtoul(speed, &end, 10) : 0;
    if (tenths > 0 && tenths < 1000) {
        tenths *= 10;
        if (end[0] == '.' && end[1] >= '0' && end[1] <= '9')
            tenths += (unsigned long)(end[1] - '0');
    }
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i].tenths == tenths)
            return codes[i].code;
    }
    return 60;
}

double topo_pcie_GBps(const char *speed, long width)
{
    if (width <= 0 || width > LANES_MAX)
        width = LANES_UNKNOWN;
    return (double)width * pcie_code(speed) / 80;
}

double topo_nvlink_GBps(long sm)
{
    if (sm >= 100)
        return 40.1;
    if (sm >= 90)
        return 20.6;
    if (sm == 86)
        return 12;
    if (sm >= 70)
        return 20;
    return sm >= 60 ? 18 : 0;
}

double topo_xgmi_GBps(const char *gcn)
{
    if (gcn && strncmp(gcn, "gfx", 3) == 0)
        gcn += 3;
    if (gcn && (strncmp(gcn, "94", 2) == 0 || strncmp(gcn, "95", 2) == 0)) /* MI300, MI350 */
        return 48;
    return gcn && (strncmp(gcn, "90a", 3) == 0 || strcmp(gcn, "910") == 0) ? 36 : 24; /* MI200; MI50, MI100 */
}

bool topo_nvswitch_reduces(long sm)
{
    return sm >= 90;
}

double topo_socket_GBps(const char *arch, const char *vendor, long model)
{
    if (arch && strncmp(arch, "ppc64", 5) == 0)
        return 32;
    if (vendor && strcmp(vendor, "AuthenticAMD") == 0)
        return 16;
    if (!vendor || strcmp(vendor, "GenuineIntel") != 0)
        return 6;
    if (model >= 0xcf) /* Emerald Rapids */
        return 40;
    if (model >= 0x8f) /* Sapphire Rapids */
        return 22;
    return model >= 0x55 ? 10 : 6; /* Skylake, Broadwell */
}

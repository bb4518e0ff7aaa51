/*
 * What a link can move by its generation, as NCCL counts it, and how long it takes. Files in NCCL's topology
 * XML and detected machines are rated by the same tables.
 */
#ifndef BLINK_TOPO_RATES_H
#define BLINK_TOPO_RATES_H

#include <stdbool.h>

/* Latency of a link whose file does not give one, and of the kinds that are slower than that. */
#define TOPO_DEFAULT_LATENCY_US 1.0
#define TOPO_PCIE_LATENCY_US    2.0
#define TOPO_QPI_LATENCY_US     2.0
#define TOPO_NET_LATENCY_US     5.0

/* What multiprocessors reach of NVLink's line rate, behind headers and packets of 128 bytes: 20 of 25 GB/s a
 * link (NCCL), 370 of 450 GB/s a GPU (measured on H100 by nccl-tests). topo_nvlink_GBps() is rated so
 * already. */
#define TOPO_NVLINK_REACHED 0.8

/* GB/s per direction of a PCIe link by the kernel's text of its transfer rate ("16 GT/s", "32.0 GT/s PCIe";
 * NULL or other text: 8 GT/s) and its lanes (0, or the all-ones that virtual functions report: 16). */
double topo_pcie_GBps(const char *speed, long width);

/* GB/s of one NVLink in one direction by the GPU's compute capability (70, 90, …); 0 before NVLink. */
double topo_nvlink_GBps(long sm);

/* GB/s of one xGMI link between AMD's GPUs in one direction by their architecture, as RCCL counts it:
 * "gfx942", or as older files have it, "910". Unknown ones (NULL too) count as the slowest known. */
double topo_xgmi_GBps(const char *gcn);

/* GB/s between two parts of one GPU that is divided (MLOPart), and of a link between two PCIe switches that a
 * file lists apart from the tree, as NCCL counts them. */
#define TOPO_GPU_PARTS_GBps     2618.0
#define TOPO_PCIE_SWITCHES_GBps 5000.0

/* Whether the NVSwitches that GPUs of this compute capability are made for combine and copy what goes through
 * them: those of the third generation, beside H100, and later ones do. Whether the driver lets anybody use
 * that is another question. */
bool topo_nvswitch_reduces(long sm);

/* GB/s between the sockets of one machine. Unknown makes (NULL too) count as the slowest known. */
double topo_socket_GBps(const char *arch, const char *vendor, long model);

#endif

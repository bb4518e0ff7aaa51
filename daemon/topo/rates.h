/*
 * What a link can move by its generation, as NCCL counts it, and how long it takes. Files in NCCL's topology
 * XML and detected machines are rated by the same tables.
 */
#ifndef BLINK_TOPO_RATES_H
#define BLINK_TOPO_RATES_H

/* Latency of a link whose file does not give one, and of the kinds that are slower than that. */
#define TOPO_DEFAULT_LATENCY_US 1.0
#define TOPO_PCIE_LATENCY_US    2.0
#define TOPO_QPI_LATENCY_US     2.0
#define TOPO_NET_LATENCY_US     5.0

/* GB/s per direction of a PCIe link by the kernel's text of its transfer rate ("16 GT/s", "32.0 GT/s PCIe";
 * NULL or other text: 8 GT/s) and its lanes (0, or the all-ones that virtual functions report: 16). */
double topo_pcie_GBps(const char *speed, long width);

/* GB/s of one NVLink in one direction by the GPU's compute capability (70, 90, …); 0 before NVLink. */
double topo_nvlink_GBps(long sm);

/* GB/s between the sockets of one machine. Unknown makes (NULL too) count as the slowest known. */
double topo_socket_GBps(const char *arch, const char *vendor, long model);

#endif

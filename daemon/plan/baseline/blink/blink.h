/*
 * Blink, to the letter, for comparison with the optimum: the planner of "Blink: Fast and Generic Collectives
 * for Distributed ML" (MLSys 2020), called the paper here, and of the poster before it ("Blink: A fast
 * NVLink-based collective communication library"). plan_blink() in plan/internal.h is the way in; here is
 * what the two say in closed form.
 *
 * What is done where:
 *  - one server without NVSwitch: trees from one root packed by multiplicative weights, then as few as keep
 *    95 % of the rate (paper, section 3; blink_pack.c, blink_thin.c). Trees of an AllReduce are undirected:
 *    the reduce goes one way and the broadcast the other. For an AllReduce over one or two fully connected
 *    groups the poster's scheme is taken instead where it is faster, or as fast and shallower
 *    (blink_direct.c).
 *  - NVLink and PCIe both join the ranks: two sets of trees, split by equation (8) (paper, appendix A.2).
 *  - NVSwitch: one-hop trees, every rank the root of its part (paper, section 3.4; blink_direct.c).
 *  - several servers: three phases (paper, section 3.5; blink_servers.c).
 */
#ifndef BLINK_PLAN_BLINK_H
#define BLINK_PLAN_BLINK_H

#include <stdint.h>

/*
 * The bytes that go over PCIe so that both transfers end together, by equation (8). T_dpa, here switch_us, is
 * paid by the PCIe part alone. As printed the equation's second numerator is a sum of a time times a
 * bandwidth and a bandwidth, which has no unit; equal times D_P / B_P + T_dpa = D_N / B_N give
 *
 *     D_P = D B_P / (B_P + B_N) - T_dpa B_P B_N / (B_P + B_N).
 *
 * Never below 0: a payload too small to pay for switching stays on NVLink. Capacities are > 0.
 */
double blink_hybrid_split(double total_bytes, double pcie_GBps, double nvlink_GBps, double switch_us);

/*
 * T_dpa: how long disabling and enabling peer access takes. The paper says that it is measured and
 * proportional to the number of GPUs, and gives only what hybrid transfers gained over NVLink alone on a
 * DGX-1V: about 5 GB/s on 3 and 4 GPUs, 2 GB/s on 7 and 8. With equation (8) a gain g means
 *
 *     T_dpa = D (B_P - g) / (B_P (B_N + g)).
 *
 * With PCIe at 11 GB/s and NVLink at 100 GB/s (4 GPUs) or 150 GB/s (8 GPUs) that is 5.2 or 5.4 ms for
 * D = 1 GB, half of it for 500 MB. The payload is not given, and one D for both does not make the time
 * proportional; 650 us per GPU meets about the gain on 4 GPUs at 500 MB and that on 8 at 1 GB.
 */
double blink_switch_us(uint32_t gpu_count);

#endif

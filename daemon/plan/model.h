/*
 * The cost model: what a step costs besides the time its bytes take, by protocol and kind of link. α-β: a
 * step of b bytes over a path takes model_hop_us() + latency + b / (share × capacity). The choice of
 * a plan, its explanation and the simulation all ask here. The numbers are NCCL's where NCCL has them.
 */
#ifndef BLINK_PLAN_MODEL_H
#define BLINK_PLAN_MODEL_H

#include "plan/plan.h"

/* Once per op: submission, launch, completion. µs. */
double model_launch_us(blink_protocol_t protocol);

/* The same for a hop by a switch that reduces or copies: NCCL has 25 for an allreduce of two such, the launch
 * included. Simple alone. µs. */
#define MODEL_MULTICAST_HOP_US 8.3

/* The part of a link's bytes that gets through such a switch, as NCCL has it for an H100. Its Blackwell has
 * 0.74 of links that are twice as wide. */
#define MODEL_MULTICAST_REACHED 0.85

/* What a move to another host takes the proxy that makes it, and the one that takes it in: 0.9 to 6 were
 * measured over TCP. µs */
#define MODEL_WIRE_MOVE_US 2.0

/* Once per step and path, on top of the links' own latencies: flags, fences, polling. By the slowest kind of
 * link on the path (NVLink, PCIe or shared memory, network). µs. */
double model_hop_us(const topo_t *topo, const uint32_t *links, uint32_t link_count,
                    blink_protocol_t protocol);

/*
 * What one block of a GPU moves, by its compute capability (90 for 9.0; 0: unknown): NCCL's limit for a
 * channel of a tree on one machine, whose block takes what two ranks send, sums it with its own and passes it
 * on. 26.5 for a V100, as NCCL has it for all that is older too; 24 for an A100, and for all of capability
 * 8 and the unknown, for it is the least; 38.7 for an H100; 70 for Blackwell and later. GB/s.
 */
double model_block_GBps(uint32_t capability);

/* What is left of that where a switch combines integers of 4 bytes: a block has half as many bytes of them
 * under way as of what comes in vectors, and of 8 bytes. No GPU was measured. */
#define MODEL_NARROW_SHARE 0.5

/* The part of a link's bytes that are payload: 1 for Simple, 120/128 for LL128, 1/2 for LL. */
double model_payload_share(blink_protocol_t protocol);

#endif

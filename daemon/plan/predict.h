/*
 * How long a plan takes, by the α-β model of plan/model.h. With S bytes of payload, a protocol that leaves
 * the share e of a link's bytes to payload, and pieces of p bytes on the edges of channel c:
 *
 *     T = launch + max over c (A_c + F_c · p / e + max(S / (e · rate), R_c, W))
 *
 * - A_c: latency of the longest way through the channel: hops and links from the farthest rank to the root
 *   and back, or along a route. µs
 * - F_c: what a byte takes on such a way besides what S / rate has of it, for a piece is stored and
 * forwarded: on the narrowest link of every hop, or in a block if that is slower, but for M_c, the time that
 * the channel's busiest link takes for a byte of each part it carries, or on GPUs its busiest block. To or
 * from one root, where links farther away have nothing to do yet while the root's are busy: on all hops but
 * the root's, with the tree's other edges on the same links. On GPUs a sum is complete a block's work later.
 * µs per byte
 * - R_c: the least time of the channel's own N pieces per part, which binds where pieces are short against
 *   latencies. Lanes take several parts in order, so that every piece after the first waits for a whole turn:
 *   M_c p/e + (N - 1) (Q_c + U_c p/e), with Q_c for the hops that the lanes of one phase wait for, and U_c
 * for what they send. Where all channels' lanes wait at the same time, and on GPUs sum up then, U_c has the
 * links with all channels, and after that the blocks. Of one part, reduce edges have `slots` pieces on the
 * way: (N - 1) (slowest hop + 2 M_c p/e) / slots. µs
 * - W: the time that the busiest NIC's moves take whoever makes them, one after another: none, unless
 *   plan_predictor_charge_moves() says what a move between hosts costs. µs
 *
 * T is no less than launch + A_c + V_c p/e + (N - 1) M_c p/e either, where V_c is for a byte what the busiest
 * link towards the root takes and after that the busiest one away from it, of a channel of one part: before
 * sums go down they have come up.
 *
 * In a ring all ranks send from the start, and channels fill each other's waits: T - launch is no more than
 * the longer one of S / (e · rate) + a hop and A_c + F_c p/e + R_c, and a little where both are about as
 * long.
 *
 * By multicast e is also what gets through a switch that reduces, MODEL_MULTICAST_REACHED, and F_c is 2 M_c:
 * a rank copies a piece of every part before the first one goes on, and after the last one has come.
 *
 * p is what executors cut: the chunk of the channel with the largest share per part, or all of that share if
 * it is less, and in proportion for the other channels. Against the simulator, which runs the lanes
 * themselves, the median is 1.00 (docs/results/planner-choice.md).
 */
#ifndef BLINK_PREDICT_H
#define BLINK_PREDICT_H

#include "plan/plan.h"

/* What the formula takes of a plan, so that many sizes cost one walk through its trees. Borrows nothing. */
typedef struct plan_predictor plan_predictor_t;

/* *predictor is the caller's: plan_predictor_destroy(). Errors: NO_MEMORY. */
blink_result_t plan_predictor_create(const topo_t *topo, const plan_t *plan, plan_predictor_t **predictor);
void plan_predictor_destroy(plan_predictor_t *predictor);

/* Let a move between hosts take so many µs of the proxy that makes it, besides what links take. */
void plan_predictor_charge_moves(plan_predictor_t *predictor, double move_us);

/* The chunk that executors choose for this payload (lane_choose_chunk()): a multiple of 16 bytes. */
uint64_t plan_predictor_chunk(const plan_predictor_t *predictor, uint64_t payload_bytes,
                              blink_protocol_t protocol);

/* T in µs. chunk_bytes 0: the executors' choice. One rank: the launch alone. */
double plan_predictor_us(const plan_predictor_t *predictor, uint64_t payload_bytes, blink_protocol_t protocol,
                         uint64_t chunk_bytes);

/* As plan_depth(), without another walk. */
uint32_t plan_predictor_depth(const plan_predictor_t *predictor);

/* The same for one size. Errors: NO_MEMORY. */
blink_result_t plan_predict_us(const topo_t *topo, const plan_t *plan, uint64_t payload_bytes,
                               blink_protocol_t protocol, uint64_t chunk_bytes, double *predicted_us);

#endif

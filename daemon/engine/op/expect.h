/*
 * How long an op's runs should take: what `blinkctl explain --comm` shows beside what they took, and whether
 * who waits for them had best sleep.
 */
#ifndef BLINK_ENGINE_EXPECT_H
#define BLINK_ENGINE_EXPECT_H

#include "engine/op/op.h"

/* Ops expected to take longer let their waiting clients sleep at once (ring_wait_policy_t). */
#define EXPECT_LONG_US 200.0

/*
 * All pieces of an op that has its program, in µs. On GPUs, over emulated links and between hosts that is
 * what the plan is predicted to take; else the memory of the host decides, and links count for nothing.
 */
double expect_us(const comm_op_t *op);

/* Whether an op that knows this (predicted_us) takes long. On GPUs it does too if the program's latest op
 * did, and was no larger: where others have their turns, a prediction is only for the run. */
bool expect_long(const comm_op_t *op);

#endif

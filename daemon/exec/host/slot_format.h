/*
 * How a chunk lies in a scratch slot under each protocol, on the host. LL and LL128 carry the arrival of the
 * data within the data, as an epoch that is not zero and grows with every use of the slot.
 *
 *   LL      words of 8 bytes, 4 of data and 4 of epoch, each written at once
 *   LL128   lines of 128 bytes, 120 of data and 8 of epoch, the epoch written last
 *   Simple  the bare chunk; a semaphore says that the chunk has arrived
 */
#ifndef BLINK_SLOT_FORMAT_H
#define BLINK_SLOT_FORMAT_H

#include "blink/types.h"

#include <stdbool.h>
#include <stdint.h>

/* Data whose offset in a chunk is a multiple of this begin at a word of LL and at a line of LL128. Their
 * offset in the slot is then lane_format_bytes() of the offset in the chunk. */
#define SLOT_GRAIN_BYTES 120u

/* Write `bytes` of data at the beginning of `slot` (8-byte aligned), marked with the epoch; LL keeps its low
 * 32 bits, which must not be 0. Not for Simple. */
void slot_store(blink_protocol_t protocol, void *slot, const void *data, uint64_t bytes, uint64_t epoch);

/* Whether `bytes` of data with this epoch have arrived; slot_load() then reads them. */
bool slot_arrived(blink_protocol_t protocol, const void *slot, uint64_t bytes, uint64_t epoch);

void slot_load(blink_protocol_t protocol, const void *slot, void *data, uint64_t bytes);

#endif

/* Where a piece lies. */
#include "submit/transfer.h"

staging_piece_t staging_piece(const staging_transfer_t *transfer, const staging_side_t *side, uint64_t piece)
{
    uint64_t first = piece * transfer->piece_elements, left = transfer->count - first;
    uint64_t elements = left < transfer->piece_elements ? left : transfer->piece_elements;
    return (staging_piece_t){.user = side->user + first * transfer->element_bytes,
                             .slot = side->slots + piece % STAGING_SLOTS * STAGING_SLOT_BYTES,
                             .bytes = elements * transfer->element_bytes,
                             .stride_bytes = transfer->count * transfer->element_bytes,
                             .blocks = side->is_there ? 0 : side->blocks};
}

#include "windows.h"

#include "collective.h"

uint64_t staging_piece_elements(uint32_t opcode, uint32_t rank_count, uint32_t element_bytes)
{
    uint32_t blocks = collective_buffer_blocks(collective_of_opcode(opcode), rank_count);
    uint64_t block_bytes = STAGING_SLOT_BYTES / blocks;
    uint64_t elements = block_bytes / 64 * 64 / element_bytes;
    return elements > 0 ? elements : 1;
}

#include "engine/op/signature.h"

#include "collective.h"
#include "error.h"
#include "names.h"

#include <stdio.h>

bool op_signature_equals(const op_signature_t *a, const op_signature_t *b)
{
    return a->opcode == b->opcode && a->count == b->count && a->datatype == b->datatype &&
           a->redop == b->redop && a->root == b->root && a->peer == b->peer;
}

blink_result_t op_signature_fail(const char *first_rank, const op_signature_t *first, const char *second_rank,
                                 const op_signature_t *second)
{
    if (first->opcode != second->opcode)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s submitted %s, %s submitted %s", first_rank,
                          collective_op_name(first->opcode), second_rank, collective_op_name(second->opcode));
    if (first->count != second->count)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s gave count %lu, %s gave count %lu", first_rank,
                          (unsigned long)first->count, second_rank, (unsigned long)second->count);
    if (first->datatype != second->datatype)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s gave type %s, %s gave type %s", first_rank,
                          blink_name_datatype(first->datatype), second_rank,
                          blink_name_datatype(second->datatype));
    if (first->redop != second->redop)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s gave operator %s, %s gave operator %s", first_rank,
                          blink_name_redop(first->redop), second_rank, blink_name_redop(second->redop));
    return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s gave root %u, %s gave root %u", first_rank, first->root,
                      second_rank, second->root);
}

const char *op_signature_tell_unmatched(uint32_t source, uint32_t destination, bool lacks_source,
                                        char text[OP_UNMATCHED_BYTES])
{
    if (lacks_source)
        snprintf(text, OP_UNMATCHED_BYTES, "rank %u receives from rank %u, and no send came from rank %u",
                 destination, source, source);
    else
        snprintf(text, OP_UNMATCHED_BYTES, "rank %u sends to rank %u, and no receive came from rank %u",
                 source, destination, destination);
    return text;
}

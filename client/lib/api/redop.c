/* Operators with a scalar of their own. */
#include "context/comm.h"
#include "names.h"

#include <string.h>

/* A scalar may be in memory of the rank's GPU, which only CUDA reads. */
static blink_result_t read_scalar(blink_comm_t *comm, const void *scalar, size_t bytes, uint64_t *bits)
{
    gpu_visit_t visit;
    gpu_t *gpu = rank_gpu_find(&comm->gpu);
    *bits = 0;
    if (!gpu) {
        memcpy(bits, scalar, bytes);
        return BLINK_OK;
    }
    BLINK_TRY(gpu_enter(gpu, &visit));
    blink_result_t result = gpu_copy(gpu, bits, scalar, bytes);
    if (result == BLINK_OK)
        result = gpu_copy_end(gpu);
    gpu_leave(&visit);
    return result;
}

blink_result_t blink_redop_create_pre_mul_sum(blink_comm_t *comm, const void *scalar,
                                              blink_datatype_t datatype, blink_redop_t *redop)
{
    if (!comm || !scalar || !redop)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_redop_create_pre_mul_sum: %s is NULL",
                         !comm     ? "comm"
                         : !scalar ? "scalar"
                                   : "redop");
    CALL_TRY(comm_check_ready(comm, "blink_redop_create_pre_mul_sum"));
    uint32_t element_bytes = blink_datatype_bytes((uint32_t)datatype);
    if (element_bytes == 0)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "datatype %d is none", (int)datatype);
    uint64_t bits;
    CALL_TRY(read_scalar(comm, scalar, element_bytes, &bits));
    return CALL_RESULT(redops_add(&comm->redops, bits, datatype, redop));
}

blink_result_t blink_redop_destroy(blink_comm_t *comm, blink_redop_t redop)
{
    if (!comm)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_redop_destroy: comm is NULL");
    CALL_TRY(comm_check_ready(comm, "blink_redop_destroy"));
    return CALL_RESULT(redops_remove(&comm->redops, redop));
}

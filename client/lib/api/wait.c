/* blink_wait() and its like. How ops ended is told when they end (submit/trace.h), not here; that one has not
 * ended yet is no failure. */
#include "submit/wait.h"

#include "base/clock.h"
#include "error.h"

blink_result_t blink_wait(blink_op_t *op)
{
    if (!op)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait: op is NULL");
    (void)ops_await(op, UINT64_MAX);
    return ops_finish(op);
}

blink_result_t blink_wait_for(blink_op_t **op, unsigned int timeout_ms)
{
    if (!op || !*op)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait_for: %s is NULL", op ? "*op" : "op");
    if (!ops_await(*op, clock_ns() + timeout_ms * UINT64_C(1000000)))
        return BLINK_FAIL(BLINK_ERR_TIMEOUT, "the op has not ended within %u ms", timeout_ms);
    blink_op_t *over = *op;
    *op = NULL;
    return ops_finish(over);
}

blink_result_t blink_test(blink_op_t *op, bool *done)
{
    if (!op || !done)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_test: %s is NULL", op ? "done" : "op");
    for (blink_op_t *each = op; each; each = each->rest) {
        if (!ops_is_over(each))
            ops_progress(each->ops, true);
    }
    *done = ops_are_over(op);
    return *done ? ops_finish(op) : BLINK_OK;
}

/* From the last to the first, so that the sentence which stays is that of the first failure. */
blink_result_t blink_wait_all(blink_op_t **ops, size_t count)
{
    blink_result_t first = BLINK_OK;
    if (!ops && count > 0)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait_all: ops is NULL");
    for (size_t i = 0; i < count; i++)
        (void)ops_await(ops[i], UINT64_MAX);
    for (size_t i = count; i-- > 0;) {
        blink_result_t result = ops[i] ? ops_finish(ops[i]) : BLINK_OK;
        ops[i] = NULL;
        if (result != BLINK_OK)
            first = result;
    }
    return first;
}

blink_result_t blink_wait_any(blink_op_t **ops, size_t count, ptrdiff_t *index)
{
    if ((!ops && count > 0) || !index)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_wait_any: %s is NULL", index ? "ops" : "index");
    *index = -1;
    size_t over = ops_await_any(ops, count);
    if (over == count)
        return BLINK_OK;
    blink_op_t *op = ops[over];
    ops[over] = NULL;
    *index = (ptrdiff_t)over;
    return ops_finish(op);
}

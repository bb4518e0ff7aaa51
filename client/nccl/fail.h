/* How calls fail: NCCL's result, and the sentence for ncclGetLastError(), which is the thread's. */
#ifndef CLIENT_NCCL_FAIL_H
#define CLIENT_NCCL_FAIL_H

#include "abi.h"

#define NCCL_SENTENCE_BYTES 384

/** Record a sentence for this thread, and return `result`. Longer text is cut. */
abi_result_t nccl_fail(abi_result_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** What a result of libblinkclient is for NCCL's users; a failure's sentence is recorded. */
abi_result_t nccl_result(blink_result_t result);

/** Fail with INVALID_USAGE because blinkd does not have what `call` is for. */
abi_result_t nccl_refuse(const char *call, const char *reason);

/** The sentence of this thread's last failure; "" if there was none. */
const char *nccl_sentence(void);

#define NCCL_TRY(expression)                                                                                 \
    do {                                                                                                     \
        abi_result_t nccl_try_result = (expression);                                                         \
        if (nccl_try_result != ABI_SUCCESS)                                                                  \
            return nccl_try_result;                                                                          \
    } while (0)

#endif

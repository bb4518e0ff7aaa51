/* Results and sentences. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[NCCL_SENTENCE_BYTES];

abi_result_t nccl_fail(abi_result_t result, const char *format, ...)
{
    char text[NCCL_SENTENCE_BYTES]; /* an argument may be the sentence itself */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(sentence, sizeof(sentence), "%s", text);
    return result;
}

const char *nccl_sentence(void)
{
    return sentence;
}

static abi_result_t translate(blink_result_t result)
{
    switch (result) {
    case BLINK_OK:
        return ABI_SUCCESS;
    case BLINK_ERR_INVALID_ARGUMENT:
    case BLINK_ERR_NOT_REGISTERED:
    case BLINK_ERR_OUT_OF_RANGE:
        return ABI_INVALID_ARGUMENT;
    case BLINK_ERR_MISMATCH:
    case BLINK_ERR_EXISTS:
    case BLINK_ERR_UNSUPPORTED:
        return ABI_INVALID_USAGE;
    case BLINK_ERR_ABORTED:
    case BLINK_ERR_PEER_LOST:
        return ABI_REMOTE_ERROR;
    case BLINK_ERR_TIMEOUT:
        return ABI_TIMEOUT;
    case BLINK_ERR_NO_MEMORY:
    case BLINK_ERR_SYSTEM:
    case BLINK_ERR_CONNECT:
    case BLINK_ERR_PROTOCOL:
    case BLINK_ERR_NOT_FOUND:
    case BLINK_ERR_PERMISSION:
    case BLINK_ERR_QUOTA:
    case BLINK_ERR_DAEMON_LOST:
    case BLINK_ERR_UNREACHABLE:
        return ABI_SYSTEM_ERROR;
    case BLINK_ERR_INTERNAL:
        break;
    }
    return ABI_INTERNAL_ERROR;
}

abi_result_t nccl_result(blink_result_t result)
{
    if (result == BLINK_OK)
        return ABI_SUCCESS;
    if (result == BLINK_ERR_CONNECT)
        return nccl_fail(translate(result),
                         "%s; start a daemon with \"systemctl start blinkd.socket\", or with \"blinkd\" and "
                         "its socket in BLINK_SOCKET",
                         blink_last_error());
    return nccl_fail(translate(result), "%s", blink_last_error());
}

abi_result_t nccl_refuse(const char *call, const char *reason)
{
    return nccl_fail(ABI_INVALID_USAGE, "blinkd does not have %s(): %s", call, reason);
}

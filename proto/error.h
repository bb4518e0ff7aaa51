/*
 * One way to fail, for the daemon, the client library and the tools: a blink_result_t travels up the stack,
 * and the sentence that explains it is recorded once, per thread, at the place that knows most.
 */
#ifndef BLINK_ERROR_H
#define BLINK_ERROR_H

#include "blink/types.h"

/** Longest error sentence kept, terminating NUL included. */
#define BLINK_ERROR_TEXT_BYTES 192

/** Record a sentence for this thread and return `code`. Longer text is cut. Never fails. */
blink_result_t blink_error_set(blink_result_t code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The sentence this thread recorded last, or "" if none. Valid until the thread records another. */
const char *blink_error_text(void);

/** The code itself: what the reader, and a static analyser, can see that blink_error_set() returns. */
static inline blink_result_t blink_error_code(blink_result_t code, blink_result_t recorded)
{
    (void)recorded;
    return code;
}

/** Fail with a sentence: `return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "no device %u", n);` */
#define BLINK_FAIL(code, ...) blink_error_code((code), blink_error_set((code), __VA_ARGS__))

/** Fail after a system call, appending errno's text: `return BLINK_FAIL_ERRNO("open %s", path);` */
#define BLINK_FAIL_ERRNO(format, ...)                                                                        \
    BLINK_FAIL(BLINK_ERR_SYSTEM, format ": %s" __VA_OPT__(, ) __VA_ARGS__, strerror(errno))

/** Pass a failure up unchanged. */
#define BLINK_TRY(expression)                                                                                \
    do {                                                                                                     \
        blink_result_t blink_try_result = (expression);                                                      \
        if (blink_try_result != BLINK_OK)                                                                    \
            return blink_try_result;                                                                         \
    } while (0)

#endif

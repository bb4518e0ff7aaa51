/*
 * Passing failures of the client library up: it keeps its own sentence, the tools pass one kind of failure
 * on.
 */
#ifndef PERF_LIBRARY_H
#define PERF_LIBRARY_H

#include "error.h"

#include "blink/blink.h"

#define LIBRARY_TRY(call)                                                                                    \
    do {                                                                                                     \
        blink_result_t library_result = (call);                                                              \
        if (library_result != BLINK_OK)                                                                      \
            return BLINK_FAIL(library_result, "%s", blink_last_error());                                     \
    } while (0)

#endif

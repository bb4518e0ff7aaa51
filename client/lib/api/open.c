/* Opening and closing a context, and the calls that belong to nothing smaller. */
#include "context/context.h"
#include "environment.h"
#include "environment/range.h"
#include "environment/settings.h"
#include "frame.h"
#include "launch/launch.h"
#include "names.h"

#include <stdlib.h>

const char *blink_version(void)
{
    return BLINK_VERSION;
}

int blink_version_number(void)
{
    return BLINK_VERSION_NUMBER;
}

const char *blink_last_error(void)
{
    return blink_error_text();
}

const char *blink_result_name(blink_result_t result)
{
    const char *name = blink_name_result_constant(result);
    return name ? name : "BLINK_ERR_UNKNOWN";
}

blink_result_t blink_open(const char *socket_path, blink_context_t **context)
{
    if (!context)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_open: context is NULL");
    range_prepare();
    CALL_TRY(settings_read(launch_rank()));
    if (!socket_path)
        socket_path = environment_get(BLINK_SOCKET_ENV);
    if (!socket_path)
        socket_path = BLINK_SOCKET_DEFAULT;
    blink_context_t *created = calloc(1, sizeof(*created));
    if (!created)
        return CALL_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a context");
    blink_result_t result = context_init(created, socket_path);
    if (result != BLINK_OK) {
        free(created);
        return CALL_RESULT(result);
    }
    if (debug_informs())
        debug_line(NULL, "opened %s: libblinkclient %s, blinkd %s, %u devices", socket_path, BLINK_VERSION,
                   created->daemon_version, created->device_count);
    *context = created;
    return BLINK_OK;
}

void blink_close(blink_context_t *context)
{
    if (!context)
        return;
    context_fini(context);
    free(context);
}

blink_result_t blink_daemon_version(blink_context_t *context, const char **version)
{
    if (!context || !version)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_daemon_version: %s is NULL",
                         context ? "version" : "context");
    *version = context->daemon_version;
    return BLINK_OK;
}

blink_result_t blink_device_count(blink_context_t *context, int *count)
{
    if (!context || !count)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_device_count: %s is NULL",
                         context ? "count" : "context");
    *count = (int)context->device_count;
    return BLINK_OK;
}

blink_result_t blink_poll_fd(blink_context_t *context, int *fd)
{
    if (!context || !fd)
        return CALL_FAIL(BLINK_ERR_INVALID_ARGUMENT, "blink_poll_fd: %s is NULL", context ? "fd" : "context");
    ring_want_event(&context->ops.engine.ring);
    *fd = context->ops.engine.completion_fd;
    return BLINK_OK;
}

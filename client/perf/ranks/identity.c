/* Ids of the daemon, and of the environment. */
#include "ranks/identity.h"

#include "unique_id.h"

#include <stdlib.h>
#include <string.h>

static_assert(sizeof(unique_id_t) == sizeof(blink_unique_id_t), "two names for the same bytes");

static blink_result_t parse(const char *text, const char *source, blink_unique_id_t *id)
{
    unique_id_t parsed;
    BLINK_TRY(unique_id_parse(text, source, &parsed));
    memcpy(id, &parsed, sizeof(*id));
    return BLINK_OK;
}

blink_result_t perf_identity_make(const char *socket_path, blink_unique_id_t *id)
{
    blink_context_t *context;
    blink_result_t result = blink_open(socket_path, &context);
    if (result == BLINK_OK) {
        result = blink_get_unique_id(context, id);
        blink_close(context);
    }
    return result == BLINK_OK ? BLINK_OK : BLINK_FAIL(result, "%s", blink_last_error());
}

blink_result_t perf_identity_expect(const char *socket_path, blink_unique_id_t *id)
{
    const char *text = getenv("BLINK_UNIQUE_ID");
    return text ? parse(text, "BLINK_UNIQUE_ID", id) : perf_identity_make(socket_path, id);
}

/* Asking for the region and mapping it. */
#include "submit/staging_region.h"

#include "submit/populate.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static blink_result_t map(int fd, uint64_t bytes, void **base)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || (uint64_t)status.st_size < bytes)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon gave no staging memory of %zu bytes",
                          (size_t)bytes);
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*base == MAP_FAILED)
        return BLINK_FAIL_ERRNO("map %zu bytes of staging memory", (size_t)bytes);
    blink_result_t result = populate(*base, bytes);
    if (result != BLINK_OK)
        munmap(*base, bytes);
    return result;
}

blink_result_t staging_region_map(connection_t *connection, uint64_t bytes, bool on_gpus, bool windows,
                                  void **base, uint32_t *region)
{
    Blinkwire__StagingCreate body = BLINKWIRE__STAGING_CREATE__INIT;
    body.bytes = bytes;
    body.gpu = on_gpus;
    body.windows = windows;
    Blinkwire__Request request = BLINKWIRE__REQUEST__INIT;
    request.body_case = BLINKWIRE__REQUEST__BODY_STAGING_CREATE;
    request.staging_create = &body;
    connection_answer_t answer;
    BLINK_TRY(connection_call(connection, &request, NULL, 0, &answer));
    blink_result_t result = BLINK_OK;
    *region = 0;
    if (answer.reply->body_case == BLINKWIRE__REPLY__BODY_STAGING_CREATE)
        *region = answer.reply->staging_create->region;
    if (*region == 0)
        result = BLINK_FAIL(BLINK_ERR_PROTOCOL, "the daemon made staging memory but gave no number");
    else
        result = map(answer.fd, bytes, base);
    connection_answer_release(&answer);
    return result;
}

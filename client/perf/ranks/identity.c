/* The id in the environment or in a file. The file appears whole: it is written under another name and
 * linked. */
#include "ranks/identity.h"

#include "unique_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_WAIT_S 60
#define POLL_MS     10

static const char *from_environment(void)
{
    return getenv("BLINK_UNIQUE_ID");
}

static_assert(sizeof(unique_id_t) == sizeof(blink_unique_id_t), "two names for the same bytes");

static blink_result_t parse(const char *text, const char *source, blink_unique_id_t *id)
{
    unique_id_t parsed;
    BLINK_TRY(unique_id_parse(text, source, &parsed));
    memcpy(id, &parsed, sizeof(*id));
    return BLINK_OK;
}

static blink_result_t write_new(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("create %s", path);
    ssize_t written = write(fd, text, strlen(text));
    if (close(fd) != 0 || written != (ssize_t)strlen(text))
        return BLINK_FAIL_ERRNO("write %s", path);
    return BLINK_OK;
}

static blink_result_t publish(const char *file, const blink_unique_id_t *id)
{
    char text[UNIQUE_ID_TEXT_BYTES + 1];
    unique_id_t made;
    memcpy(&made, id, sizeof(made));
    unique_id_write(&made, text);
    strcat(text, "\n");
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.%d", file, (int)getpid()) < 0)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a file name");
    blink_result_t result = write_new(temporary, text);
    if (result == BLINK_OK && link(temporary, file) != 0)
        result = errno == EEXIST ? BLINK_FAIL(BLINK_ERR_EXISTS, "--id-file %s exists already", file)
                                 : BLINK_FAIL_ERRNO("make %s", file);
    unlink(temporary);
    free(temporary);
    return result;
}

static blink_result_t await(const char *file, blink_unique_id_t *id)
{
    for (int waited_ms = 0; waited_ms < FILE_WAIT_S * 1000; waited_ms += POLL_MS) {
        FILE *in = fopen(file, "re");
        if (in) {
            char text[UNIQUE_ID_TEXT_BYTES + 1] = "";
            bool read = fgets(text, sizeof(text), in) != NULL;
            fclose(in);
            return read ? parse(text, file, id) : BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s is empty", file);
        }
        if (errno != ENOENT)
            return BLINK_FAIL_ERRNO("read %s", file);
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
    return BLINK_FAIL(BLINK_ERR_TIMEOUT, "rank 0 has not made %s within %d s", file, FILE_WAIT_S);
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

blink_result_t perf_identity_share(const char *socket_path, const char *file, uint32_t rank,
                                   blink_unique_id_t *id)
{
    if (from_environment())
        return parse(from_environment(), "BLINK_UNIQUE_ID", id);
    if (rank > 0)
        return await(file, id);
    BLINK_TRY(perf_identity_make(socket_path, id));
    return file ? publish(file, id) : BLINK_OK;
}

void perf_identity_forget(const char *file, uint32_t rank)
{
    if (file && rank == 0 && !from_environment())
        unlink(file);
}

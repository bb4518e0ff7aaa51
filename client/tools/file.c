/* Writing a file whole or not at all: into a new file beside it, which then takes its name. */
#include "tools/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes the descriptor; -1 is a failure to open. */
static blink_result_t write_and_close(int descriptor, const char *path, const char *text)
{
    if (descriptor < 0)
        return BLINK_FAIL_ERRNO("write %s", path);
    size_t length = strlen(text), written = 0;
    while (written < length) {
        ssize_t count = write(descriptor, text + written, length - written);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            blink_result_t result = BLINK_FAIL_ERRNO("write %s", path);
            close(descriptor);
            return result;
        }
        written += (size_t)count;
    }
    if (close(descriptor) != 0)
        return BLINK_FAIL_ERRNO("write %s", path);
    return BLINK_OK;
}

static blink_result_t write_beside(const char *path, const char *beside, const char *text)
{
    int descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    BLINK_TRY(write_and_close(descriptor, path, text));
    if (rename(beside, path) != 0)
        return BLINK_FAIL_ERRNO("write %s", path);
    return BLINK_OK;
}

blink_result_t file_write_whole(const char *path, const char *text)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return write_and_close(open(path, O_WRONLY | O_CLOEXEC), path, text);
    char *beside = NULL;
    if (asprintf(&beside, "%s.%ld.tmp", path, (long)getpid()) < 0)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to write %s", path);
    blink_result_t result = write_beside(path, beside, text);
    if (result != BLINK_OK)
        unlink(beside);
    free(beside);
    return result;
}

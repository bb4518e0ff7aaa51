/* Writing a file whole or not at all: into a new file beside it, which then takes its name. */
#include "tools/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static blink_result_t cannot_write(const char *path)
{
    return BLINK_FAIL_ERRNO("write %s", path);
}

blink_result_t file_begin(const char *path, file_t *file)
{
    struct stat status;
    *file = (file_t){.path = path};
    bool is_direct = lstat(path, &status) == 0 && !S_ISREG(status.st_mode);
    if (!is_direct && asprintf(&file->beside, "%s.%ld.tmp", path, (long)getpid()) < 0)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to write %s", path);
    file->out = is_direct ? fopen(path, "we") : fopen(file->beside, "wxe");
    if (file->out)
        return BLINK_OK;
    blink_result_t result = cannot_write(path);
    free(file->beside);
    return result;
}

blink_result_t file_end(file_t *file, blink_result_t result)
{
    bool failed = fflush(file->out) != 0;
    if (!failed && ferror(file->out)) { /* of an earlier write, whose error nobody has kept */
        errno = EIO;
        failed = true;
    }
    if (failed && result == BLINK_OK)
        result = cannot_write(file->path);
    if (fclose(file->out) != 0 && result == BLINK_OK)
        result = cannot_write(file->path);
    if (file->beside && result == BLINK_OK && rename(file->beside, file->path) != 0)
        result = cannot_write(file->path);
    if (file->beside && result != BLINK_OK)
        unlink(file->beside);
    free(file->beside);
    return result;
}

blink_result_t file_write_whole(const char *path, const char *text)
{
    file_t file;
    BLINK_TRY(file_begin(path, &file));
    fputs(text, file.out);
    return file_end(&file, BLINK_OK);
}

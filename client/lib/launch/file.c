/* By a file. It appears whole: it is written under another name and linked. */
#include "base/clock.h"
#include "launch/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 10

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

static blink_result_t publish(const char *file, const char *id)
{
    char text[UNIQUE_ID_TEXT_BYTES + 1], temporary[LAUNCH_TEXT_BYTES + 16];
    snprintf(text, sizeof(text), "%s\n", id);
    snprintf(temporary, sizeof(temporary), "%s.%d", file, (int)getpid());
    blink_result_t result = write_new(temporary, text);
    if (result == BLINK_OK && link(temporary, file) != 0)
        result = errno == EEXIST
                     ? BLINK_FAIL(BLINK_ERR_EXISTS,
                                  "%s exists already: it is another job's, or one is left of a job "
                                  "that was killed",
                                  file)
                     : BLINK_FAIL_ERRNO("make %s", file);
    unlink(temporary);
    return result;
}

static blink_result_t read_file(FILE *in, const char *file, char text[UNIQUE_ID_TEXT_BYTES])
{
    char line[UNIQUE_ID_TEXT_BYTES + 1] = "";
    if (!fgets(line, sizeof(line), in))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s is empty", file);
    snprintf(text, UNIQUE_ID_TEXT_BYTES, "%.*s", (int)strcspn(line, "\n"), line);
    return BLINK_OK;
}

static blink_result_t await(const char *file, uint64_t deadline_ns, char text[UNIQUE_ID_TEXT_BYTES])
{
    for (;;) {
        FILE *in = fopen(file, "re");
        if (in) {
            blink_result_t result = read_file(in, file, text);
            fclose(in);
            return result;
        }
        if (errno != ENOENT)
            return BLINK_FAIL_ERRNO("read %s", file);
        if (clock_ns() >= deadline_ns)
            return BLINK_FAIL(BLINK_ERR_TIMEOUT, "rank 0 has not made %s in time", file);
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

/* Nobody would make the file there, however long it is waited for. */
static blink_result_t check_directory(const char *file)
{
    char directory[LAUNCH_TEXT_BYTES];
    snprintf(directory, sizeof(directory), "%s", file);
    char *slash = strrchr(directory, '/');
    if (!slash)
        return BLINK_OK;
    slash[slash == directory] = '\0';
    if (access(directory, X_OK) != 0)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "directory %.100s, where the ranks are to meet by a file: %s",
                          directory, strerror(errno));
    return BLINK_OK;
}

blink_result_t exchange_by_file(const launch_t *launch, uint64_t deadline_ns, char text[UNIQUE_ID_TEXT_BYTES])
{
    BLINK_TRY(check_directory(launch->where));
    return launch->rank == 0 ? publish(launch->where, text) : await(launch->where, deadline_ns, text);
}

void exchange_forget_file(const launch_t *launch)
{
    unlink(launch->where);
}

/*
 * From what a person names on a command line to a topology: a built-in, many of one, or a file whose
 * content says its format.
 */
#include "topo/topo.h"

#include "base/near.h"
#include "error.h"
#include "topo/read/builtin.h"
#include "topo/read/generate.h"
#include "topo/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)64 << 20)

/* Nothing of what a name may be, with what would have been right. */
static blink_result_t not_found(const char *what, const char *why)
{
    char names[128] = "", hint[NEAR_HINT_BYTES];
    size_t used = 0;
    near_t near = near_begin(what + strspn(what, "0123456789x"));
    for (const char *const *name = topo_builtin_names(); *name; name++) {
        near_try(&near, *name);
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, " %s", *name);
    }
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND, TOPO_SHOWN ": %.28s, nor a built-in ([Nx]NAME)%s:%s",
                      topo_source_tail(what), why, near_hint(&near, hint), names);
}

static blink_result_t read_all(int fd, const char *path, size_t size, char **text, size_t *bytes)
{
    char *content = malloc(size + 1);
    if (!content)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, TOPO_SHOWN ": out of memory", topo_source_tail(path));
    size_t used = 0;
    while (used < size) {
        ssize_t got = read(fd, content + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(content);
            return not_found(path, strerror(errno));
        }
        if (got == 0)
            break;
        used += (size_t)got;
    }
    content[used] = '\0';
    *text = content;
    *bytes = used;
    return BLINK_OK;
}

static blink_result_t read_file(const char *path, char **text, size_t *bytes)
{
    /* Non-blocking, so that a FIFO is refused below instead of hanging the caller here. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return not_found(path, errno == ENOENT ? "No such file" : strerror(errno));
    struct stat status;
    blink_result_t result;
    if (fstat(fd, &status) != 0)
        result = not_found(path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        result = not_found(path, "not a regular file");
    else if ((uint64_t)status.st_size > FILE_BYTES_MAX)
        result = BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, TOPO_SHOWN ": %lld bytes, a topology has %zu at most",
                            topo_source_tail(path), (long long)status.st_size, FILE_BYTES_MAX);
    else
        result = read_all(fd, path, (size_t)status.st_size, text, bytes);
    close(fd);
    return result;
}

static blink_result_t parse_by_content(const char *text, size_t bytes, const char *source, topo_t **topo)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (bytes >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        text += 3;
        bytes -= 3;
    }
    size_t blank = strspn(text, " \t\r\n");
    if (text[blank] == '{')
        return topo_parse_json(text, bytes, source, topo);
    if (text[blank] == '<')
        return topo_parse_nccl_xml(text, bytes, source, topo);
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                      TOPO_SHOWN ": neither blink-topology JSON nor NCCL XML: it does not begin with { or <",
                      topo_source_tail(source));
}

bool topo_is_machine(const char *what)
{
    return topo_builtin_find(what) || topo_is_generated(what);
}

blink_result_t topo_load(const char *what, topo_t **topo)
{
    const topo_builtin_t *builtin = topo_builtin_find(what);
    if (builtin)
        return topo_parse_json(builtin->text, builtin->bytes, what, topo);
    if (topo_is_generated(what))
        return topo_generate(what, topo);
    char *text = NULL;
    size_t bytes = 0;
    blink_result_t result = read_file(what, &text, &bytes);
    if (text)
        result = parse_by_content(text, bytes, what, topo);
    free(text);
    return result;
}

#include "net/key.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* 32 bytes are 44 characters of base64, the last of which is the padding. */
#define KEY_TEXT_BYTES 44u

/* Room for two keys and a few lines of comment. */
#define FILE_MOST_BYTES 4096u

#define PATH_BYTES 512u

void cluster_keys_wipe(cluster_keys_t *keys)
{
    OPENSSL_cleanse(keys, sizeof(*keys));
}

/* ---- the text ---- */

/* False: the line is no key. The decoder writes whole groups of three bytes, one more than the key has. */
static bool decode(const char *line, size_t length, uint8_t key[CLUSTER_KEY_BYTES])
{
    uint8_t bytes[CLUSTER_KEY_BYTES + 1];
    bool is_key = length == KEY_TEXT_BYTES && line[length - 1] == '=' && line[length - 2] != '=' &&
                  !memchr(line, ' ', length) &&
                  EVP_DecodeBlock(bytes, (const unsigned char *)line, (int)length) == (int)sizeof(bytes);
    if (is_key)
        memcpy(key, bytes, CLUSTER_KEY_BYTES);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return is_key;
}

static blink_result_t parse_line(const char *path, uint32_t number, const char *line, size_t length,
                                 cluster_keys_t *keys)
{
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    if (length == 0 || *line == '#')
        return BLINK_OK;
    if (keys->count == CLUSTER_KEYS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s:%u: a third key; a file holds one, or two while keys are changed", path,
                          number);
    if (!decode(line, length, keys->keys[keys->count]))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s:%u: %zu characters that are no key; a key is 32 bytes in base64, as "
                          "`blinkctl key new` writes it",
                          path, number, length);
    keys->count++;
    return BLINK_OK;
}

static blink_result_t parse(const char *path, const char *text, size_t length, cluster_keys_t *keys)
{
    uint32_t number = 1;
    for (const char *line = text, *end = text + length; line < end; number++) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t line_length = (size_t)((next ? next : end) - line);
        BLINK_TRY(parse_line(path, number, line, line_length, keys));
        line += line_length + 1;
    }
    if (keys->count == 0)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "%s: there is no key in this file; `blinkctl key new` makes one", path);
    return BLINK_OK;
}

/* ---- the file ---- */

static blink_result_t check_owner(const char *path, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return BLINK_FAIL_ERRNO("stat %s", path);
    if (!S_ISREG(status.st_mode))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: not a regular file", path);
    if (status.st_uid != 0 && status.st_uid != geteuid())
        return BLINK_FAIL(BLINK_ERR_PERMISSION,
                          "%s belongs to user %u, who could have read it; it must belong to root or to user "
                          "%u, who runs this",
                          path, status.st_uid, geteuid());
    if (status.st_mode & (S_IRWXG | S_IRWXO))
        return BLINK_FAIL(BLINK_ERR_PERMISSION,
                          "%s has mode %04o: others may use it; chmod 0600, or make a new key", path,
                          status.st_mode & 07777u);
    return BLINK_OK;
}

/* The whole file; more than FILE_MOST_BYTES are an error. */
static blink_result_t read_whole(const char *path, int fd, char text[FILE_MOST_BYTES + 1], size_t *length)
{
    *length = 0;
    while (*length <= FILE_MOST_BYTES) {
        ssize_t got = read(fd, text + *length, FILE_MOST_BYTES + 1 - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return BLINK_FAIL_ERRNO("read %s", path);
        if (got == 0)
            return BLINK_OK;
        *length += (size_t)got;
    }
    return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%s: more than %u bytes", path, FILE_MOST_BYTES);
}

static blink_result_t read_keys(const char *path, int fd, bool is_credential, cluster_keys_t *keys)
{
    char text[FILE_MOST_BYTES + 1];
    size_t length = 0;
    if (!is_credential)
        BLINK_TRY(check_owner(path, fd));
    blink_result_t result = read_whole(path, fd, text, &length);
    if (result == BLINK_OK)
        result = parse(path, text, length, keys);
    OPENSSL_cleanse(text, sizeof(text));
    return result;
}

/* Who may read a credential is systemd's business: on some file systems an access list says so, and not the
 * mode. */
static bool find_credential(char path[PATH_BYTES])
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    if (!directory || *directory != '/' ||
        (size_t)snprintf(path, PATH_BYTES, "%s/%s", directory, CLUSTER_KEY_CREDENTIAL) >= PATH_BYTES)
        return false;
    return access(path, F_OK) == 0;
}

blink_result_t cluster_keys_read(const char *path, cluster_keys_t *keys)
{
    char credential[PATH_BYTES];
    bool is_credential = !*path && find_credential(credential);
    if (!*path)
        path = is_credential ? credential : CLUSTER_KEY_PATH_DEFAULT;
    *keys = (cluster_keys_t){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                          "there is no cluster key at %s; copy the cluster's there, or make the first one by "
                          "`blinkctl key new`",
                          path);
    if (fd < 0 && errno == EACCES)
        return BLINK_FAIL(
            BLINK_ERR_PERMISSION,
            "open %s: this user may not; a service without privileges gets the key by systemd's "
            "LoadCredential=%s:%s",
            path, CLUSTER_KEY_CREDENTIAL, path);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("open %s", path);
    blink_result_t result = read_keys(path, fd, is_credential, keys);
    if (result != BLINK_OK)
        cluster_keys_wipe(keys);
    close(fd);
    return result;
}

/* ---- a new one ---- */

/* A line of base64, which needs room for a NUL as well. */
static blink_result_t make_line(char line[KEY_TEXT_BYTES + 2])
{
    uint8_t key[CLUSTER_KEY_BYTES];
    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return BLINK_FAIL_ERRNO("getrandom");
    EVP_EncodeBlock((unsigned char *)line, key, (int)sizeof(key));
    OPENSSL_cleanse(key, sizeof(key));
    line[KEY_TEXT_BYTES] = '\n';
    line[KEY_TEXT_BYTES + 1] = '\0';
    return BLINK_OK;
}

static blink_result_t write_key(const char *path, int fd)
{
    char line[KEY_TEXT_BYTES + 2];
    BLINK_TRY(make_line(line));
    ssize_t written = write(fd, line, KEY_TEXT_BYTES + 1);
    OPENSSL_cleanse(line, sizeof(line));
    if (written != (ssize_t)KEY_TEXT_BYTES + 1 || fsync(fd) != 0)
        return BLINK_FAIL_ERRNO("write %s", path);
    return BLINK_OK;
}

blink_result_t cluster_key_create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "%s exists already; a key is never overwritten", path);
    if (fd < 0 && errno == ENOENT)
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "create %s: its folder is not there; make it first (mkdir -p)",
                          path);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("create %s", path);
    blink_result_t result = write_key(path, fd);
    close(fd);
    if (result != BLINK_OK)
        unlink(path);
    return result;
}

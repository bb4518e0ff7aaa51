/*
 * Fuzzes blinkd.conf: settings that are accepted print as a file that is accepted and prints alike.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static blink_result_t read_text(const void *text, size_t bytes, settings_t *settings)
{
    char path[64];
    int fd = memfd_create("blinkd.conf", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    config_set_defaults(settings);
    blink_result_t result = config_read_file(path, settings);
    close(fd);
    return result;
}

/* What blinkd --check-config prints, to be freed. */
static char *print(const settings_t *settings, size_t *bytes)
{
    char *text = NULL;
    FILE *usual = stdout, *memory = open_memstream(&text, bytes);
    if (!memory)
        abort();
    stdout = memory;
    config_print(settings);
    stdout = usual;
    fclose(memory);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    settings_t settings, again;
    size_t printed_bytes, again_bytes;
    if (read_text(data, bytes, &settings) != BLINK_OK)
        return 0;
    char *printed = print(&settings, &printed_bytes);
    if (read_text(printed, printed_bytes, &again) != BLINK_OK) {
        fprintf(stderr, "%s:\n%s", blink_error_text(), printed);
        abort();
    }
    char *printed_again = print(&again, &again_bytes);
    if (strcmp(printed, printed_again) != 0) {
        fprintf(stderr, "%s\nbecame\n%s", printed, printed_again);
        abort();
    }
    free(printed);
    free(printed_again);
    return 0;
}

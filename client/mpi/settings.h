/* What the environment asks of this process, and lines on stderr. Read once; thread-safe. */
#ifndef CLIENT_MPI_SETTINGS_H
#define CLIENT_MPI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct shim_settings {
    bool is_off;    /* BLINK_MPI=off, or a variable that is not what it should be */
    bool informs;   /* BLINK_DEBUG asks for lines */
    long min_bytes; /* BLINK_MPI_MIN_BYTES; SHIM_MIN_BYTES_UNSET: what was measured counts */
} shim_settings_t;

#define SHIM_MIN_BYTES_UNSET (-1)

const shim_settings_t *shim_settings(void);

/** Write "blink: PID: …", for callers that have looked at `informs`, and for what must be told in any case.
 */
void shim_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

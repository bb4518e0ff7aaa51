/*
 * What environment variables ask of this process: BLINK_DEBUG, BLINK_ALGORITHM and BLINK_TIMEOUT. They are
 * read once: a process has one environment, and ranks that were configured half before and half after a
 * change of it would not go together.
 */
#ifndef CLIENT_SETTINGS_H
#define CLIENT_SETTINGS_H

#include "blink/blink.h"
#include "environment/debug.h"

typedef struct settings {
    debug_level_t debug;
    blink_algorithm_t algorithm;
    unsigned int op_timeout_ms; /* 0: not said */
} settings_t;

/** Read the variables, from the first to the first bad one. Errors: INVALID_ARGUMENT (names the variable, its
 * value and what would be right). */
blink_result_t settings_parse(settings_t *settings);

/** Read the variables, in the first call, and begin to tell what BLINK_DEBUG asks for; later calls return
 * what the first one has. `rank` as in debug_begin(). Thread-safe. Errors: those of settings_parse(). */
blink_result_t settings_read(const char *rank);

/** Where a program leaves the algorithm or the time-out of ops open: what the environment says. After
 * settings_read(). */
void settings_fill_in(blink_comm_config_t *config);

#endif

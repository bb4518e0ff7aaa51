/*
 * From the configuration file, and the flags that override it, to the settings. A new setting is a line in
 * the table of config.c and a field of settings_t.
 */
#ifndef BLINK_CONFIG_H
#define BLINK_CONFIG_H

#include "base/settings.h"
#include "error.h"

#define CONFIG_PATH_DEFAULT "/etc/blink/blinkd.conf"

void config_set_defaults(settings_t *settings);

/* Read blinkd.conf over what *settings holds. Errors: NOT_FOUND, INVALID_ARGUMENT naming file, line, key,
 * value and what would be right. */
blink_result_t config_read_file(const char *path, settings_t *settings);

/* Set one value as a file would. The flags of blinkd are keys of the file by another name. Errors:
 * INVALID_ARGUMENT (unknown section or key; bad value and what would be right). */
blink_result_t config_set(settings_t *settings, const char *section, const char *key, const char *value);

/* The effective settings in the syntax of blinkd.conf. */
void config_print(const settings_t *settings);

#endif

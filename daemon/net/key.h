/*
 * The cluster key: 32 random bytes that the daemons of a cluster share. Whoever has the key is a daemon of
 * the cluster. Thread-safe.
 *
 * The file holds one key, or two while keys are changed, each as a line of base64. Sessions are dialled with
 * the first key and accepted with either. Empty lines and lines that begin with # are comments.
 */
#ifndef BLINK_NET_KEY_H
#define BLINK_NET_KEY_H

#include "error.h"

#include <stdint.h>

#define CLUSTER_KEY_PATH_DEFAULT "/etc/blink/cluster.key"
#define CLUSTER_KEY_BYTES        32u
#define CLUSTER_KEYS_MAX         2u

/* The file's name among the credentials that systemd hands over, in $CREDENTIALS_DIRECTORY. */
#define CLUSTER_KEY_CREDENTIAL "cluster.key"

typedef struct cluster_keys {
    uint32_t count; /* 1 or 2; the first is for dialling */
    uint8_t keys[CLUSTER_KEYS_MAX][CLUSTER_KEY_BYTES];
} cluster_keys_t;

/* Read the keys; blocks on the file. `path` "" stands for systemd's credential if there is one, and for the
 * default path if not. A file other than the credential must belong to root or to who runs this process, and
 * nobody else may be allowed to read it. Errors: NOT_FOUND, PERMISSION (names owner or mode, and what would
 * be right), INVALID_ARGUMENT (names the line), SYSTEM. */
blink_result_t cluster_keys_read(const char *path, cluster_keys_t *keys);

/* Forget the keys: nothing of them stays in the memory. */
void cluster_keys_wipe(cluster_keys_t *keys);

/* Make a file with a new key that only its owner can read; blocks on the file. Errors: EXISTS (a key is never
 * overwritten), NOT_FOUND (there is no such folder), SYSTEM. */
blink_result_t cluster_key_create(const char *path);

#endif

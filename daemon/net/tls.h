/*
 * TLS 1.3 between two daemons that have the same cluster key, over memory: bytes come and go by tls_feed()
 * and tls_pending(), and no socket is touched. The key is an external PSK (RFC 8446, 4.2.11) with an
 * ephemeral X25519 exchange beside it, so that who gets the key later cannot read what was recorded. One
 * cipher (AES-128-GCM), no certificates, no tickets, no early data. A thread at a time.
 */
#ifndef BLINK_NET_TLS_H
#define BLINK_NET_TLS_H

#include "error.h"
#include "net/key.h"

#include <stdbool.h>
#include <stddef.h>

/* Of a cluster's name, with its NUL. */
#define CLUSTER_NAME_BYTES 65

typedef struct tls_context tls_context_t;

/* Keys are kept until the context is destroyed, or set anew. The cluster's name goes into what is derived
 * from a key: two clusters that have one key by accident do not meet. Errors: SYSTEM (OpenSSL's reason),
 * NO_MEMORY.
 */
blink_result_t tls_context_create(const char *cluster, const cluster_keys_t *keys, tls_context_t **context);
void tls_context_destroy(tls_context_t *context);

/* Handshakes from now on use these keys; connections that have made theirs go on. True if they are other keys
 * than before. */
bool tls_context_set_keys(tls_context_t *context, const cluster_keys_t *keys);

/* The 16 digits that say which key is meant: of the first, with which connections are made, and of the
 * second; NULL: there is none. */
const char *tls_context_key_name(const tls_context_t *context, uint32_t number);

/* One end of a connection. */
typedef struct tls tls_t;

/* `dials`: this end has connected, and speaks first. The context must outlive it. Errors: NO_MEMORY. */
blink_result_t tls_create(tls_context_t *context, bool dials, tls_t **tls);
void tls_destroy(tls_t *tls);

/* Bytes have come from the peer. Errors: NO_MEMORY. */
blink_result_t tls_feed(tls_t *tls, const void *bytes, size_t byte_count);

/* Go on with the handshake as far as the bytes allow that have come; *done says whether the peer has proved
 * to have the key. Errors: PERMISSION (the peer has another key or none: which), PROTOCOL (what came is no
 * such handshake). There may be an alert to be sent then. */
blink_result_t tls_handshake(tls_t *tls, bool *done);

/* Decrypt what has come: up to byte_count bytes; *got 0: nothing more for now. Errors: PROTOCOL. */
blink_result_t tls_read(tls_t *tls, void *bytes, size_t byte_count, size_t *got);

/* Encrypt. Errors: PROTOCOL, NO_MEMORY. */
blink_result_t tls_write(tls_t *tls, const void *bytes, size_t byte_count);

/* 32 bytes that both ends of a connection get for the same number, and nobody else (RFC 8446, 7.5). After the
 * handshake. Errors: SYSTEM. */
#define TLS_SECRET_BYTES 32u
blink_result_t tls_export(tls_t *tls, uint32_t number, uint8_t secret[TLS_SECRET_BYTES]);

/* What waits to be sent to the peer, and how much of it has been sent. */
size_t tls_pending(const tls_t *tls, const void **bytes);
void tls_sent(tls_t *tls, size_t byte_count);

#endif

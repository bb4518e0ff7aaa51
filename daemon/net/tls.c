#include "net/tls.h"

#include <endian.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "blinkd-peer/1", the cluster, and what the key is called: 16 digits that say which one it is, and nothing
 * about it. */
#define IDENTITY_WORD  "blinkd-peer/1"
#define KEY_NAME_BYTES 17
#define IDENTITY_BYTES (sizeof(IDENTITY_WORD) + CLUSTER_NAME_BYTES + KEY_NAME_BYTES)

/* TLS_AES_128_GCM_SHA256. */
static const unsigned char cipher_number[] = {0x13, 0x01};

typedef struct psk {
    char identity[IDENTITY_BYTES];
    uint8_t secret[CLUSTER_KEY_BYTES]; /* derived from the cluster key */
} psk_t;

struct tls_context {
    SSL_CTX *ssl;
    char cluster[CLUSTER_NAME_BYTES];
    uint32_t psk_count;
    psk_t psks[CLUSTER_KEYS_MAX]; /* the first is for dialling */
};

struct tls {
    SSL *ssl;
    tls_context_t *context;
    BIO *in, *out;                /* the SSL's own */
    char offered[IDENTITY_BYTES]; /* by a peer that is not accepted; "": none was read */
};

/* ---- what is derived from the key ---- */

/* HMAC-SHA256(key, "blinkd-peer/1 WHAT CLUSTER"): HKDF's expansion (RFC 5869) to one block. The cluster key
 * is random, so there is nothing to extract. */
static void derive(const uint8_t key[CLUSTER_KEY_BYTES], const char *what, const char *cluster,
                   uint8_t derived[CLUSTER_KEY_BYTES])
{
    char info[IDENTITY_BYTES + 32];
    unsigned length = CLUSTER_KEY_BYTES;
    int info_bytes = snprintf(info, sizeof(info), "%s %s %s%c", IDENTITY_WORD, what, cluster, 1);
    HMAC(EVP_sha256(), key, CLUSTER_KEY_BYTES, (const unsigned char *)info, (size_t)info_bytes, derived,
         &length);
}

static void derive_psk(const uint8_t key[CLUSTER_KEY_BYTES], const char *cluster, psk_t *psk)
{
    uint8_t name[CLUSTER_KEY_BYTES];
    derive(key, "secret", cluster, psk->secret);
    derive(key, "name", cluster, name);
    int used = snprintf(psk->identity, sizeof(psk->identity), "%s %s ", IDENTITY_WORD, cluster);
    for (int i = 0; i < (KEY_NAME_BYTES - 1) / 2; i++)
        used += snprintf(psk->identity + used, sizeof(psk->identity) - (size_t)used, "%02x", name[i]);
}

bool tls_context_set_keys(tls_context_t *context, const cluster_keys_t *keys)
{
    psk_t psks[CLUSTER_KEYS_MAX] = {0};
    for (uint32_t i = 0; i < keys->count; i++)
        derive_psk(keys->keys[i], context->cluster, &psks[i]);
    bool is_other = memcmp(psks, context->psks, sizeof(psks)) != 0;
    memcpy(context->psks, psks, sizeof(psks));
    context->psk_count = keys->count;
    OPENSSL_cleanse(psks, sizeof(psks));
    return is_other;
}

const char *tls_context_key_name(const tls_context_t *context, uint32_t number)
{
    return number < context->psk_count ? strrchr(context->psks[number].identity, ' ') + 1 : NULL;
}

/* NULL: no memory. */
static SSL_SESSION *make_session(SSL *ssl, const psk_t *psk)
{
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_number);
    if (session && cipher && SSL_SESSION_set1_master_key(session, psk->secret, sizeof(psk->secret)) &&
        SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* OpenSSL asks which key to offer. */
static int on_offer(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *identity_bytes,
                    SSL_SESSION **session)
{
    const tls_t *tls = SSL_get_app_data(ssl);
    const psk_t *psk = &tls->context->psks[0];
    (void)digest; /* there is one cipher, and so one digest */
    *session = make_session(ssl, psk);
    *identity = (const unsigned char *)psk->identity;
    *identity_bytes = strlen(psk->identity);
    return *session != NULL;
}

/* A stranger chose these characters, and they may end in the log. */
static void keep_offered(tls_t *tls, const unsigned char *identity, size_t identity_bytes)
{
    size_t i = 0;
    for (; i < identity_bytes && i < sizeof(tls->offered) - 1; i++)
        tls->offered[i] = identity[i] >= ' ' && identity[i] <= '~' ? (char)identity[i] : '?';
    tls->offered[i] = '\0';
}

/* OpenSSL asks which key an identity means. Without one the handshake fails, for there is no certificate. */
static int on_offered(SSL *ssl, const unsigned char *identity, size_t identity_bytes, SSL_SESSION **session)
{
    tls_t *tls = SSL_get_app_data(ssl);
    tls_context_t *context = tls->context;
    *session = NULL;
    for (uint32_t i = 0; i < context->psk_count; i++) {
        const psk_t *psk = &context->psks[i];
        if (identity_bytes != strlen(psk->identity) || memcmp(identity, psk->identity, identity_bytes) != 0)
            continue;
        *session = make_session(ssl, psk);
        return *session != NULL;
    }
    keep_offered(tls, identity, identity_bytes);
    return 1;
}

/* ---- the context ---- */

/* OpenSSL's reason, which is a phrase of its own. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason given";
}

static bool set_up(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_use_session_callback(ssl, on_offer);
    SSL_CTX_set_psk_find_session_callback(ssl, on_offered);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) && SSL_CTX_set_num_tickets(ssl, 0) &&
           SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") && SSL_CTX_set1_groups_list(ssl, "X25519");
}

blink_result_t tls_context_create(const char *cluster, const cluster_keys_t *keys, tls_context_t **created)
{
    tls_context_t *context = calloc(1, sizeof(*context));
    if (!context)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for TLS");
    ERR_clear_error();
    context->ssl = SSL_CTX_new(TLS_method());
    if (!context->ssl || !set_up(context->ssl)) {
        blink_result_t result = BLINK_FAIL(BLINK_ERR_SYSTEM, "OpenSSL: %s", reason());
        tls_context_destroy(context);
        return result;
    }
    snprintf(context->cluster, sizeof(context->cluster), "%s", cluster);
    tls_context_set_keys(context, keys);
    *created = context;
    return BLINK_OK;
}

void tls_context_destroy(tls_context_t *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    OPENSSL_cleanse(context->psks, sizeof(context->psks));
    free(context);
}

/* ---- a connection ---- */

blink_result_t tls_create(tls_context_t *context, bool dials, tls_t **created)
{
    tls_t *tls = calloc(1, sizeof(*tls));
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL *ssl = SSL_new(context->ssl);
    if (!tls || !in || !out || !ssl) {
        free(tls);
        BIO_free(in);
        BIO_free(out);
        SSL_free(ssl);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a TLS connection");
    }
    *tls = (tls_t){.ssl = ssl, .context = context, .in = in, .out = out};
    SSL_set_bio(ssl, in, out);
    SSL_set_app_data(ssl, tls);
    if (dials) {
        SSL_set_connect_state(ssl);
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL); /* no certificate is trusted instead of the key */
    } else {
        SSL_set_accept_state(ssl);
    }
    *created = tls;
    return BLINK_OK;
}

void tls_destroy(tls_t *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    free(tls);
}

blink_result_t tls_feed(tls_t *tls, const void *bytes, size_t byte_count)
{
    size_t written;
    if (!BIO_write_ex(tls->in, bytes, byte_count, &written) || written != byte_count)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for %zu bytes of TLS", byte_count);
    return BLINK_OK;
}

size_t tls_pending(const tls_t *tls, const void **bytes)
{
    char *data;
    long byte_count = BIO_get_mem_data(tls->out, &data);
    *bytes = data;
    return byte_count > 0 ? (size_t)byte_count : 0;
}

void tls_sent(tls_t *tls, size_t byte_count)
{
    char dropped[4096];
    while (byte_count > 0) {
        int got = BIO_read(tls->out, dropped,
                           byte_count < sizeof(dropped) ? (int)byte_count : (int)sizeof(dropped));
        if (got <= 0)
            return;
        byte_count -= (size_t)got;
    }
}

/* Whether the failure is the peer's word that it does not accept our key. */
static bool is_refused_by_peer(unsigned long error)
{
    int why = ERR_GET_REASON(error);
    return ERR_GET_LIB(error) == ERR_LIB_SSL &&
           (why == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE || why == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
            why == SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_PSK_IDENTITY);
}

static blink_result_t handshake_failed(const tls_t *tls)
{
    if (*tls->offered)
        return BLINK_FAIL(BLINK_ERR_PERMISSION,
                          "it has another cluster key or cluster name, '%s'; accepted here is '%s'%s%s%s",
                          tls->offered, tls->context->psks[0].identity,
                          tls->context->psk_count > 1 ? " or '" : "",
                          tls->context->psk_count > 1 ? tls->context->psks[1].identity : "",
                          tls->context->psk_count > 1 ? "'" : "");
    if (is_refused_by_peer(ERR_peek_last_error()))
        return BLINK_FAIL(BLINK_ERR_PERMISSION,
                          "it does not accept this host's cluster key or cluster name, '%s'",
                          tls->context->psks[0].identity);
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "no TLS handshake with a cluster key: %s", reason());
}

blink_result_t tls_handshake(tls_t *tls, bool *done)
{
    ERR_clear_error();
    int status = SSL_do_handshake(tls->ssl);
    *done = status == 1;
    if (*done && !SSL_session_reused(tls->ssl))
        return BLINK_FAIL(BLINK_ERR_PERMISSION, "it has shown no cluster key");
    if (*done || SSL_get_error(tls->ssl, status) == SSL_ERROR_WANT_READ)
        return BLINK_OK;
    return handshake_failed(tls);
}

blink_result_t tls_read(tls_t *tls, void *bytes, size_t byte_count, size_t *got)
{
    ERR_clear_error();
    *got = 0;
    int status = SSL_read_ex(tls->ssl, bytes, byte_count, got);
    int error = status ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, status);
    if (error == SSL_ERROR_NONE || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "bytes that are not what the peer encrypted: %s", reason());
}

blink_result_t tls_write(tls_t *tls, const void *bytes, size_t byte_count)
{
    size_t written;
    ERR_clear_error();
    if (!SSL_write_ex(tls->ssl, bytes, byte_count, &written))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "TLS does not write: %s", reason());
    return BLINK_OK;
}

blink_result_t tls_export(tls_t *tls, uint32_t number, uint8_t secret[TLS_SECRET_BYTES])
{
    static const char label[] = "EXPORTER-blinkd-data";
    uint8_t packed[sizeof(number)];
    size_t bytes = number > UINT8_MAX ? sizeof(packed) : 1;
    memcpy(packed, &(uint32_t){htole32(number)}, sizeof(packed));
    ERR_clear_error();
    if (SSL_export_keying_material(tls->ssl, secret, TLS_SECRET_BYTES, label, sizeof(label) - 1, packed,
                                   bytes, 1) != 1)
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "OpenSSL: %s", reason());
    return BLINK_OK;
}

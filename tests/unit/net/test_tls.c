/*
 * TLS with the cluster key, over memory.
 */
#include "net/tls.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static cluster_keys_t keys_of(uint8_t first, uint8_t second)
{
    cluster_keys_t keys = {.count = second ? 2 : 1};
    memset(keys.keys[0], first, CLUSTER_KEY_BYTES);
    memset(keys.keys[1], second, CLUSTER_KEY_BYTES);
    return keys;
}

/* Two ends that have contexts of their own. */
typedef struct pair {
    tls_context_t *contexts[2];
    tls_t *ends[2]; /* the first one dials */
    bool done[2];
} pair_t;

static pair_t pair_create(const char *cluster, cluster_keys_t dialling, const char *other,
                          cluster_keys_t accepting)
{
    pair_t pair = {0};
    assert_int_equal(tls_context_create(cluster, &dialling, &pair.contexts[0]), BLINK_OK);
    assert_int_equal(tls_context_create(other, &accepting, &pair.contexts[1]), BLINK_OK);
    assert_int_equal(tls_create(pair.contexts[0], true, &pair.ends[0]), BLINK_OK);
    assert_int_equal(tls_create(pair.contexts[1], false, &pair.ends[1]), BLINK_OK);
    return pair;
}

static void pair_destroy(pair_t *pair)
{
    for (int i = 0; i < 2; i++) {
        tls_destroy(pair->ends[i]);
        tls_context_destroy(pair->contexts[i]);
    }
}

/* Carry over what one end has to say. */
static void carry(tls_t *from, tls_t *to)
{
    const void *bytes;
    size_t byte_count = tls_pending(from, &bytes);
    if (byte_count == 0)
        return;
    assert_int_equal(tls_feed(to, bytes, byte_count), BLINK_OK);
    tls_sent(from, byte_count);
}

/* Until both are done, or one has failed: how it ended at either end. */
static void shake_hands(pair_t *pair, blink_result_t results[2])
{
    results[0] = results[1] = BLINK_OK;
    for (int turn = 0; turn < 6; turn++) {
        int end = turn % 2;
        if (results[end] == BLINK_OK && !pair->done[end])
            results[end] = tls_handshake(pair->ends[end], &pair->done[end]);
        carry(pair->ends[end], pair->ends[1 - end]);
    }
}

static void assert_carries_text(pair_t *pair, int from)
{
    char text[64] = "";
    size_t got;
    assert_int_equal(tls_write(pair->ends[from], "collective", 11), BLINK_OK);
    carry(pair->ends[from], pair->ends[1 - from]);
    assert_int_equal(tls_read(pair->ends[1 - from], text, sizeof(text), &got), BLINK_OK);
    assert_int_equal(got, 11);
    assert_string_equal(text, "collective");
    assert_int_equal(tls_read(pair->ends[1 - from], text, sizeof(text), &got), BLINK_OK);
    assert_int_equal(got, 0);
}

static void test_same_key_meets_both_ways(void **state)
{
    blink_result_t results[2];
    pair_t pair = pair_create("blink", keys_of(1, 0), "blink", keys_of(1, 0));
    (void)state;
    shake_hands(&pair, results);
    assert_true(pair.done[0] && pair.done[1]);
    assert_carries_text(&pair, 0);
    assert_carries_text(&pair, 1);
    pair_destroy(&pair);
}

static void test_other_key_is_refused_with_its_name_at_both_ends(void **state)
{
    blink_result_t results[2];
    pair_t pair = pair_create("blink", keys_of(1, 0), "blink", keys_of(2, 0));
    (void)state;
    shake_hands(&pair, results);
    assert_false(pair.done[0] || pair.done[1]);
    assert_int_equal(results[1], BLINK_ERR_PERMISSION);
    assert_int_equal(results[0], BLINK_ERR_PERMISSION);
    assert_non_null(strstr(blink_error_text(), "does not accept this host's cluster key"));
    pair_destroy(&pair);
}

static void test_second_key_is_accepted_while_keys_are_changed(void **state)
{
    blink_result_t results[2];
    pair_t pair = pair_create("blink", keys_of(1, 2), "blink", keys_of(2, 1));
    (void)state;
    shake_hands(&pair, results);
    assert_true(pair.done[0] && pair.done[1]);
    pair_destroy(&pair);
}

static void test_same_key_of_another_cluster_is_refused_by_name(void **state)
{
    blink_result_t results[2];
    pair_t pair = pair_create("yellow", keys_of(1, 0), "green", keys_of(1, 0));
    bool done;
    (void)state;
    assert_int_equal(tls_handshake(pair.ends[0], &done), BLINK_OK);
    carry(pair.ends[0], pair.ends[1]);
    results[1] = tls_handshake(pair.ends[1], &done);
    assert_int_equal(results[1], BLINK_ERR_PERMISSION);
    assert_non_null(strstr(blink_error_text(), "yellow"));
    assert_non_null(strstr(blink_error_text(), "green"));
    pair_destroy(&pair);
}

static void test_keys_set_anew_hold_for_the_next_handshake(void **state)
{
    blink_result_t results[2];
    pair_t pair = pair_create("blink", keys_of(2, 0), "blink", keys_of(1, 0));
    cluster_keys_t both = keys_of(1, 2);
    (void)state;
    tls_context_set_keys(pair.contexts[1], &both);
    shake_hands(&pair, results);
    assert_true(pair.done[0] && pair.done[1]);
    pair_destroy(&pair);
}

static void test_changed_byte_ends_the_connection(void **state)
{
    blink_result_t results[2];
    uint8_t record[256];
    const void *bytes;
    size_t got;
    pair_t pair = pair_create("blink", keys_of(1, 0), "blink", keys_of(1, 0));
    (void)state;
    shake_hands(&pair, results);
    assert_int_equal(tls_write(pair.ends[0], "collective", 11), BLINK_OK);
    size_t byte_count = tls_pending(pair.ends[0], &bytes);
    memcpy(record, bytes, byte_count);
    record[byte_count - 1] ^= 1;
    assert_int_equal(tls_feed(pair.ends[1], record, byte_count), BLINK_OK);
    assert_int_equal(tls_read(pair.ends[1], record, sizeof(record), &got), BLINK_ERR_PROTOCOL);
    pair_destroy(&pair);
}

static void test_garbage_is_no_handshake(void **state)
{
    cluster_keys_t keys = keys_of(1, 0);
    tls_context_t *context;
    tls_t *tls;
    bool done;
    (void)state;
    assert_int_equal(tls_context_create("blink", &keys, &context), BLINK_OK);
    assert_int_equal(tls_create(context, false, &tls), BLINK_OK);
    assert_int_equal(tls_feed(tls, "GET / HTTP/1.1\r\n\r\n", 18), BLINK_OK);
    assert_int_equal(tls_handshake(tls, &done), BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "http request"));
    tls_destroy(tls);
    tls_context_destroy(context);
}

/* ---- peers that speak TLS without the key ---- */

/* One flight of a plain OpenSSL end and one of ours, in turn, until ours has failed. */
static blink_result_t meet_plain(SSL_CTX *context, bool ours_dials)
{
    cluster_keys_t keys = keys_of(1, 0);
    tls_context_t *ours_context;
    tls_t *ours;
    bool done = false;
    blink_result_t result = BLINK_OK;
    SSL *plain = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(plain, in, out);
    if (ours_dials)
        SSL_set_accept_state(plain);
    else
        SSL_set_connect_state(plain);
    assert_int_equal(tls_context_create("blink", &keys, &ours_context), BLINK_OK);
    assert_int_equal(tls_create(ours_context, ours_dials, &ours), BLINK_OK);
    for (int turn = 0; turn < 4 && result == BLINK_OK && !done; turn++) {
        const void *bytes;
        char *data;
        result = tls_handshake(ours, &done);
        size_t byte_count = tls_pending(ours, &bytes);
        BIO_write(in, bytes, (int)byte_count);
        tls_sent(ours, byte_count);
        SSL_do_handshake(plain);
        long plain_bytes = BIO_get_mem_data(out, &data);
        assert_int_equal(tls_feed(ours, data, (size_t)plain_bytes), BLINK_OK);
        assert_int_equal(BIO_reset(out), 1);
    }
    assert_false(done);
    tls_destroy(ours);
    tls_context_destroy(ours_context);
    SSL_free(plain);
    return result;
}

static void add_certificate(SSL_CTX *context)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *certificate = X509_new();
    assert_non_null(key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, NULL) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static void test_tls_1_2_client_is_refused(void **state)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    (void)state;
    assert_int_equal(SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION), 1);
    assert_int_equal(meet_plain(context, false), BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "unsupported protocol"));
    SSL_CTX_free(context);
}

static void test_client_with_a_certificate_is_refused(void **state)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    (void)state;
    add_certificate(context);
    assert_int_equal(meet_plain(context, false), BLINK_ERR_PROTOCOL);
    SSL_CTX_free(context);
}

static void test_server_with_a_certificate_is_refused(void **state)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    (void)state;
    add_certificate(context);
    assert_int_equal(meet_plain(context, true), BLINK_ERR_PROTOCOL);
    assert_non_null(strstr(blink_error_text(), "certificate verify failed"));
    SSL_CTX_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_key_meets_both_ways),
        cmocka_unit_test(test_other_key_is_refused_with_its_name_at_both_ends),
        cmocka_unit_test(test_second_key_is_accepted_while_keys_are_changed),
        cmocka_unit_test(test_same_key_of_another_cluster_is_refused_by_name),
        cmocka_unit_test(test_keys_set_anew_hold_for_the_next_handshake),
        cmocka_unit_test(test_changed_byte_ends_the_connection),
        cmocka_unit_test(test_garbage_is_no_handshake),
        cmocka_unit_test(test_tls_1_2_client_is_refused),
        cmocka_unit_test(test_client_with_a_certificate_is_refused),
        cmocka_unit_test(test_server_with_a_certificate_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Words about plans that come from other hosts, from the control thread to what heeds them.
 */
#include "engine/loop.h"
#include "engine/plans/answer.h"
#include "engine/plans/fetch.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may be kept for communicators that are not known yet: READY comes by another way than asks. */
#define EARLY_MOST_BYTES (1u << 20)

typedef struct heard {
    mailbox_item_t item;
    list_t of_early;
    engine_t *engine;
    data_endpoint_t *endpoint; /* held */
    plan_word_t word;
    uint32_t bytes;    /* of all this */
    uint8_t content[]; /* the word's text and piece */
} heard_t;

static void heard_free(heard_t *heard)
{
    data_endpoint_put(heard->endpoint);
    free(heard);
}

/* The peer lies, or cannot be answered: its session ends, and its communicators by that. */
static void refuse(const heard_t *heard, blink_result_t code)
{
    char text[BLINK_ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", blink_error_text());
    data_endpoint_close(heard->endpoint,
                        BLINK_FAIL(code, "host %s: %s", data_endpoint_peer(heard->endpoint), text));
}

/* Nobody would hear the answers. */
static void drop_lost(plan_cache_t *cache)
{
    LIST_FOR_EACH (link, &cache->early) {
        heard_t *heard = CONTAINER_OF(link, heard_t, of_early);
        if (!data_endpoint_is_lost(heard->endpoint))
            continue;
        cache->early_bytes -= heard->bytes;
        list_remove(&heard->of_early);
        heard_free(heard);
    }
}

static blink_result_t keep(plan_cache_t *cache, heard_t *heard)
{
    drop_lost(cache);
    if (cache->early_bytes + heard->bytes > EARLY_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "it asks for plans of communicators that this host does not know");
    cache->early_bytes += heard->bytes;
    list_append(&cache->early, &heard->of_early);
    return BLINK_OK;
}

static void heed(heard_t *heard)
{
    bool is_early = false;
    blink_result_t result = heard->word.is_answer
                                ? fetch_heed(heard->engine, heard->endpoint, &heard->word)
                                : answer_heed(heard->engine, heard->endpoint, &heard->word, &is_early);
    engine_count(heard->engine, 1);
    if (is_early)
        result = keep(&heard->engine->cache, heard);
    if (result != BLINK_OK)
        refuse(heard, result);
    if (!is_early || result != BLINK_OK)
        heard_free(heard);
}

static void take_posted(mailbox_item_t *item)
{
    heard_t *heard = CONTAINER_OF(item, heard_t, item);
    /* Relaxed: a bound, which orders nothing. */
    atomic_fetch_sub_explicit(&heard->engine->remotes.inbox_bytes, heard->bytes, memory_order_relaxed);
    heed(heard);
}

/* Let the word point to copies of its own. */
static void copy_content(heard_t *heard, const plan_word_t *word, size_t text_bytes)
{
    memcpy(heard->content, word->text ? word->text : "", text_bytes);
    heard->content[text_bytes - 1] = '\0';
    heard->word.text = (const char *)heard->content;
    if (word->piece_bytes > 0)
        memcpy(heard->content + text_bytes, word->piece, word->piece_bytes);
    heard->word.piece = heard->content + text_bytes;
}

blink_result_t engine_plan_word(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word)
{
    size_t text_bytes = word->text ? strnlen(word->text, BLINK_ERROR_TEXT_BYTES - 1) + 1 : 1;
    size_t bytes = sizeof(heard_t) + text_bytes + word->piece_bytes;
    if (atomic_load_explicit(&engine->remotes.inbox_bytes, memory_order_relaxed) > REMOTE_INBOX_MOST_BYTES)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "more than %u MiB of its words wait",
                          REMOTE_INBOX_MOST_BYTES >> 20);
    heard_t *heard = malloc(bytes);
    if (!heard)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a word about a plan");
    *heard = (heard_t){.item.run = take_posted,
                       .engine = engine,
                       .endpoint = endpoint,
                       .word = *word,
                       .bytes = (uint32_t)bytes};
    list_init(&heard->of_early);
    copy_content(heard, word, text_bytes);
    data_endpoint_get(endpoint);
    atomic_fetch_add_explicit(&engine->remotes.inbox_bytes, heard->bytes, memory_order_relaxed);
    mailbox_post(&engine->mailbox, &heard->item);
    return BLINK_OK;
}

void plan_words_take_early(engine_t *engine)
{
    plan_cache_t *cache = &engine->cache;
    list_t early;
    list_init(&early);
    list_splice(&early, &cache->early);
    cache->early_bytes = 0; /* what is of others is kept again */
    list_t *link;
    while ((link = list_take_first(&early)))
        heed(CONTAINER_OF(link, heard_t, of_early));
}

void plan_words_free(engine_t *engine)
{
    list_t *link;
    while ((link = list_take_first(&engine->cache.early)))
        heard_free(CONTAINER_OF(link, heard_t, of_early));
}

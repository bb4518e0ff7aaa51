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

typedef struct heard {
    mailbox_item_t item;
    early_word_t early;
    bool was_early; /* it has been kept for its communicator, and is not again */
    engine_t *engine;
    data_endpoint_t *endpoint; /* held, and charged with the word */
    plan_word_t word;
    size_t bytes;      /* of all this */
    uint8_t content[]; /* the word's text and piece */
} heard_t;

static void heard_free(heard_t *heard)
{
    data_endpoint_credit(heard->endpoint, heard->bytes);
    data_endpoint_put(heard->endpoint);
    free(heard);
}

/* The peer lies, or cannot be answered: its session ends, and its communicators by that. */
static void refuse(const heard_t *heard, blink_result_t code)
{
    data_endpoint_close(heard->endpoint, code);
}

static void heed_early(early_word_t *word);
static void drop_early(early_word_t *word);

static blink_result_t keep(heard_t *heard)
{
    heard->was_early = true;
    heard->early = (early_word_t){.endpoint = heard->endpoint, .heed = heed_early, .drop = drop_early};
    return early_keep(&heard->engine->remotes.early, heard->word.home, heard->word.comm, &heard->early);
}

static void heed(heard_t *heard)
{
    bool is_early = false;
    blink_result_t result = heard->word.is_answer ? fetch_heed(heard->engine, heard->endpoint, &heard->word)
                                                  : answer_heed(heard->engine, heard->endpoint, &heard->word,
                                                                heard->was_early ? NULL : &is_early);
    engine_count(heard->engine, 1);
    if (is_early)
        result = keep(heard);
    if (result != BLINK_OK)
        refuse(heard, result);
    if (!is_early || result != BLINK_OK)
        heard_free(heard);
}

static void take_posted(mailbox_item_t *item)
{
    heed(CONTAINER_OF(item, heard_t, item));
}

static void heed_early(early_word_t *word)
{
    heed(CONTAINER_OF(word, heard_t, early));
}

static void drop_early(early_word_t *word)
{
    heard_free(CONTAINER_OF(word, heard_t, early));
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
    BLINK_TRY(data_endpoint_charge(endpoint, bytes));
    heard_t *heard = malloc(bytes);
    if (!heard) {
        data_endpoint_credit(endpoint, bytes);
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a word about a plan");
    }
    *heard = (heard_t){
        .item.run = take_posted, .engine = engine, .endpoint = endpoint, .word = *word, .bytes = bytes};
    copy_content(heard, word, text_bytes);
    data_endpoint_get(endpoint);
    mailbox_post(&engine->mailbox, &heard->item);
    return BLINK_OK;
}

#include "engine/plans/tell.h"

#include "engine/loop.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>

/* Words that the control thread has not sent. Honest hosts come nowhere near: each word answers one of
 * theirs, or an op waits for it. */
#define UNTOLD_MOST 65536u

typedef struct telling {
    mailbox_item_t item;
    engine_t *engine;
    data_endpoint_t *endpoint; /* held */
    plan_word_t word;
    plan_shipped_t *shipped; /* used */
    char text[];
} telling_t;

plan_shipped_t *plan_shipped_create(uint8_t *bytes, size_t byte_count)
{
    plan_shipped_t *shipped = malloc(sizeof(*shipped));
    if (!shipped) {
        free(bytes);
        return NULL;
    }
    shipped->byte_count = (uint32_t)byte_count;
    shipped->bytes = bytes;
    atomic_init(&shipped->users, 1);
    return shipped;
}

plan_shipped_t *plan_shipped_get(plan_shipped_t *shipped)
{
    /* Relaxed: whoever counts up has it already. */
    atomic_fetch_add_explicit(&shipped->users, 1, memory_order_relaxed);
    return shipped;
}

void plan_shipped_put(plan_shipped_t *shipped)
{
    /* Acquire and release: what others read of it comes before its end. */
    if (!shipped || atomic_fetch_sub_explicit(&shipped->users, 1, memory_order_acq_rel) > 1)
        return;
    free(shipped->bytes);
    free(shipped);
}

static void tell_on_control(mailbox_item_t *item)
{
    telling_t *telling = CONTAINER_OF(item, telling_t, item);
    const engine_config_t *config = &telling->engine->config;
    /* Relaxed: a bound, which orders nothing. */
    atomic_fetch_sub_explicit(&telling->engine->cache.untold, 1, memory_order_relaxed);
    config->tell_plan(config->context, telling->endpoint, &telling->word);
    data_endpoint_put(telling->endpoint);
    plan_shipped_put(telling->shipped);
    free(telling);
}

blink_result_t plan_tell(engine_t *engine, data_endpoint_t *endpoint, const plan_word_t *word,
                         plan_shipped_t *shipped)
{
    size_t text_bytes = word->text ? strlen(word->text) + 1 : 0;
    if (atomic_load_explicit(&engine->cache.untold, memory_order_relaxed) >= UNTOLD_MOST)
        return BLINK_FAIL(BLINK_ERR_QUOTA, "%u words about plans wait to be sent", UNTOLD_MOST);
    telling_t *telling = malloc(sizeof(*telling) + text_bytes);
    if (!telling)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a word about a plan");
    *telling = (telling_t){.item.run = tell_on_control,
                           .engine = engine,
                           .endpoint = endpoint,
                           .word = *word,
                           .shipped = shipped};
    if (word->text)
        telling->word.text = memcpy(telling->text, word->text, text_bytes);
    data_endpoint_get(endpoint);
    if (shipped)
        (void)plan_shipped_get(shipped);
    atomic_fetch_add_explicit(&engine->cache.untold, 1, memory_order_relaxed);
    mailbox_post(engine->config.control, &telling->item);
    return BLINK_OK;
}

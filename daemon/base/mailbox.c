#include "base/mailbox.h"

#include <stddef.h>

void mailbox_init(mailbox_t *mailbox, void (*wake)(void *context), void *context)
{
    atomic_init(&mailbox->newest, NULL);
    mailbox->oldest = NULL;
    mailbox->wake = wake;
    mailbox->context = context;
}

void mailbox_post(mailbox_t *mailbox, mailbox_item_t *item)
{
    mailbox_item_t *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    do {
        item->next = newest;
        /* seq_cst: publishes the item to mailbox_run(), and comes before the poster's look at whether the
         * owner sleeps (in wake), as mailbox_is_empty() comes after the owner's announcement. */
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, item, memory_order_seq_cst,
                                                    memory_order_relaxed));
    if (!newest)
        mailbox->wake(mailbox->context);
}

/* Take out what has been posted since the last time; NULL: nothing. */
static mailbox_item_t *take(mailbox_t *mailbox)
{
    /* Acquire: pairs with the publication in mailbox_post(). */
    mailbox_item_t *item = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
    mailbox_item_t *oldest = NULL;
    while (item) {
        mailbox_item_t *older = item->next;
        item->next = oldest;
        oldest = item;
        item = older;
    }
    return oldest;
}

bool mailbox_run_posted(mailbox_t *mailbox)
{
    mailbox_item_t *oldest = take(mailbox);
    bool any = oldest;
    while (oldest) {
        mailbox_item_t *next = oldest->next;
        oldest->run(oldest);
        oldest = next;
    }
    return any;
}

uint32_t mailbox_run_some(mailbox_t *mailbox, uint32_t most)
{
    uint32_t count = 0;
    while (count < most) {
        if (!mailbox->oldest)
            mailbox->oldest = take(mailbox);
        mailbox_item_t *item = mailbox->oldest;
        if (!item)
            break;
        mailbox->oldest = item->next;
        item->run(item);
        count++;
    }
    return count;
}

bool mailbox_is_empty(mailbox_t *mailbox)
{
    /* seq_cst: pairs with the publication in mailbox_post(). */
    return !atomic_load_explicit(&mailbox->newest, memory_order_seq_cst);
}

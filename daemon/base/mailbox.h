/*
 * How threads hand work over: any thread posts an item, one owner thread runs them in the order they were
 * posted. Items are intrusive, so posting never allocates and cannot fail. The daemon's control thread and
 * engine thread each own one.
 */
#ifndef BLINK_MAILBOX_H
#define BLINK_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mailbox_item {
    struct mailbox_item *next;
    /* Runs on the owner's thread. The item is the callee's again: it may be freed or posted anew. */
    void (*run)(struct mailbox_item *item);
} mailbox_item_t;

typedef struct mailbox {
    _Atomic(mailbox_item_t *) newest;
    mailbox_item_t *oldest;      /* the owner's: taken out, and not run yet */
    void (*wake)(void *context); /* called by a poster that found the mailbox empty */
    void *context;
} mailbox_t;

void mailbox_init(mailbox_t *mailbox, void (*wake)(void *context), void *context);

/* Thread-safe. Everything written before the post is seen by item->run. */
void mailbox_post(mailbox_t *mailbox, mailbox_item_t *item);

/* Owner only: run everything posted so far; true if there was anything. */
bool mailbox_run_posted(mailbox_t *mailbox);

/* Owner only: run the oldest `most` of what has been posted; how many there were. */
uint32_t mailbox_run_some(mailbox_t *mailbox, uint32_t most);

/* mailbox_run_posted(), where there mostly is nothing. */
static inline bool mailbox_run(mailbox_t *mailbox)
{
    /* Relaxed: an idle look; the exchange in mailbox_run_posted() synchronises. */
    return atomic_load_explicit(&mailbox->newest, memory_order_relaxed) && mailbox_run_posted(mailbox);
}

/* Owner only, sequentially consistent: the second look before sleeping. */
bool mailbox_is_empty(mailbox_t *mailbox);

#endif

/* The mailbox: order, when it wakes its owner, and four producers at once. */
#include "base/mailbox.h"
#include "limit.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define PRODUCERS          4u
#define ITEMS_PER_PRODUCER 50000u

typedef struct journal {
    mailbox_t mailbox;
    uint32_t entries[8];
    uint32_t entry_count;
    uint32_t wake_count;
} journal_t;

typedef struct note {
    mailbox_item_t item; /* first: the callee casts back */
    journal_t *journal;
    uint32_t number;
    struct note *then; /* posted by this one's run */
} note_t;

static void write_down(mailbox_item_t *item)
{
    note_t *note = (note_t *)item;
    note->journal->entries[note->journal->entry_count++] = note->number;
    if (note->then)
        mailbox_post(&note->journal->mailbox, &note->then->item);
}

static void count_wake(void *context)
{
    journal_t *journal = context;
    journal->wake_count++;
}

static void test_items_run_in_the_order_of_posting(void **state)
{
    (void)state;
    journal_t journal = {.entry_count = 0};
    note_t notes[3];
    mailbox_init(&journal.mailbox, count_wake, &journal);
    assert_true(mailbox_is_empty(&journal.mailbox));
    assert_false(mailbox_run(&journal.mailbox));
    for (uint32_t i = 0; i < 3; i++) {
        notes[i] = (note_t){{NULL, write_down}, &journal, i, NULL};
        mailbox_post(&journal.mailbox, &notes[i].item);
    }
    assert_false(mailbox_is_empty(&journal.mailbox));
    assert_true(mailbox_run(&journal.mailbox));
    assert_int_equal(journal.entry_count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(journal.entries[i], i);
    assert_int_equal(journal.wake_count, 1); /* only the first post found it empty */
    assert_true(mailbox_is_empty(&journal.mailbox));
}

static void test_an_item_may_post_while_it_runs(void **state)
{
    (void)state;
    journal_t journal = {.entry_count = 0};
    mailbox_init(&journal.mailbox, count_wake, &journal);
    note_t second = {{NULL, write_down}, &journal, 2, NULL};
    note_t first = {{NULL, write_down}, &journal, 1, &second};
    mailbox_post(&journal.mailbox, &first.item);
    assert_true(mailbox_run(&journal.mailbox));
    assert_int_equal(journal.entry_count, 1); /* the second has its turn in the next run */
    assert_int_equal(journal.wake_count, 2);
    assert_true(mailbox_run(&journal.mailbox));
    assert_int_equal(journal.entries[1], 2);
}

typedef struct stress {
    mailbox_t mailbox;
    int wake_fd;
    uint32_t seen[PRODUCERS]; /* owner only */
    uint32_t out_of_order, total;
} stress_t;

typedef struct parcel {
    mailbox_item_t item;
    stress_t *stress;
    uint32_t producer, number;
} parcel_t;

static void unpack(mailbox_item_t *item)
{
    parcel_t *parcel = (parcel_t *)item;
    stress_t *stress = parcel->stress;
    stress->out_of_order += parcel->number != stress->seen[parcel->producer]++;
    stress->total++;
    free(parcel);
}

static void wake_owner(void *context)
{
    const stress_t *stress = context;
    uint64_t one = 1;
    if (write(stress->wake_fd, &one, sizeof(one)) < 0)
        abort();
}

typedef struct producer {
    stress_t *stress;
    uint32_t number;
} producer_t;

static void *produce(void *argument)
{
    const producer_t *producer = argument;
    for (uint32_t i = 0; i < ITEMS_PER_PRODUCER; i++) {
        parcel_t *parcel = malloc(sizeof(*parcel));
        *parcel = (parcel_t){{NULL, unpack}, producer->stress, producer->number, i};
        mailbox_post(&producer->stress->mailbox, &parcel->item);
    }
    return NULL;
}

/* The owner sleeps whenever the mailbox is empty: a missed wake-up leaves it asleep, and the alarm ends the
 * program. */
static void test_four_producers_keep_their_order(void **state)
{
    (void)state;
    stress_t stress = {.wake_fd = eventfd(0, EFD_CLOEXEC)};
    producer_t producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    mailbox_init(&stress.mailbox, wake_owner, &stress);
    alarm(limit_s());
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (producer_t){&stress, i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    while (stress.total < PRODUCERS * ITEMS_PER_PRODUCER) {
        uint64_t count;
        if (mailbox_is_empty(&stress.mailbox))
            assert_int_equal(read(stress.wake_fd, &count, sizeof(count)), sizeof(count));
        mailbox_run(&stress.mailbox);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    alarm(0);
    assert_int_equal(stress.out_of_order, 0);
    assert_int_equal(stress.total, PRODUCERS * ITEMS_PER_PRODUCER);
    close(stress.wake_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_run_in_the_order_of_posting),
        cmocka_unit_test(test_an_item_may_post_while_it_runs),
        cmocka_unit_test(test_four_producers_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

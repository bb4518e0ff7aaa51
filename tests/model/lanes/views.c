/* Locations, what threads know of them, and the steps of threads. */
#include "views_state.h"

#include <stdlib.h>
#include <string.h>

struct views views;

uint64_t views_memory[VIEWS_MEMORY_BYTES / 8] __attribute__((aligned(64)));

void views_tell(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    story_add(&views.trace, format, arguments);
    va_end(arguments);
}

static thread_t *self(void)
{
    return &views.threads[views.running];
}

void views_fail(const char *what)
{
    if (!views.wrong)
        views_tell("block %u thread %u: WRONG: %s\n", self()->block, self()->index, what);
    views.wrong = views.wrong ? views.wrong : what;
}

/* ---- locations ---- */

static uint32_t location_at(uint64_t address)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)views_memory;
    if (offset >= VIEWS_MEMORY_BYTES || views.places[offset / 4] == 0)
        abort(); /* the code reads or writes what it has no business with */
    return views.places[offset / 4] - 1u;
}

static uint64_t hash_of(const message_t *message)
{
    uint64_t hash = seen_hash(&message->knowledge, sizeof(message->knowledge));
    hash = seen_mix(hash, message->value);
    hash = seen_mix(hash, message->by_alias);
    return seen_mix(hash, message->writer * 512u + message->moment * 2u + message->releases);
}

static void append(location_t *location, message_t message)
{
    if (location->count == MESSAGES_MAX)
        abort();
    if (location->count == location->most)
        views_fail("a store more than there should be");
    message.hash = hash_of(&message);
    location->messages[location->count++] = message;
}

void views_word(const char *name, uint32_t number, uint64_t address, uint32_t bytes, uint32_t stores)
{
    if (views.location_count == VIEWS_LOCATIONS_MAX)
        abort();
    location_t *location = &views.locations[views.location_count++];
    memset(location, 0, offsetof(location_t, messages));
    memset(location->used, 0, sizeof(location->used));
    memset(location->used_by_alias, 0, sizeof(location->used_by_alias));
    location->name = name;
    location->number = number;
    location->bytes = bytes;
    location->address = (char *)(uintptr_t)address;
    location->count = 0;
    location->most = 1 + stores;
    views.places[(address - (uint64_t)(uintptr_t)views_memory) / 4] = (uint8_t)views.location_count;
    uint64_t value = 0;
    memcpy(&value, location->address, bytes);
    append(location, (message_t){.value = value, .writer = NOBODY});
}

void views_may_become(uint64_t address, uint64_t value)
{
    location_t *location = &views.locations[location_at(address)];
    location->most++;
    append(location, (message_t){.value = value, .writer = NOBODY});
}

void views_expect(uint64_t address, uint64_t value)
{
    uint32_t number = location_at(address);
    location_t *location = &views.locations[number];
    if (number > 0 && !views.locations[number - 1].is_expected)
        abort();
    location->is_expected = true;
    location->expected = value;
}

/* ---- what threads know ---- */

static void learn(knowledge_t *knowledge, const knowledge_t *more)
{
    for (uint32_t i = 0; i < VIEWS_THREADS_MAX; i++) {
        if (knowledge->moments[i] < more->moments[i])
            knowledge->moments[i] = more->moments[i];
        if (knowledge->fenced[i] < more->fenced[i])
            knowledge->fenced[i] = more->fenced[i];
    }
    for (uint32_t i = 0; i < views.location_count; i++) {
        if (knowledge->seen[i] < more->seen[i])
            knowledge->seen[i] = more->seen[i];
    }
}

/* Whether that moment of the other thread lies before the thread's present one, for accesses of one place by
 * one address or by two. */
static bool is_before(const thread_t *thread, uint32_t other, uint8_t moment, bool by_two)
{
    return moment <= (by_two ? thread->knowledge.fenced : thread->knowledge.moments)[other];
}

static bool is_known(const thread_t *thread, const message_t *message, bool by_alias)
{
    return message->writer == NOBODY ||
           is_before(thread, message->writer, message->moment, message->by_alias != by_alias);
}

static uint8_t next_moment(thread_t *thread)
{
    uint8_t moment = ++thread->knowledge.moments[views.running];
    if (moment == UINT8_MAX)
        abort();
    return moment;
}

static void use(thread_t *thread, uint32_t number, bool by_alias)
{
    location_t *location = &views.locations[number];
    if (thread->knowledge.seen[number] != location->count - 1)
        views_fail("a load whose value was used although another has been stored");
    location->used[views.running] = next_moment(thread);
    location->used_by_alias[views.running] = by_alias;
}

typedef enum { WEAK, ALIAS, STRONG, RELEASES } manner_t; /* ALIAS: weak, by the second address */

static void store(thread_t *thread, uint32_t number, uint64_t value, manner_t manner)
{
    static const char *const names[] = {"", ", by its alias", ", strong", ", releases"};
    bool weak = manner <= ALIAS, by_alias = manner == ALIAS;
    location_t *location = &views.locations[number];
    views_tell("block %u thread %u: %s %u = %#llx%s\n", thread->block, thread->index, location->name,
               location->number, (unsigned long long)value, names[manner]);
    for (uint32_t i = 0; i < views.thread_count; i++) {
        if (!is_before(thread, i, location->used[i], location->used_by_alias[i] != by_alias))
            views_fail("a store that does not come after a load of the same place");
    }
    if (weak && !is_known(thread, last_of(location), by_alias))
        views_fail("a store that does not come after another to the same place");
    if (location->is_expected && value != location->expected)
        views_fail("a value that does not belong there is stored");
    uint8_t moment = next_moment(thread);
    thread->knowledge.seen[number] = (uint8_t)location->count;
    append(location, (message_t){.value = value,
                                 .writer = (uint8_t)views.running,
                                 .moment = moment,
                                 .releases = manner == RELEASES,
                                 .by_alias = by_alias,
                                 .knowledge = thread->knowledge});
}

void views_notice_stores(thread_t *thread)
{
    for (uint32_t i = 0; i < views.location_count && views.locations[i].is_expected; i++) {
        location_t *location = &views.locations[i];
        uint64_t value = 0;
        memcpy(&value, location->address, location->bytes);
        if (value != last_of(location)->value)
            store(thread, i, value, WEAK);
    }
}

/* The message that the thread sees. */
static uint64_t see(thread_t *thread, uint32_t number, uint32_t chosen, bool acquires)
{
    location_t *location = &views.locations[number];
    const message_t *message = &location->messages[chosen];
    thread->knowledge.seen[number] = (uint8_t)chosen;
    if (acquires && message->releases)
        learn(&thread->knowledge, &message->knowledge);
    thread->history = seen_mix(thread->history, message->value);
    views_tell("block %u thread %u: %s %u is %#llx%s\n", thread->block, thread->index, location->name,
               location->number, (unsigned long long)message->value, acquires ? ", acquired" : "");
    return message->value;
}

/* ---- steps ---- */

/* Let the scheduler choose when the thread goes on. */
static void stand(thread_t *thread, standing_t standing)
{
    thread->standing = standing;
    thread->history = seen_mix(thread->history, standing);
    coroutine_leave(&thread->coroutine);
    thread->standing = READY;
}

static thread_t *act(void)
{
    thread_t *thread = self();
    views_notice_stores(thread);
    return thread;
}

static void poll(thread_t *thread, uint32_t location)
{
    if (thread->polled_count < POLLED_MAX)
        thread->polled[thread->polled_count++] = (uint8_t)location;
}

static uint64_t load(uint64_t address, bool acquires)
{
    thread_t *thread = act();
    thread->location = location_at(address);
    thread->words = 1;
    poll(thread, thread->location);
    stand(thread, LOADS);
    return see(thread, thread->location, thread->chosen, acquires);
}

uint32_t views_thread(void)
{
    return self()->index;
}

uint64_t views_load(uint64_t address)
{
    return load(address, false);
}

uint64_t views_load_acquire(uint64_t address)
{
    return load(address, views.scenario->robbery != VIEWS_ACQUIRES_NOTHING);
}

void views_store(uint64_t address, uint64_t value)
{
    store(act(), location_at(address), value, STRONG);
}

void views_store_release(uint64_t address, uint64_t value)
{
    uint32_t location = location_at(address);
    const views_scenario_t *scenario = views.scenario;
    bool robbed = scenario->robbery == VIEWS_RELEASES_NOTHING &&
                  (!scenario->robbed || strcmp(scenario->robbed, views.locations[location].name) == 0);
    store(act(), location, value, robbed ? STRONG : RELEASES);
}

static uint64_t load_weak(uint64_t address, bool by_alias)
{
    thread_t *thread = act();
    uint32_t number = location_at(address);
    location_t *location = &views.locations[number];
    if (!is_known(thread, last_of(location), by_alias))
        views_fail("a load that does not come after a store to the same place");
    uint64_t value = see(thread, number, location->count - 1, false);
    use(thread, number, by_alias);
    return value;
}

static void store_weak(uint64_t address, uint64_t value, manner_t manner)
{
    uint32_t number = location_at(address);
    thread_t *thread = act();
    memcpy(views.locations[number].address, &value, views.locations[number].bytes);
    store(thread, number, value, manner);
}

uint64_t views_load_weak(uint64_t address)
{
    return load_weak(address, false);
}

void views_store_weak(uint64_t address, uint64_t value)
{
    store_weak(address, value, WEAK);
}

uint64_t views_load_alias(uint64_t address)
{
    return load_weak(address, true);
}

void views_store_alias(uint64_t address, uint64_t value)
{
    store_weak(address, value, ALIAS);
}

void views_fence_aliases(void)
{
    knowledge_t *knowledge = &act()->knowledge;
    if (views.scenario->robbery != VIEWS_ALIASES_UNFENCED)
        memcpy(knowledge->fenced, knowledge->moments, sizeof(knowledge->fenced));
}

void views_use(uint64_t address)
{
    use(self(), location_at(address), false);
}

uint64_t views_count(uint64_t address)
{
    thread_t *thread = act();
    uint32_t number = location_at(address);
    bool fenced = views.scenario->robbery != VIEWS_COUNTS_UNFENCED;
    stand(thread, COUNTS);
    uint64_t before = see(thread, number, views.locations[number].count - 1, fenced);
    store(thread, number, before + 1, fenced ? RELEASES : STRONG);
    return before;
}

/* ---- lines ---- */

void views_load_line(uint64_t line, uint32_t share, uint64_t words[2], uint64_t awaited)
{
    bool torn = views.scenario->robbery == VIEWS_LINES_TORN;
    thread_t *thread = act();
    block_t *block = &views.blocks[thread->block];
    uint32_t first = location_at(line);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t word = first + 2 * share + i;
        poll(thread, word);
        if (i == 0 || torn) {
            thread->location = torn ? word : first;
            thread->words = torn ? 1 : VIEWS_LINE_WORDS;
            stand(thread, LOADS);
        }
        words[i] = see(thread, word, thread->chosen, false);
    }
    if (torn)
        return;
    block->line = first;
    block->version = thread->chosen;
    if (views.locations[first + VIEWS_LINE_WORDS - 1].messages[thread->chosen].value != awaited)
        return;
    for (uint32_t i = 0; i < 2; i++)
        use(thread, first + 2 * share + i, false);
}

void views_store_line(uint64_t line, uint32_t share, const uint64_t words[2])
{
    thread_t *thread = act();
    block_t *block = &views.blocks[thread->block];
    uint32_t first = location_at(line);
    memcpy(&block->stored[2 * share], words, 2 * sizeof(*words));
    if (++block->parts < VIEWS_LINE_WORDS / 2)
        return;
    block->parts = 0;
    for (uint32_t i = 0; i < VIEWS_LINE_WORDS; i++)
        store(thread, first + i, block->stored[i], STRONG);
}

/* ---- barriers ---- */

/* All threads of the block stand at the barrier. */
static void part(block_t *block)
{
    thread_t *threads = &views.threads[block->first];
    knowledge_t all = threads[0].knowledge;
    block->any = false;
    for (uint32_t i = 0; i < block->count; i++) {
        learn(&all, &threads[i].knowledge);
        block->any |= threads[i].vote;
        if (strcmp(threads[i].meets_as, threads[0].meets_as) != 0)
            views_fail("threads of a block meet at different barriers");
    }
    for (uint32_t i = 0; i < block->count; i++) {
        threads[i].standing = READY;
        threads[i].history = seen_mix(threads[i].history, block->any);
        if (views.scenario->robbery != VIEWS_BARRIERS_UNORDERED)
            threads[i].knowledge = all;
    }
    block->line = NOBODY;
}

static bool is_warp(const char *kind)
{
    return strncmp(kind, "warp", strlen("warp")) == 0;
}

bool views_meet(const char *kind, bool mine)
{
    thread_t *thread = act();
    block_t *block = &views.blocks[thread->block];
    uint32_t standing = 1;
    thread->meets_as = kind;
    thread->vote = mine;
    views_tell("block %u thread %u: at a barrier, %s\n", thread->block, thread->index, kind);
    for (uint32_t i = block->first; i < block->first + block->count; i++)
        standing += views.threads[i].standing == MEETS;
    thread->standing = MEETS;
    thread->history = is_warp(kind) ? seen_mix(thread->history, MEETS) : ++thread->meetings;
    if (standing == block->count)
        part(block);
    coroutine_leave(&thread->coroutine);
    bool alone = views.scenario->robbery == VIEWS_VOTES_ALONE ||
                 (views.scenario->robbery == VIEWS_WARP_VOTES_ALONE && is_warp(kind));
    return alone ? mine : block->any;
}

/* ---- waits ----
 *
 * The first pause of a wait leaves behind what was seen before it. At every second pause from there on the
 * thread stands where it stood after the first, and waits until something that it has looked at is new.
 */

void views_pause(bool first)
{
    thread_t *thread = act();
    thread->pauses = first ? 1 : thread->pauses + 1;
    if (first) {
        thread->pause_history = seen_mix(thread->history, PAUSES);
        thread->history = thread->pause_history;
    } else if (thread->pauses % 2 == 0) {
        thread->history = seen_mix(thread->pause_history, 2);
        return;
    } else {
        thread->standing = PAUSES;
        thread->history = thread->pause_history;
        coroutine_leave(&thread->coroutine);
        thread->standing = READY;
    }
    thread->polled_count = 0;
}

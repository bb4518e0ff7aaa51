/* The walk: who can go on, and all that the future of a state depends on. */
#include "views_state.h"

#include "walk.h"

#include <stdlib.h>
#include <string.h>

static bool has_news(const thread_t *thread)
{
    for (uint32_t i = 0; i < thread->polled_count; i++) {
        uint8_t location = thread->polled[i];
        if (views.locations[location].count - 1 > thread->knowledge.seen[location])
            return true;
    }
    return false;
}

static void thread_main(void)
{
    thread_t *thread = &views.threads[views.running];
    if (thread->block == views.block_count)
        views.scenario->host_main();
    else
        views.scenario->block_main(thread->block);
    views_notice_stores(thread);
    views_tell("block %u thread %u: has ended\n", thread->block, thread->index);
    thread->standing = ENDED;
    coroutine_leave(&thread->coroutine);
}

/* Let a thread go on up to where it stands next, with its block's memory in place. */
static void go_on(thread_t *thread, void (*how)(coroutine_t *))
{
    const views_scenario_t *scenario = views.scenario;
    char *memory = views.blocks[thread->block].memory;
    views.running = (uint32_t)(thread - views.threads);
    if (thread->block < views.block_count) {
        memcpy(scenario->block_memory, memory, scenario->block_bytes);
        thread->history = seen_mix(thread->history, seen_hash(memory, scenario->block_bytes));
    }
    how(&thread->coroutine);
    if (thread->block < views.block_count)
        memcpy(memory, scenario->block_memory, scenario->block_bytes);
}

static void begin(coroutine_t *coroutine)
{
    coroutine_begin(coroutine, thread_main);
}

static void restart(void)
{
    views.location_count = 0;
    views.wrong = NULL;
    memset(views_memory, 0, sizeof(views_memory));
    memset(views.places, 0, sizeof(views.places));
    views.scenario->set_up();
    for (uint32_t i = 0; i <= views.block_count; i++) {
        block_t *block = &views.blocks[i];
        *block = (block_t){block->first, block->count, block->memory, .line = NOBODY};
        memcpy(block->memory, views.block_memory, views.scenario->block_bytes);
    }
    for (uint32_t i = 0; i < views.thread_count; i++) {
        thread_t *thread = &views.threads[i];
        *thread = (thread_t){
            .coroutine.stack = thread->coroutine.stack, .block = thread->block, .index = thread->index};
    }
    for (uint32_t i = 0; i < views.thread_count; i++)
        go_on(&views.threads[i], begin);
}

/* Bit m: message m may be what a thread that loads sees. */
static uint64_t visible(const thread_t *thread)
{
    const block_t *block = &views.blocks[thread->block];
    if (thread->words > 1 && block->line == thread->location)
        return 1ull << block->version;
    uint32_t oldest = 0;
    for (uint32_t i = thread->location; i < thread->location + thread->words; i++)
        oldest = oldest < thread->knowledge.seen[i] ? thread->knowledge.seen[i] : oldest;
    return (1ull << views.locations[thread->location].count) - (1ull << oldest);
}

/* Whether what the thread does next depends on nothing that others may still do: it goes on by itself, or it
 * looks at what nobody will store to again. */
static bool is_free(const thread_t *thread)
{
    if (thread->standing == PAUSES)
        return has_news(thread);
    const location_t *location = &views.locations[thread->location];
    return thread->standing == READY || (thread->standing == LOADS && location->count == location->most);
}

static uint64_t choices_of(const thread_t *thread)
{
    if (thread->standing == LOADS)
        return visible(thread);
    return is_free(thread) || thread->standing == COUNTS;
}

/* Choice 8t + m: thread t goes on, and sees message m if it loads. What a thread does until it stands again
 * changes nothing for those of other blocks, but that these may see more: if threads are free, those of one
 * block go first. The host only looks, which it may as well do last. */
static uint64_t choices(void)
{
    uint64_t free = 0, all = 0;
    for (uint32_t i = 0, block = NOBODY; !views.wrong && i < views.thread_count; i++) {
        const thread_t *thread = &views.threads[i];
        if ((all | free) && thread->block == views.block_count)
            break;
        block = is_free(thread) && block == NOBODY ? thread->block : block;
        all |= choices_of(thread) << 8 * i;
        free |= is_free(thread) && block == thread->block ? choices_of(thread) << 8 * i : 0;
    }
    return free ? free : all;
}

static void take(uint32_t choice)
{
    thread_t *thread = &views.threads[choice / 8];
    thread->chosen = choice % 8;
    go_on(thread, coroutine_enter);
}

static uint64_t state_hash(void)
{
    uint64_t hash = views.wrong != NULL;
    for (uint32_t i = 0; i < views.thread_count; i++) {
        const thread_t *thread = &views.threads[i];
        hash = seen_mix(hash, thread->history + thread->standing);
        hash = seen_mix(hash, seen_hash(&thread->knowledge, sizeof(thread->knowledge)));
    }
    for (uint32_t i = 0; i < views.location_count; i++) {
        const location_t *location = &views.locations[i];
        hash = seen_mix(hash, last_of(location)->hash + location->count);
        hash = seen_mix(hash, seen_hash(location->used, sizeof(location->used)));
        hash = seen_mix(hash, seen_hash(location->used_by_alias, sizeof(location->used_by_alias)));
        for (uint32_t j = 0; j + 1 < location->count; j++)
            hash = seen_mix(hash, location->messages[j].hash);
    }
    for (uint32_t i = 0; i < views.block_count; i++) {
        const block_t *block = &views.blocks[i];
        hash = seen_mix(hash, seen_hash(block->memory, views.scenario->block_bytes));
        hash = seen_mix(hash, block->line * 64u + block->version * 8u + block->parts);
        hash = seen_mix(hash, seen_hash(block->stored, sizeof(block->stored)));
    }
    return hash;
}

static bool is_wrong(bool end)
{
    for (uint32_t i = 0; end && i < views.thread_count; i++) {
        if (!views.wrong && views.threads[i].standing != ENDED)
            views.wrong = "nobody can go on, and not all have ended";
    }
    return views.wrong;
}

static const walk_world_t WORLD = {restart, choices, take, state_hash, is_wrong};

static void *must_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    return memory;
}

static void prepare(const views_scenario_t *scenario)
{
    views = (struct views){.scenario = scenario, .block_count = scenario->block_count};
    views.block_memory = must_alloc(scenario->block_bytes);
    memcpy(views.block_memory, scenario->block_memory, scenario->block_bytes);
    for (uint32_t i = 0; i <= scenario->block_count; i++) {
        uint32_t count = i < scenario->block_count ? scenario->block_threads : 1;
        views.blocks[i] = (block_t){.first = views.thread_count, .count = count};
        views.blocks[i].memory = must_alloc(scenario->block_bytes);
        for (uint32_t j = 0; j < count; j++) {
            thread_t *thread = &views.threads[views.thread_count++];
            *thread = (thread_t){.block = i, .index = j};
            thread->coroutine.stack = must_alloc(COROUTINE_STACK_BYTES);
        }
    }
}

void views_walk(const views_scenario_t *scenario, views_result_t *result)
{
    static walk_result_t walked;
    prepare(scenario);
    walk(&WORLD, &walked);
    *result = (views_result_t){.states = walked.states, .runs = walked.runs, .ends = walked.ends};
    views.trace = (story_t){.text = result->trace, .bytes = sizeof(result->trace)};
    if (walked.wrong) {
        walk_again(&WORLD, &walked);
        is_wrong(true);
        result->wrong = views.wrong;
    }
    for (uint32_t i = 0; i <= views.block_count; i++)
        free(views.blocks[i].memory);
    for (uint32_t i = 0; i < views.thread_count; i++)
        free(views.threads[i].coroutine.stack);
    free(views.block_memory);
}

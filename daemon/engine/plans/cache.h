/*
 * Programs by what they are for, and by when they were last asked for.
 */
#ifndef BLINK_ENGINE_CACHE_H
#define BLINK_ENGINE_CACHE_H

#include "engine/plans/plans.h"

/* What the op's program is for. `nodes` is room for those of a pair. */
plan_key_t plan_key_of(const comm_op_t *op, uint32_t nodes[2]);

/* What a program of the communicator is for, which another host asks for. Errors: PROTOCOL (the communicator
 * has no such op). */
blink_result_t plan_key_of_word(const engine_comm_t *comm, const plan_word_t *word, plan_key_t *key);

/* The host that makes the plan: of a transfer the source's, else that of rank 0. All hosts know it, it takes
 * part in every op of the key, and communicators end when it is lost. */
uint32_t plan_key_host(const plan_key_t *key);

/* The same on all hosts of a fabric, and different for different keys but for one case in 2^64. */
uint64_t plan_key_digest(const plan_key_t *key);

/* NULL: there is none. */
cached_program_t *cache_find(plan_cache_t *cache, const plan_key_t *key, uint64_t digest);

/* One that can be shipped to other hosts; NULL: there is none. */
cached_program_t *cache_find_shipped(plan_cache_t *cache, uint64_t digest);

/* Without its program. NULL: no memory. */
cached_program_t *cache_add(engine_t *engine, const plan_key_t *key, uint64_t digest);

/* The program is there, or has more bytes than it had. */
void cache_count(plan_cache_t *cache, cached_program_t *cached, uint64_t bytes);

void cache_remove(plan_cache_t *cache, cached_program_t *cached);

/* Remove the oldest that nothing runs and nobody waits for, until the rest is no more than the settings say.
 */
void cache_trim(engine_t *engine);

#endif

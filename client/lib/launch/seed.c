/* Environment and descriptors that a launcher hands to a process are the process's, and some exchanges can
 * be had once: so the seed is the process's too, and neither a context's nor a thread's. */
#include "launch/seed.h"

#include "base/clock.h"
#include "base/table.h"
#include "launch/exchange.h"
#include "launch/home.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Under the lock. */
static struct {
    pthread_mutex_t lock;
    bool is_shared, is_left; /* the seed is there; rank 0 has left something for others */
    uint64_t count;          /* of the communicators that were asked for */
    unique_id_t id;
} seed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- numbers from texts ---- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t byte_count)
{
    for (size_t i = 0; i < byte_count; i++)
        hash = table_hash(table_hash(hash) ^ ((const uint8_t *)bytes)[i]);
    return hash;
}

/* Two numbers that are the same on all hosts, and others for other bytes but for an accident that nobody will
 * see. Nobody need be kept from guessing them: gatherings are kept apart by user. */
static void digest(const void *bytes, size_t byte_count, uint8_t nonce[16])
{
    const uint64_t numbers[2] = {mix(1, bytes, byte_count), mix(2, bytes, byte_count)};
    static_assert(sizeof(numbers) == sizeof(((unique_id_t *)NULL)->nonce), "two numbers make a nonce");
    memcpy(nonce, numbers, sizeof(numbers));
}

/* Users who name their jobs alike have different ids. Ranks that have been told different numbers of ranks
 * have the same one, so that they meet and hear of that. */
static void name_job(const launch_t *launch, unique_id_t *id)
{
    struct {
        uint32_t uid;
        char job[LAUNCH_TEXT_BYTES];
    } named = {.uid = geteuid()};
    memcpy(named.job, launch->job, sizeof(named.job));
    digest(&named, sizeof(named), id->nonce);
}

static void name_comm(uint64_t number, blink_unique_id_t *id)
{
    unique_id_t own = seed.id;
    struct {
        uint64_t number;
        uint8_t nonce[16];
    } named = {.number = number};
    memcpy(named.nonce, seed.id.nonce, sizeof(named.nonce));
    digest(&named, sizeof(named), own.nonce);
    memcpy(id->bytes, &own, sizeof(own));
}

/* ---- ways ---- */

/* Rank 0's daemon makes the id, the others get it. */
static blink_result_t hand_over(blink_context_t *context, const launch_t *launch, unsigned int timeout_ms,
                                exchange_t *exchange)
{
    char text[UNIQUE_ID_TEXT_BYTES] = "";
    unique_id_t made = context->home;
    if (launch->rank == 0) {
        if (getrandom(made.nonce, sizeof(made.nonce), 0) != (ssize_t)sizeof(made.nonce))
            return BLINK_FAIL(BLINK_ERR_SYSTEM, "getrandom gave fewer than %zu bytes", sizeof(made.nonce));
        unique_id_write(&made, text);
    }
    BLINK_TRY(exchange(launch, clock_ns() + timeout_ms * UINT64_C(1000000), text));
    return unique_id_parse(text, launch->launcher, &seed.id);
}

static blink_result_t share(blink_context_t *context, const launch_t *launch, unsigned int timeout_ms)
{
    seed.id = (unique_id_t){.version = UNIQUE_ID_VERSION};
    switch (launch->way) {
    case LAUNCH_ID:
        return unique_id_parse(launch->where, "BLINK_UNIQUE_ID", &seed.id);
    case LAUNCH_HERE:
        name_job(launch, &seed.id);
        return BLINK_OK;
    case LAUNCH_HOST:
        BLINK_TRY(home_find(context, launch->where, &seed.id));
        name_job(launch, &seed.id);
        return BLINK_OK;
    case LAUNCH_FILE:
        return hand_over(context, launch, timeout_ms, exchange_by_file);
    case LAUNCH_STORE:
        return hand_over(context, launch, timeout_ms, exchange_by_store);
    case LAUNCH_PMI:
        return hand_over(context, launch, timeout_ms, exchange_by_pmi);
    case LAUNCH_PMIX:
        return hand_over(context, launch, timeout_ms, exchange_by_pmix);
    }
    return BLINK_FAIL(BLINK_ERR_INTERNAL, "way %d", (int)launch->way);
}

blink_result_t seed_next(blink_context_t *context, const launch_t *launch, unsigned int timeout_ms,
                         blink_unique_id_t *id)
{
    blink_result_t result = BLINK_OK;
    pthread_mutex_lock(&seed.lock);
    uint64_t number = seed.count++;
    if (!seed.is_shared) {
        result = share(context, launch, timeout_ms);
        seed.is_shared = seed.is_left = result == BLINK_OK;
    }
    if (result == BLINK_OK)
        name_comm(number, id);
    pthread_mutex_unlock(&seed.lock);
    return result;
}

void seed_settled(const launch_t *launch)
{
    pthread_mutex_lock(&seed.lock);
    bool is_left = seed.is_left && launch->rank == 0;
    seed.is_left = false;
    pthread_mutex_unlock(&seed.lock);
    if (is_left && launch->way == LAUNCH_FILE)
        exchange_forget_file(launch);
    if (is_left && launch->way == LAUNCH_STORE)
        exchange_forget_store(launch);
}

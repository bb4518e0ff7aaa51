/* What the scenarios of blink-api share: one rank's player, and expectations that end it. */
#ifndef API_H
#define API_H

#include <blink/blink.h>
#include <stdint.h>

typedef struct player {
    int rank, rank_count;
    blink_unique_id_t id;
    blink_context_t *context;
    blink_comm_t *comm;
} player_t;

typedef struct scenario {
    const char *name;
    void (*play)(const player_t *player);
    bool joins; /* the communicator is made and destroyed around it */
} scenario_t;

/* In uneven.c. */
void play_all_to_all_v(const player_t *player);
void play_uneven_blocks(const player_t *player);
void play_uneven_blocks_in_a_group(const player_t *player);
void play_uneven_blocks_that_disagree(const player_t *player);

const scenario_t *scenario_find(const char *name);

void fail(const player_t *player, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void must(const player_t *player, blink_result_t result, const char *what);
void must_fail(const player_t *player, blink_result_t result, blink_result_t expected, const char *text,
               const char *what);
void must_wait(const player_t *player, blink_op_t *op, const char *what);

/* Registered memory of so many int32, freed with the context. */
int32_t *memory(const player_t *player, size_t count);

/* first, first + 1, … */
void fill(int32_t *buffer, size_t count, int32_t first);
void must_hold(const player_t *player, const int32_t *buffer, size_t count, int32_t first, const char *what);

#endif

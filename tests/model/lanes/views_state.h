/* What views.c and views_walk.c share: the state that is walked through. */
#ifndef VIEWS_STATE_H
#define VIEWS_STATE_H

#include "views.h"

#include "coroutine.h"
#include "seen.h"
#include "story.h"

#define MESSAGES_MAX 8u /* that a location ever holds */
#define POLLED_MAX   64u
#define NOBODY       UINT8_MAX

/* What a thread knows: of each thread how many of its moments lie before this one, and how many before a
 * fence between aliases that does, and of each location the oldest value that may still be seen. */
typedef struct knowledge {
    uint8_t moments[VIEWS_THREADS_MAX];
    uint8_t fenced[VIEWS_THREADS_MAX];
    uint8_t seen[VIEWS_LOCATIONS_MAX];
} knowledge_t;

/* A value that was stored. */
typedef struct message {
    uint64_t value;
    uint64_t hash;
    uint8_t writer, moment; /* of the writer; NOBODY: it was there in the beginning */
    bool releases, by_alias;
    knowledge_t knowledge; /* of the writer */
} message_t;

typedef struct location {
    const char *name;
    uint32_t number, bytes;
    char *address;
    bool is_expected; /* nothing but this is to be stored here: */
    uint64_t expected;
    message_t messages[MESSAGES_MAX];
    uint32_t count, most;                  /* most: that there will be */
    uint8_t used[VIEWS_THREADS_MAX];       /* the moment of each thread's last load that it has used, … */
    bool used_by_alias[VIEWS_THREADS_MAX]; /* … and by which address */
} location_t;

typedef enum {
    READY,  /* goes on by itself */
    LOADS,  /* chooses what it sees at a location, or a line */
    COUNTS, /* one after the other */
    MEETS,  /* waits for its block */
    PAUSES, /* waits for news */
    ENDED,
} standing_t;

typedef struct thread {
    coroutine_t coroutine;
    uint32_t block, index; /* in the block */
    standing_t standing;
    knowledge_t knowledge;
    uint64_t history;                 /* hash of what it has read and how far it has come since … */
    uint64_t meetings;                /* … so many barriers of its block */
    uint32_t location, words, chosen; /* of a load */
    uint32_t pauses;                  /* of one wait */
    uint64_t pause_history;
    uint8_t polled[POLLED_MAX]; /* locations looked at since the last pause */
    uint32_t polled_count;
    const char *meets_as;
    bool vote;
} thread_t;

typedef struct block {
    uint32_t first, count; /* threads */
    char *memory;
    bool any;               /* what the last vote has said */
    uint32_t line, version; /* that the warp loads; line is NOBODY before the first of its threads has */
    uint32_t parts;         /* of a line that have been stored */
    uint64_t stored[VIEWS_LINE_WORDS];
} block_t;

extern struct views {
    const views_scenario_t *scenario;
    thread_t threads[VIEWS_THREADS_MAX];
    block_t blocks[VIEWS_BLOCKS_MAX + 1]; /* the last one is the host's */
    uint32_t thread_count, block_count, running;
    location_t locations[VIEWS_LOCATIONS_MAX];
    uint32_t location_count;
    uint8_t places[VIEWS_MEMORY_BYTES / 4]; /* 1 + the location there; 0: none */
    char *block_memory;                     /* as it begins */
    const char *wrong;
    story_t trace;
} views;

static inline const message_t *last_of(const location_t *location)
{
    return &location->messages[location->count - 1];
}

/** A line of the trace, while one is told. */
void views_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The stores to expected places that the code has made by itself since the thread's last operation. */
void views_notice_stores(thread_t *thread);

#endif

/*
 * How long no plans by multicast are made after the driver has refused memory that a switch reaches. What it
 * lacks may be there again later (a switch has room for 128 objects, which other programs take, too), and
 * each attempt keeps the thread that launches from other runs: so the pause is a minute, and from refusal to
 * refusal twice as long, up to an hour. What ends that growth is as much memory, on the GPUs that were
 * refused it, once the pause is over: other GPUs, and less memory, say nothing of what was lacking, nor does
 * what was asked for before the refusal and comes behind it.
 */
#ifndef BLINK_EXEC_CUDA_SWITCH_PAUSE_H
#define BLINK_EXEC_CUDA_SWITCH_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define SWITCH_PAUSE_LEAST_US (UINT64_C(60) * 1000000)
#define SWITCH_PAUSE_MOST_US  (UINT64_C(3600) * 1000000)

/* Zeros: there is none. */
typedef struct switch_pause {
    uint64_t until_us; /* of clock_us() */
    uint64_t us;       /* the latest; 0: what was refused last could be had since */
    uint32_t gpus;     /* what was refused last: the GPUs, as a mask … */
    uint64_t bytes;    /* … and how much on each */
} switch_pause_t;

static inline bool switch_pause_holds(const switch_pause_t *pause, uint64_t now_us)
{
    return now_us < pause->until_us;
}

/* So many bytes on each of these GPUs were refused. One refusal of several that were asked for together
 * counts. */
static inline void switch_pause_begin(switch_pause_t *pause, uint64_t now_us, uint32_t gpus, uint64_t bytes)
{
    if (switch_pause_holds(pause, now_us))
        return;
    uint64_t longer_us = pause->us == 0 ? SWITCH_PAUSE_LEAST_US : 2 * pause->us;
    pause->us = longer_us < SWITCH_PAUSE_MOST_US ? longer_us : SWITCH_PAUSE_MOST_US;
    pause->until_us = now_us + pause->us;
    pause->gpus = gpus;
    pause->bytes = bytes;
}

/* So many bytes on each of these GPUs could be had. */
static inline void switch_pause_note_success(switch_pause_t *pause, uint64_t now_us, uint32_t gpus,
                                             uint64_t bytes)
{
    if (!switch_pause_holds(pause, now_us) && (pause->gpus & ~gpus) == 0 && pause->bytes <= bytes)
        *pause = (switch_pause_t){0};
}

#endif

#include "ranks/schedule.h"

#include "base/clock.h"
#include "names.h"
#include "tools/human.h"

#include <stdio.h>

#define LONG_S 10.0

/* A measurement that is shorter than this may be all latency, and says little about larger sizes. */
#define TELLING_S 1.0

#define NS_PER_S 1e9
#define US_PER_S 1e6

uint64_t perf_unit_bytes(const perf_options_t *options, blink_datatype_t datatype)
{
    return (uint64_t)blink_datatype_bytes(datatype) *
           perf_collective_blocks(options->collective, options->rank_count);
}

bool perf_next_size(const perf_options_t *options, uint64_t unit_bytes, uint64_t *bytes)
{
    uint64_t most = options->max_bytes, next;
    if (!perf_collective_moves(options->collective))
        return false;
    if (options->step_bytes > 0) {
        if (*bytes > most || options->step_bytes > most - *bytes)
            return false;
        next = *bytes + options->step_bytes;
    } else {
        if (*bytes > most / options->step_factor)
            return false;
        next = *bytes == 0 ? unit_bytes : *bytes * options->step_factor;
    }
    if (next > most)
        return false;
    *bytes = next;
    return true;
}

static uint32_t placement_count(const perf_options_t *options)
{
    return (uint32_t)options->placements[0] + (uint32_t)options->placements[1];
}

perf_schedule_t perf_schedule_begin(const perf_options_t *options)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < options->datatype_count; i++) {
        uint64_t bytes = options->min_bytes;
        do
            count++;
        while (perf_next_size(options, perf_unit_bytes(options, options->datatypes[i]), &bytes));
    }
    return (perf_schedule_t){.options = options,
                             .start_ns = clock_ns(),
                             .left = count * options->redop_count * placement_count(options)};
}

/* What is left of this type and operator, as if time grew with the size. */
static double seconds_left(const perf_schedule_t *schedule, uint64_t bytes, uint64_t unit_bytes,
                           double this_s)
{
    double sizes = 1.0, from = bytes > 0 ? (double)bytes : 1.0;
    while (perf_next_size(schedule->options, unit_bytes, &bytes))
        sizes += (double)bytes / from;
    return this_s * sizes * placement_count(schedule->options);
}

static void say_if_long(perf_schedule_t *schedule, uint64_t bytes, uint64_t unit_bytes, double this_s)
{
    char text[HUMAN_BYTES];
    double left_s = seconds_left(schedule, bytes, unit_bytes, this_s);
    if (schedule->has_said || schedule->options->seconds > 0 || this_s < TELLING_S || left_s < LONG_S)
        return;
    schedule->has_said = true;
    fprintf(stderr, "blink-perf: the sizes from here on take about %s; --seconds S bounds a run\n",
            human_duration(left_s, text));
}

uint32_t perf_schedule_iterations(perf_schedule_t *schedule, uint64_t bytes, uint64_t unit_bytes,
                                  double first_us)
{
    const perf_options_t *options = schedule->options;
    double iterations = options->iterations;
    if (options->seconds > 0) {
        double gone_s = (double)(clock_ns() - schedule->start_ns) / NS_PER_S;
        double share_s = (options->seconds - gone_s) / (schedule->left > 0 ? schedule->left : 1);
        double fit = 1.0 + share_s * US_PER_S / first_us;
        iterations = fit < 1.0 ? 1.0 : fit < iterations ? fit : iterations;
    }
    schedule->left -= schedule->left > 0 ? 1 : 0;
    say_if_long(schedule, bytes, unit_bytes, iterations * first_us / US_PER_S);
    return (uint32_t)iterations;
}

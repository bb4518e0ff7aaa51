/* The state machine of engine/chunk_control.h. Its own file because it knows neither plans nor models: only a
 * size and how fast it was. */
#include "engine/chunk_control.h"

#include "error.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#define TOLERANCE        0.02 /* of throughput: less is noise */
#define CHANGE           0.10 /* of a held chunk's throughput: more is news */
#define STEPS_OF_A_CHUNK 16u
#define UNIT_BYTES       CHUNK_CONTROL_UNIT_BYTES

static uint64_t round_down(uint64_t bytes)
{
    return bytes / UNIT_BYTES * UNIT_BYTES;
}

static uint64_t clamp(const chunk_control_t *control, uint64_t bytes)
{
    if (bytes < control->min_bytes)
        return control->min_bytes;
    return bytes > control->max_bytes ? control->max_bytes : round_down(bytes);
}

blink_result_t chunk_control_init(chunk_control_t *control, uint64_t start_bytes, uint64_t min_bytes,
                                  uint64_t max_bytes)
{
    uint64_t least = min_bytes > 0 ? (min_bytes - 1) / UNIT_BYTES * UNIT_BYTES + UNIT_BYTES : UNIT_BYTES;
    if (least < min_bytes || least > round_down(max_bytes))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT,
                          "no multiple of %u bytes from %" PRIu64 " to %" PRIu64 " for a chunk", UNIT_BYTES,
                          min_bytes, max_bytes);
    *control = (chunk_control_t){.min_bytes = least, .max_bytes = round_down(max_bytes)};
    control->chunk_bytes = clamp(control, start_bytes);
    return BLINK_OK;
}

static void climb(chunk_control_t *control)
{
    uint64_t chunk_bytes = control->chunk_bytes;
    control->phase = CHUNK_CLIMB;
    control->chunk_bytes =
        clamp(control, chunk_bytes > control->max_bytes / 2 ? control->max_bytes : 2 * chunk_bytes);
}

/* One step down; at the least chunk there is nothing left to try. */
static void descend(chunk_control_t *control)
{
    bool at_end = control->chunk_bytes <= control->min_bytes;
    uint64_t room_bytes = control->chunk_bytes - control->min_bytes;
    control->phase = at_end ? CHUNK_SETTLE : CHUNK_DESCEND;
    control->previous_bytes = control->chunk_bytes;
    control->chunk_bytes -= control->step_bytes < room_bytes ? control->step_bytes : room_bytes;
}

static void begin_descent(chunk_control_t *control)
{
    uint64_t step_bytes = round_down(control->chunk_bytes / STEPS_OF_A_CHUNK);
    control->step_bytes = step_bytes > UNIT_BYTES ? step_bytes : UNIT_BYTES;
    descend(control);
}

static void after_climb(chunk_control_t *control, double measured_GBps)
{
    bool grew = measured_GBps > control->best_GBps * (1.0 + TOLERANCE);
    control->best_GBps = measured_GBps;
    if (grew && control->chunk_bytes < control->max_bytes)
        climb(control);
    else
        begin_descent(control);
}

static void after_descent(chunk_control_t *control, double measured_GBps)
{
    control->best_GBps = fmax(control->best_GBps, measured_GBps);
    if (measured_GBps >= control->best_GBps * (1.0 - TOLERANCE)) {
        descend(control);
        return;
    }
    control->chunk_bytes = control->previous_bytes;
    control->phase = CHUNK_SETTLE;
}

uint64_t chunk_control_next(chunk_control_t *control, double measured_GBps)
{
    if (!(measured_GBps > 0.0 && isfinite(measured_GBps)))
        return control->chunk_bytes;
    switch (control->phase) {
    case CHUNK_START:
        control->best_GBps = measured_GBps;
        climb(control);
        break;
    case CHUNK_CLIMB:
        after_climb(control, measured_GBps);
        break;
    case CHUNK_DESCEND:
        after_descent(control, measured_GBps);
        break;
    case CHUNK_SETTLE:
        control->best_GBps = measured_GBps;
        control->phase = CHUNK_HOLD;
        break;
    case CHUNK_HOLD:
        if (fabs(measured_GBps - control->best_GBps) > CHANGE * control->best_GBps) {
            control->best_GBps = measured_GBps;
            climb(control);
        }
        break;
    }
    return control->chunk_bytes;
}

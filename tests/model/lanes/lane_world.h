/* Small programs of lanes, run by the interpreter of kernels/ over the memory of views.h. */
#ifndef LANE_WORLD_H
#define LANE_WORLD_H

#include "views.h"

#include "blink/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lane_shape {
    LANE_CHAIN,    /* rank 0's input goes from rank to rank, and into the output of each but rank 0 */
    LANE_MEETING,  /* the last rank adds the inputs of all */
    LANE_EXCHANGE, /* two ranks, each of which sends its input and adds the other's to it */
    LANE_SWITCHED, /* two ranks, whose inputs a switch adds, and copies the sum to both */
} lane_shape_t;

typedef struct lane_world {
    lane_shape_t shape;
    blink_protocol_t protocol;
    uint32_t ranks, chunks, slots;
    bool may_abort;  /* at any moment */
    bool lacks_last; /* the last rank's lane does nothing, and all others end only with an abort */
    views_robbery_t robbery;
    const char *robbed;
} lane_world_t;

/** Whether a value goes where it does not belong, somebody is stuck, or, if nobody aborts, a result is not
 * there when the host hears that the run is over. */
void lane_world_walk(const lane_world_t *world, views_result_t *result);

#ifdef __cplusplus
}
#endif
#endif

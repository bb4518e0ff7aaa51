/*
 * From the facts to a topology: which GPUs there are, which bridges branch, what each link can move. Pure, so
 * that a test can try any machine without having it.
 */
#ifndef BLINK_TOPO_DETECT_BUILD_H
#define BLINK_TOPO_DETECT_BUILD_H

#include "topo/detect/detect_facts.h"
#include "topo/topo.h"

/* *topo and errors are those of topo_detect(). */
blink_result_t detect_build(const detect_facts_t *facts, topo_t **topo);

#endif

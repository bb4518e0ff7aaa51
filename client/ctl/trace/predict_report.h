/* A prediction on standard output, beside what was recorded. */
#ifndef CTL_TRACE_PREDICT_REPORT_H
#define CTL_TRACE_PREDICT_REPORT_H

#include "ctl/trace/predict.h"

/** `topology`: the name of the one that is predicted on. Errors: NO_MEMORY. */
blink_result_t predict_print_table(const trace_t *trace, const prediction_t *prediction,
                                   const char *topology);
blink_result_t predict_print_json(const trace_t *trace, const prediction_t *prediction, const char *topology);

#endif

/*
 * The spelling of every public enumerator, for command lines, messages and files. One table serves the
 * daemon, the client library and the tools.
 */
#ifndef BLINK_NAMES_H
#define BLINK_NAMES_H

#include "blink/types.h"

#include <stdbool.h>

/** Lower-case name ("float32", "sum", "allreduce", "trees", "PEER_LOST"); "unknown" for a value outside the
 * enum. */
const char *blink_name_datatype(uint32_t value);
const char *blink_name_redop(uint32_t value);
const char *blink_name_collective(uint32_t value);
const char *blink_name_algorithm(uint32_t value);
const char *blink_name_protocol(uint32_t value);
const char *blink_name_result(uint32_t value);

/** The name of a result's constant, "BLINK_ERR_PEER_LOST"; NULL for a value outside the enum. */
const char *blink_name_result_constant(uint32_t value);

/** Whether two names are the same but for case, '-' and '_': "all_reduce" is "allreduce". */
bool blink_names_match(const char *one, const char *other);

/** Parse a name, which matches as blink_names_match() says; false (and *value untouched) if it names nothing.
 * Also accepted are C's, nccl-tests' and frameworks' names: "half", "float", "double", "int", "f8e4m3",
 * "f8e5m2", "fp16", "bf16", "fp32", "fp64", "mulsum". */
bool blink_parse_datatype(const char *name, blink_datatype_t *value);
bool blink_parse_redop(const char *name, blink_redop_t *value);
bool blink_parse_collective(const char *name, blink_collective_t *value);
bool blink_parse_algorithm(const char *name, blink_algorithm_t *value);
bool blink_parse_protocol(const char *name, blink_protocol_t *value);

/** Bytes of one element; 0 for a value outside the enum. libblinkclient exports it (blink.h). */
__attribute__((visibility("default"))) uint32_t blink_datatype_bytes(uint32_t value);

/** Whether the value is an enumerator. */
bool blink_redop_valid(uint32_t value);
bool blink_algorithm_valid(uint32_t value);
bool blink_protocol_valid(uint32_t value);

#endif

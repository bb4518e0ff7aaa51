/*
 * Arguments of options, the same in blinkctl, blink-perf and blinkrun. Each call takes one apart or, if it is
 * wrong, says by argp_error() what is wrong, what would be right and what may have been meant, and exits.
 * `option` is how the option is called in that sentence: "--ranks".
 */
#ifndef BLINK_TOOLS_ARGUMENTS_H
#define BLINK_TOOLS_ARGUMENTS_H

#include "blink/types.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* What an option that takes one of them lists. */
#define ARGUMENT_COLLECTIVES                                                                                 \
    "allreduce, broadcast, reduce, allgather, reducescatter, gather, scatter, alltoall or sendrecv"
#define ARGUMENT_ALGORITHMS                                                                                  \
    "auto, trees, shallow-trees, ring, double-binary-tree, blink, one-hop, binomial, recursive-doubling or " \
    "multicast"

/** The next word of the command line, if it fits, for an option that need not have an argument: "--pace 0.1"
 * is then as "--pace=0.1". It is taken; NULL: it is not there, or does not fit. */
char *argument_next_word(struct argp_state *state, bool (*fits)(const char *word));

/** Whether a word is a number above 0. */
bool argument_is_positive(const char *word);

/** A number from `least` to `most`. */
uint64_t argument_number(struct argp_state *state, const char *option, const char *text, uint64_t least,
                         uint64_t most);

/** A size of at least so many bytes (value.h says how sizes are written). */
uint64_t argument_bytes(struct argp_state *state, const char *option, const char *text, uint64_t least);

/** Seconds from `least`, which is above 0, to a million. */
double argument_seconds(struct argp_state *state, const char *option, const char *text, double least);

/** Numbers and ranges of them with commas between them, as 0-3,6: at most `most`. Returns how many. */
uint32_t argument_numbers(struct argp_state *state, const char *option, const char *list, uint32_t most,
                          uint32_t *numbers);

/** The number of a live communicator. */
uint32_t argument_comm(struct argp_state *state, const char *option, const char *text);

blink_collective_t argument_collective(struct argp_state *state, const char *option, const char *text);
blink_algorithm_t argument_algorithm(struct argp_state *state, const char *option, const char *text);
blink_protocol_t argument_protocol(struct argp_state *state, const char *option, const char *text);

/** One of the words of a list that ends with NULL. Returns its index. */
uint32_t argument_word(struct argp_state *state, const char *option, const char *text,
                       const char *const *words);

#endif

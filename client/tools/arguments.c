#include "tools/arguments.h"

#include "base/near.h"
#include "base/value.h"
#include "names.h"

#include <float.h>
#include <string.h>

#define SECONDS_MOST 1e6

/* Of the words that are right, in a sentence. */
#define WORDS_BYTES 256

char *argument_next_word(struct argp_state *state, bool (*fits)(const char *word))
{
    if (state->next >= state->argc || !fits(state->argv[state->next]))
        return NULL;
    return state->argv[state->next++];
}

bool argument_is_positive(const char *word)
{
    double number;
    return value_parse_positive(word, DBL_MAX, &number);
}

uint64_t argument_number(struct argp_state *state, const char *option, const char *text, uint64_t least,
                         uint64_t most)
{
    uint64_t number = 0;
    if (!value_parse_number(text, most, &number) || number < least)
        argp_error(state, "%s %s: a number from %llu to %llu", option, text, (unsigned long long)least,
                   (unsigned long long)most);
    return number;
}

uint64_t argument_bytes(struct argp_state *state, const char *option, const char *text, uint64_t least)
{
    uint64_t bytes = 0;
    if (!value_parse_bytes(text, &bytes))
        argp_error(state, "%s %s: " VALUE_BYTES_EXAMPLES, option, text);
    if (bytes < least)
        argp_error(state, "%s %s: at least %llu", option, text, (unsigned long long)least);
    return bytes;
}

double argument_seconds(struct argp_state *state, const char *option, const char *text, double least)
{
    double seconds = 0;
    if (!value_parse_positive(text, SECONDS_MOST, &seconds) || seconds < least)
        argp_error(state, "%s %s: seconds, from %g to %g", option, text, least, SECONDS_MOST);
    return seconds;
}

uint32_t argument_numbers(struct argp_state *state, const char *option, const char *list, uint32_t most,
                          uint32_t *numbers)
{
    char item[VALUE_ITEM_BYTES];
    uint32_t count = 0;
    for (const char *rest = list; value_next_item(&rest, item);) {
        uint32_t first = 0, last = 0;
        if (!value_parse_range(item, INT32_MAX, &first, &last))
            argp_error(state, "%s %s: numbers and ranges with commas between them, such as 0-3,6", option,
                       list);
        for (uint32_t number = first;; number += last > first ? 1 : UINT32_MAX) {
            if (count == most)
                argp_error(state, "%s %s: more than %u", option, list, most);
            numbers[count++] = number;
            if (number == last)
                break;
        }
    }
    return count;
}

uint32_t argument_comm(struct argp_state *state, const char *option, const char *text)
{
    uint64_t comm = 0;
    if (!value_parse_number(text, UINT32_MAX, &comm) || comm == 0)
        argp_error(state, "%s %s: the number of a communicator, as blinkctl comms shows it", option, text);
    return (uint32_t)comm;
}

/* The sentence about a name that is none. */
static void refuse(struct argp_state *state, const char *option, const char *text, const near_t *near,
                   const char *known)
{
    char hint[NEAR_HINT_BYTES];
    argp_error(state, "%s %s: there is no \"%s\"%s; it may be %s", option, text, text, near_hint(near, hint),
               known);
}

/* Refuse a name unless it was found to be one. */
static void require(struct argp_state *state, const char *option, const char *text, bool is_one,
                    const char *(*name_of)(uint32_t value), const char *known)
{
    near_t near = near_begin(text);
    if (is_one)
        return;
    near_try_values(&near, name_of);
    refuse(state, option, text, &near, known);
}

blink_collective_t argument_collective(struct argp_state *state, const char *option, const char *text)
{
    blink_collective_t collective = BLINK_ALLREDUCE;
    require(state, option, text, blink_parse_collective(text, &collective), blink_name_collective,
            ARGUMENT_COLLECTIVES);
    return collective;
}

blink_algorithm_t argument_algorithm(struct argp_state *state, const char *option, const char *text)
{
    blink_algorithm_t algorithm = BLINK_ALGORITHM_AUTO;
    require(state, option, text, blink_parse_algorithm(text, &algorithm), blink_name_algorithm,
            ARGUMENT_ALGORITHMS);
    return algorithm;
}

blink_protocol_t argument_protocol(struct argp_state *state, const char *option, const char *text)
{
    blink_protocol_t protocol = BLINK_PROTOCOL_SIMPLE;
    require(state, option, text, blink_parse_protocol(text, &protocol), blink_name_protocol,
            "simple, ll or ll128");
    return protocol;
}

uint32_t argument_word(struct argp_state *state, const char *option, const char *text,
                       const char *const *words)
{
    char known[WORDS_BYTES] = "";
    near_t near = near_begin(text);
    uint32_t i = 0;
    for (char *end = known; words[i]; i++) {
        if (blink_names_match(words[i], text))
            return i;
        near_try(&near, words[i]);
        size_t left = sizeof(known) - (size_t)(end - known);
        if (left > strlen(words[i]) + sizeof(" or "))
            end = stpcpy(stpcpy(end, i == 0 ? "" : words[i + 1] ? ", " : " or "), words[i]);
    }
    refuse(state, option, text, &near, known);
    return 0;
}

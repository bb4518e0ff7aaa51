#include "base/command_line.h"

#include "base/near.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 128 /* of a program; argp says itself what it finds wrong where one has more */

/* What getopt_long() is told of an argp and its children. */
typedef struct known {
    struct option named[OPTIONS_MAX + 1];
    bool is_hidden[OPTIONS_MAX];
    uint32_t count;
    int wants; /* the last option that is no alias: no argument, one, or perhaps one */
    char letters[3 * OPTIONS_MAX + 2];
    char *letters_end;
} known_t;

static void add_option(known_t *known, const struct argp_option *option)
{
    if (option->flags & OPTION_DOC || known->count == OPTIONS_MAX)
        return;
    if (!(option->flags & OPTION_ALIAS))
        known->wants = !option->arg                          ? no_argument
                       : option->flags & OPTION_ARG_OPTIONAL ? optional_argument
                                                             : required_argument;
    bool fits = known->letters_end + 3 < known->letters + sizeof(known->letters);
    if (fits && option->key > 0 && option->key <= UCHAR_MAX && isprint(option->key)) {
        *known->letters_end++ = (char)option->key;
        for (int colon = 0; colon < known->wants; colon++) /* none, one, or two where it need not be there */
            *known->letters_end++ = ':';
    }
    if (option->name) {
        known->is_hidden[known->count] = option->flags & OPTION_HIDDEN;
        known->named[known->count++] = (struct option){.name = option->name, .has_arg = known->wants};
    }
}

static void add_all(known_t *known, const struct argp *argp)
{
    for (const struct argp_option *option = argp->options;
         option && (option->name || option->key || option->doc || option->group); option++)
        add_option(known, option);
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        add_all(known, child->argp);
}

/* Says what may have been meant and ends the program, unless there is such an option, or one that begins so.
 */
static void refuse_unknown(const known_t *known, const char *program, const char *word)
{
    char name[NEAR_NAME_BYTES + 1], dashed[sizeof(name) + 2], hint[NEAR_HINT_BYTES];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    near_t near = near_begin(name);
    for (uint32_t i = 0; i < known->count; i++) {
        if (strncmp(known->named[i].name, name, strlen(name)) == 0)
            return;
        if (!known->is_hidden[i])
            near_try(&near, known->named[i].name);
    }
    if (near.found) {
        snprintf(dashed, sizeof(dashed), "--%s", near.found);
        near.found = dashed;
    }
    fprintf(stderr, "%s: there is no option --%s%s\n", program, name, near_hint(&near, hint));
    fprintf(stderr, "Try `%s --help' or `%s --usage' for more information.\n", program, program);
    exit(argp_err_exit_status);
}

void command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    static const struct argp_option argps_own[] = {{"help", '?', NULL, 0, NULL, 0},
                                                   {"usage", 0, NULL, 0, NULL, 0},
                                                   {"version", 'V', NULL, 0, NULL, 0},
                                                   {0}};
    known_t known = {.count = 0};
    int found;
    known.letters[0] = flags & ARGP_IN_ORDER ? '+' : '-'; /* stop at an argument, or take it where it is */
    known.letters_end = known.letters + 1;
    add_all(&known, argp);
    add_all(&known, &(struct argp){.options = argps_own});
    optind = 0; /* anew */
    opterr = 0; /* argp says what else is wrong */
    do {
        optopt = 0;
        found = getopt_long(argc, argv, known.letters, known.named, NULL);
        if (found == '?' && optopt == 0 && strncmp(argv[optind - 1], "--", 2) == 0)
            refuse_unknown(&known, argv[0], argv[optind - 1] + 2);
    } while (found != -1);
    argp_parse(argp, argc, argv, flags, NULL, input);
}

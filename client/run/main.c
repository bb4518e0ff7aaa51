/* blinkrun: starts the ranks of a program, here or on other hosts, and leaves nothing behind. */
#include "run/hosts.h"
#include "run/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A blinkrun that another one has started hears of signals over its standard input, which is not its
 * children's.
 */
static int open_control(const run_options_t *options)
{
    if (!options->is_node)
        return -1;
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    return STDIN_FILENO;
}

static int run(const run_options_t *options, watch_t *watch)
{
    blink_result_t result = watch_open(watch);
    if (result == BLINK_OK)
        result = start_all(options, watch);
    if (result == BLINK_OK)
        return watch_run(watch);
    watch_end(watch);
    fprintf(stderr, "blinkrun: %s\n", blink_error_text());
    return RUN_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    run_options_t options;
    run_parse_options(argc, argv, &options);
    watch_t watch = {.child_count = options.host_count > 0 ? options.host_count : options.local_count,
                     .signals = -1,
                     .control = open_control(&options),
                     .keeps_going = options.keeps_going};
    watch.children = calloc(watch.child_count, sizeof(*watch.children));
    if (!watch.children) {
        fprintf(stderr, "blinkrun: no memory for %u children\n", watch.child_count);
        return RUN_EXIT_FAILED;
    }
    int status = run(&options, &watch);
    free(watch.children);
    run_free_hosts(&options);
    watch_close(&watch);
    if (watch.caught != 0 && !options.is_node) { /* end as who sent it expects */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, watch.caught);
        signal(watch.caught, SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(watch.caught);
    }
    return status;
}

/* blinkctl top: jobs, communicators and links on the whole screen, again and again; or once, as text. */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/command_line.h"
#include "ctl/host.h"
#include "ctl/top/screen.h"
#include "tools/arguments.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DELAY_S       1.0
#define DELAY_LEAST_S 0.25

/* Where it is not a terminal that is written to. */
#define COLUMNS_OF_TEXT 160u

typedef struct top {
    ctl_options_t *common;
    top_wishes_t wishes;
    bool once;
    bool colours;
    query_t query;
    bool connected;
    top_sample_t sample; /* the latest that there was */
    char notice[BLINK_ERROR_TEXT_BYTES + 64];
} top_t;

static error_t parse_top(int key, char *argument, struct argp_state *state)
{
    top_t *top = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = top->common;
        return 0;
    case 'd':
        top->wishes.delay_s = argument_seconds(state, "--delay", argument, DELAY_LEAST_S);
        return 0;
    case 'o':
        top->once = true;
        return 0;
    case 'c':
        top->colours = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- samples ---- */

static blink_result_t connect_to_daemon(top_t *top)
{
    if (top->connected)
        return BLINK_OK;
    BLINK_TRY(query_open(query_socket_path(top->common->socket_path), "blinkctl", &top->query));
    top->connected = true;
    return BLINK_OK;
}

static void disconnect(top_t *top)
{
    if (top->connected)
        query_close(&top->query);
    top->connected = false;
}

/* The next sample takes the place of the one before. After a failure that one stays. */
static blink_result_t take_sample(top_t *top)
{
    top_sample_t sample;
    BLINK_TRY(connect_to_daemon(top));
    blink_result_t result =
        top_sample_take(top->common, &top->query, top->sample.status ? &top->sample : NULL, &sample);
    if (result != BLINK_OK) {
        disconnect(top);
        return host_result(top->common, result);
    }
    top_sample_free(&top->sample);
    top->sample = sample;
    return BLINK_OK;
}

/* Rates are of two samples. */
static blink_result_t take_two_samples(top_t *top)
{
    BLINK_TRY(take_sample(top));
    usleep((useconds_t)(top->wishes.delay_s * 1e6));
    return take_sample(top);
}

/* ---- as text ---- */

static unsigned columns_of_output(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return COLUMNS_OF_TEXT;
}

static blink_result_t print_text(const top_t *top)
{
    top_view_t view;
    BLINK_TRY(top_view_make(&top->sample, columns_of_output(), &view));
    puts(view.status);
    for (top_part_t part = 0; part < TOP_PART_COUNT; part++) {
        if (view.parts[part].count < 2) /* headers over nothing */
            continue;
        putchar('\n');
        for (size_t i = 0; i < view.parts[part].count; i++)
            puts(view.parts[part].items[i].text);
    }
    top_view_free(&view);
    return BLINK_OK;
}

static blink_result_t run_once(top_t *top)
{
    BLINK_TRY(take_two_samples(top));
    top_sample_sort(&top->sample, top->wishes.sort);
    return top->common->json ? ctl_print_json(top_sample_pack(&top->sample), JSON_INDENT(2))
                             : print_text(top);
}

/* A line of JSON for each sample, until interrupted. */
static blink_result_t run_json(top_t *top)
{
    for (;;) {
        BLINK_TRY(take_two_samples(top));
        top_sample_sort(&top->sample, top->wishes.sort);
        BLINK_TRY(ctl_print_json(top_sample_pack(&top->sample), JSON_COMPACT));
        if (fflush(stdout) != 0)
            return BLINK_OK; /* main() reports it */
    }
}

/* ---- on the screen ---- */

static blink_result_t draw(top_t *top)
{
    top_view_t view;
    top_sample_sort(&top->sample, top->wishes.sort);
    BLINK_TRY(top_view_make(&top->sample, top_screen_columns(), &view));
    top_screen_draw(&view, &top->wishes, *top->notice ? top->notice : NULL);
    top_view_free(&view);
    return BLINK_OK;
}

/* Take keys until the next sample is due. */
static blink_result_t wait_for_next(top_t *top)
{
    uint64_t since_us = clock_us();
    for (;;) {
        double left_s = top->wishes.delay_s - (double)(clock_us() - since_us) / 1e6;
        if (top->wishes.quit || (left_s <= 0 && !top->wishes.paused))
            return BLINK_OK;
        if (top_screen_wait(top->wishes.paused ? -1 : (int)(left_s * 1e3) + 1, &top->wishes))
            BLINK_TRY(draw(top));
    }
}

/* A daemon that goes is said, and looked for again. */
static blink_result_t run_on_screen(top_t *top)
{
    while (!top->wishes.quit) {
        if (take_sample(top) == BLINK_OK)
            top->notice[0] = '\0';
        else
            snprintf(top->notice, sizeof(top->notice), "%s; this is what was before", blink_error_text());
        BLINK_TRY(draw(top));
        BLINK_TRY(wait_for_next(top));
    }
    return BLINK_OK;
}

static blink_result_t run_screen(top_t *top)
{
    BLINK_TRY(take_sample(top));
    BLINK_TRY(top_screen_open(top->colours));
    blink_result_t result = run_on_screen(top);
    top_screen_close();
    return result;
}

blink_result_t ctl_top(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_option own[] = {
        {"delay", 'd', "SECONDS", 0, "Between one look and the next (default 1)", 0},
        {"once", 'o', NULL, 0, "Print once, as text, and end", 0},
        {"no-colour", 'c', NULL, 0, "No colours, as with NO_COLOR in the environment", 0},
        {"no-color", 0, NULL, OPTION_ALIAS, NULL, 0},
        {0},
    };
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = own,
        .parser = parse_top,
        .doc = "Show jobs, communicators and links at work, on the whole screen. Rates are of the time since "
               "the look before. OF PREDICTED is how much of the predicted speed the latest ops of a "
               "communicator have reached. With --json a line for each look, of the schema blink-top/1.",
        .children = children};
    const char *no_color = getenv("NO_COLOR");
    top_t top = {.common = common, .wishes.delay_s = DELAY_S, .colours = !no_color || !*no_color};
    command_line_parse(&argp, argc, argv, 0, &top);
    if (host_is_all(common))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "top shows one host: name it");
    blink_result_t result = top.once ? run_once(&top) : common->json ? run_json(&top) : run_screen(&top);
    disconnect(&top);
    top_sample_free(&top.sample);
    return result;
}

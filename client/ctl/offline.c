/* blinkctl plan: works without a daemon. */
#include "ctl.h"

#include "request.h"

#include <stdlib.h>
#include <string.h>

/* Print and free. */
static void print_text(char *text)
{
    size_t length = strlen(text);
    fputs(text, stdout);
    if (length > 0 && text[length - 1] != '\n')
        putchar('\n');
    free(text);
}

typedef struct plan_options {
    ctl_options_t *common;
    request_t request;
} plan_options_t;

static error_t parse_plan(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    plan_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->request;
        state->child_inputs[1] = options->common;
        return 0;
    case ARGP_KEY_END:
        if (options->request.algorithm_count > 1)
            argp_error(state, "one --algorithm");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static blink_result_t plan_and_print(const topo_t *topo, const plan_request_t *request, bool json)
{
    plan_t *plan;
    BLINK_TRY(plan_create(topo, request, &plan));
    char *text = NULL;
    blink_result_t result = json ? plan_write_json(topo, plan, &text) : plan_write_table(topo, plan, &text);
    plan_destroy(plan);
    if (result == BLINK_OK)
        print_text(text);
    return result;
}

blink_result_t ctl_plan(int argc, char **argv, ctl_options_t *common)
{
    static const struct argp_child children[] = {
        {&request_argp, 0, NULL, 0}, {&ctl_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.parser = parse_plan,
                                     .doc = "Plan a collective without a daemon: the trees or rings, the "
                                            "rate they allow and the proven bound. --json prints "
                                            "blink-plan/1.",
                                     .children = children};
    plan_options_t options = {.common = common, .request = request_default};
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    request_case_t opened;
    BLINK_TRY(request_open(&options.request, &opened));
    blink_result_t result = plan_and_print(opened.topo, &opened.plan, common->json);
    plan_thread_release();
    request_close(&opened);
    return result;
}

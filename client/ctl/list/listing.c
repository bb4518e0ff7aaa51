#include "ctl/list/listing.h"

#include "base/command_line.h"
#include "base/value.h"
#include "ctl/host.h"
#include "ctl/list/watch.h"
#include "tools/arguments.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_WATCH = 'w', KEY_BUSY = 256, KEY_COMM, KEY_USER, KEY_SORT, OPTION_COUNT = 5, DOC_BYTES = 512 };

typedef struct view {
    const listing_t *listing;
    ctl_options_t *common;
    filter_t filter;
    const char *sort; /* a key of the JSON; NULL: the daemon's order */
    bool reversed;
    double watch_s; /* 0: show once */
} view_t;

/* ---- the command line ---- */

static uint32_t take_user(struct argp_state *state, const char *text)
{
    uint64_t user = 0;
    const struct passwd *entry = value_parse_number(text, UINT32_MAX, &user) ? NULL : getpwnam(text);
    if (entry)
        user = entry->pw_uid;
    else if (!value_parse_number(text, UINT32_MAX, &user))
        argp_error(state, "--user %s: this machine has no such user; a name or a number", text);
    return (uint32_t)user;
}

static void take_sort(struct argp_state *state, view_t *view, const char *text)
{
    view->reversed = *text == '-';
    view->sort =
        view->listing->sorts[argument_word(state, "--sort", text + view->reversed, view->listing->sorts)];
}

static error_t parse_view(int key, char *argument, struct argp_state *state)
{
    view_t *view = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = view->common;
        return 0;
    case KEY_WATCH:
        argument = argument ? argument : argument_next_word(state, argument_is_positive);
        view->watch_s =
            argument ? argument_seconds(state, "--watch", argument, WATCH_LEAST_S) : WATCH_USUAL_S;
        return 0;
    case KEY_BUSY:
        view->filter.busy = true;
        return 0;
    case KEY_COMM:
        view->filter.comm = argument_comm(state, "--comm", argument);
        return 0;
    case KEY_USER:
        view->filter.has_user = true;
        view->filter.user = take_user(state, argument);
        return 0;
    case KEY_SORT:
        take_sort(state, view, argument);
        return 0;
    case ARGP_KEY_END:
        if (view->watch_s > 0 && host_is_all(view->common))
            argp_error(state, "--watch shows one host: name it");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "...: from, to, bytes" */
static void describe_sorts(const listing_t *listing, char doc[DOC_BYTES])
{
    size_t used = (size_t)snprintf(doc, DOC_BYTES,
                                   "Sort, numbers from the greatest down, and with -KEY the other "
                                   "way:");
    for (size_t i = 0; listing->sorts[i] && used < DOC_BYTES; i++)
        used += (size_t)snprintf(doc + used, DOC_BYTES - used, "%s %s", i > 0 ? "," : "", listing->sorts[i]);
}

/* Those that the list takes. */
static void list_options(const listing_t *listing, char sorts[DOC_BYTES],
                         struct argp_option own[OPTION_COUNT + 1])
{
    const struct argp_option watch_option = {"watch",
                                             KEY_WATCH,
                                             "SECONDS",
                                             OPTION_ARG_OPTIONAL,
                                             "Show again every SECONDS (default 1); on a terminal the header "
                                             "stays, and space and b turn the pages; "
                                             "with --json one line each time",
                                             0};
    *own++ = watch_option;
    describe_sorts(listing, sorts);
    *own++ = (struct argp_option){"sort", KEY_SORT, "KEY", 0, sorts, 0};
    if (listing->busy)
        *own++ = (struct argp_option){"busy", KEY_BUSY, NULL, 0, listing->busy, 0};
    if (listing->by_comm)
        *own++ = (struct argp_option){"comm", KEY_COMM, "N", 0, "Only what has to do with communicator N", 0};
    if (listing->by_user)
        *own++ = (struct argp_option){
            "user", KEY_USER, "USER", 0, "Only what is of this user, a name or a number", 0};
    *own = (struct argp_option){0};
}

/* ---- what is shown ---- */

typedef struct item {
    size_t index; /* in the answer */
    json_t *json, *key;
} item_t;

/* Numbers from the greatest down, texts by their letters, what is missing last. */
static int compare(const void *one, const void *other)
{
    const item_t *a = one, *b = other;
    int order = 0;
    if (json_is_number(a->key) && json_is_number(b->key)) {
        double x = json_number_value(a->key), y = json_number_value(b->key);
        order = (x < y) - (x > y);
    } else if (json_is_string(a->key) && json_is_string(b->key)) {
        order = strcmp(json_string_value(a->key), json_string_value(b->key));
    } else {
        order = (int)json_is_null(a->key) - (int)json_is_null(b->key);
    }
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static void sort(const view_t *view, item_t *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i].key = json_object_get(items[i].json, view->sort);
    qsort(items, count, sizeof(*items), compare);
    for (size_t i = 0; view->reversed && i < count / 2; i++) {
        item_t item = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = item;
    }
}

/* The items that are to be shown, in their order; the caller frees them. */
static blink_result_t choose(const view_t *view, const Blinkwire__QueryReply *query, item_t **items,
                             size_t *count)
{
    const listing_t *listing = view->listing;
    size_t all = listing->count(query);
    *count = 0;
    *items = calloc(all + 1, sizeof(**items));
    if (!*items)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a list of %zu", all);
    for (size_t i = 0; i < all; i++)
        if (!listing->shows || listing->shows(query, i, &view->filter))
            (*items)[(*count)++] = (item_t){.index = i, .json = listing->json(query, i)};
    if (view->sort)
        sort(view, *items, *count);
    return BLINK_OK;
}

static blink_result_t print_json(const view_t *view, const Blinkwire__QueryReply *query, const item_t *items,
                                 size_t count)
{
    char schema[64];
    json_t *array = json_array(), *head = view->listing->head ? view->listing->head(query) : json_object();
    for (size_t i = 0; i < count; i++)
        json_array_append(array, items[i].json);
    snprintf(schema, sizeof(schema), "blink-%s/1", view->listing->name);
    json_t *all = json_pack("{s:s}", "schema", schema);
    json_object_update(all, head);
    json_decref(head);
    json_object_set_new(all, view->listing->name, array);
    return ctl_print_json(all, view->watch_s > 0 ? JSON_COMPACT : JSON_INDENT(2));
}

static blink_result_t print_table(const view_t *view, const Blinkwire__QueryReply *query, const item_t *items,
                                  size_t count)
{
    const listing_t *listing = view->listing;
    if (listing->title)
        listing->title(query, count);
    if (count == 0) {
        puts(listing->count(query) == 0 ? listing->if_none : "Nothing of it is as the filters ask.");
        return BLINK_OK;
    }
    table_t *table = table_create(listing->alignment, listing->headers);
    for (size_t i = 0; i < count; i++)
        listing->row(query, items[i].index, table);
    blink_result_t result = table_print(table, stdout);
    table_destroy(table);
    return result;
}

static blink_result_t print(const view_t *view, const Blinkwire__QueryReply *query, bool json)
{
    item_t *items;
    size_t count;
    BLINK_TRY(choose(view, query, &items, &count));
    blink_result_t result =
        json ? print_json(view, query, items, count) : print_table(view, query, items, count);
    for (size_t i = 0; i < count; i++)
        json_decref(items[i].json);
    free(items);
    return result;
}

/* What filters name must be there. */
static blink_result_t check_filter(const view_t *view)
{
    uint32_t comm = view->filter.comm;
    if (comm == 0 || view->listing->comm_may_be_gone || listing_find_comm(view->filter.comms, comm))
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_NOT_FOUND,
                      "--comm %u: there is no communicator %u; blinkctl comms lists them", comm, comm);
}

static blink_result_t show(const ctl_options_t *options, void *context)
{
    view_t *view = context;
    const listing_t *listing = view->listing;
    Blinkwire__Reply *reply, *comms = NULL;
    bool asks_comms = (view->filter.comm > 0 && !listing->comm_may_be_gone) ||
                      (view->filter.has_user && listing->user_by_comms);
    if (asks_comms)
        BLINK_TRY(ctl_ask(options, BLINKWIRE__QUERY_KIND__COMMS, &comms));
    view->filter.comms = comms ? comms->query : NULL;
    blink_result_t result = check_filter(view);
    if (result == BLINK_OK)
        result = ctl_ask(options, listing->kind, &reply);
    if (result == BLINK_OK) {
        result = print(view, reply->query, options->json);
        blinkwire__reply__free_unpacked(reply, NULL);
    }
    if (comms)
        blinkwire__reply__free_unpacked(comms, NULL);
    return result;
}

const Blinkwire__Comm *listing_find_comm(const Blinkwire__QueryReply *comms, uint32_t number)
{
    for (size_t i = 0; i < comms->n_comms; i++)
        if (comms->comms[i]->comm == number)
            return comms->comms[i];
    return NULL;
}

blink_result_t listing_run(const listing_t *listing, int argc, char **argv, ctl_options_t *options)
{
    static const struct argp_child children[] = {{&ctl_common_argp, 0, NULL, 0}, {0}};
    char sorts[DOC_BYTES];
    struct argp_option own[OPTION_COUNT + 1];
    list_options(listing, sorts, own);
    const struct argp argp = {
        .options = own, .parser = parse_view, .doc = listing->doc, .children = children};
    view_t view = {.listing = listing, .common = options};
    command_line_parse(&argp, argc, argv, 0, &view);
    if (view.watch_s > 0)
        return watch(options, view.watch_s, listing->title ? 2 : 1, show, &view);
    return host_each(options, show, &view);
}

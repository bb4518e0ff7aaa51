/*
 * One list of an answer of the daemon, as a table or as JSON, once or over and over, filtered and sorted.
 */
#ifndef CTL_LISTING_H
#define CTL_LISTING_H

#include "ctl/ctl.h"
#include "tools/table.h"

/** What of a list is to be shown. */
typedef struct filter {
    bool busy;
    uint32_t comm; /* 0: of any */
    bool has_user;
    uint32_t user;
    const Blinkwire__QueryReply
        *comms; /* the daemon's communicators, where the list has to look there; else NULL */
} filter_t;

typedef struct listing {
    const char *name; /* of the command, of the list in its JSON and of its schema, "blink-NAME/1" */
    const char *doc;
    Blinkwire__QueryKind kind;
    const char *alignment;
    const char *const *headers;
    const char *if_none; /* instead of an empty table: a sentence */
    size_t (*count)(const Blinkwire__QueryReply *query);
    json_t *(*json)(const Blinkwire__QueryReply *query, size_t i);
    void (*row)(const Blinkwire__QueryReply *query, size_t i, table_t *table);
    const char *const *sorts; /* keys of the JSON, ending with NULL */

    /* What follows may be left out. */
    const char *busy;      /* what --busy shows */
    bool by_comm, by_user; /* takes --comm, --user */
    bool comm_may_be_gone; /* else --comm names a live communicator */
    bool user_by_comms;    /* --user is */
    bool (*shows)(const Blinkwire__QueryReply *query, size_t i, const filter_t *filter);
    void (*title)(const Blinkwire__QueryReply *query, size_t shown); /* a line above the table */
    json_t *(*head)(const Blinkwire__QueryReply *query); /* an object whose keys stand beside the list */
} listing_t;

/** Run a command that shows a list. Errors: those of asking the daemon, NO_MEMORY. */
blink_result_t listing_run(const listing_t *listing, int argc, char **argv, ctl_options_t *options);

/** The communicator of that number, or NULL. */
const Blinkwire__Comm *listing_find_comm(const Blinkwire__QueryReply *comms, uint32_t number);

#endif

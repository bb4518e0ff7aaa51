/*
 * A growing text and how names and numbers are spelled in it: what every writer of topologies and plans
 * prints into. A text belongs to one thread between open and close.
 */
#ifndef BLINK_TOPO_TEXT_H
#define BLINK_TOPO_TEXT_H

#include "blink/types.h"

#include <locale.h>
#include <stdio.h>

/* A growing text. Between open and close the calling thread prints numbers in the C locale, whatever the
 * program has set. Print into `file`; a failure to grow shows up in close. */
typedef struct topo_text {
    FILE *file;
    char *text;
    size_t bytes;
    locale_t c_locale;
    locale_t previous;
} topo_text_t;

/* Close always releases *text; *result is malloc'd and the caller's. Errors of both: NO_MEMORY. */
blink_result_t topo_text_open(topo_text_t *text);
blink_result_t topo_text_close(topo_text_t *text, char **result);

/* Shortest decimal that reads back as the same double. */
void topo_text_number(topo_text_t *text, double value);
/* In double quotes, backslash escapes: what JSON and Graphviz want (names hold no control characters). */
void topo_text_quoted(topo_text_t *text, const char *string);
/* Character data or attribute value of XML. */
void topo_text_xml(topo_text_t *text, const char *string);

/* GB/s for people: "25.00". Returns `buffer`. */
#define TOPO_HUMAN_BYTES 32
const char *topo_human(double value, char buffer[TOPO_HUMAN_BYTES]);

#endif

/*
 * Aligned ASCII tables: rows are collected first, so that every column is as wide as its widest cell.
 */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

#include "error.h"

#include <stdio.h>

typedef struct table table_t;

/** `alignment` has one letter per column and says how many there are: l and r for texts that stand left and
 * right, n for numbers whose decimal points stand below one another. `headers` are static. NULL if memory ran
 * out, which all calls below accept. */
table_t *table_create(const char *alignment, const char *const *headers);
void table_destroy(table_t *table);

/**
 * Add the next cell, row by row. Anything but printable ASCII becomes '?': names come from other programs.
 */
void table_cell(table_t *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Print headers and rows. Errors: NO_MEMORY (also of earlier calls). */
blink_result_t table_print(const table_t *table, FILE *out);

#endif

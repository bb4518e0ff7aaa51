/* Collects the cells of a table and prints them aligned. */
#include "tools/table.h"

#include "base/vec.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct table {
    const char *alignment;
    const char *const *headers;
    size_t column_count;
    VEC(char *) cells;
    bool failed; /* memory ran out on the way */
};

table_t *table_create(const char *alignment, const char *const *headers)
{
    table_t *table = calloc(1, sizeof(*table));
    if (table)
        *table = (table_t){.alignment = alignment, .headers = headers, .column_count = strlen(alignment)};
    return table;
}

void table_destroy(table_t *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->cells.count; i++)
        free(table->cells.items[i]);
    vec_free(&table->cells);
    free(table);
}

void table_cell(table_t *table, const char *format, ...)
{
    if (!table)
        return;
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        table->failed = true;
        return;
    }
    for (char *at = text; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    if (!vec_push(&table->cells, text)) {
        free(text);
        table->failed = true;
    }
}

static int column_width(const table_t *table, size_t column)
{
    size_t width = strlen(table->headers[column]);
    for (size_t i = column; i < table->cells.count; i += table->column_count) {
        size_t length = strlen(table->cells.items[i]);
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_row(const table_t *table, const int *widths, const char *const *cells, FILE *out)
{
    for (size_t i = 0; i < table->column_count; i++) {
        bool last = i + 1 == table->column_count;
        if (table->alignment[i] == 'r')
            fprintf(out, "%*s", widths[i], cells[i]);
        else
            fprintf(out, "%-*s", last ? 0 : widths[i], cells[i]);
        fputs(last ? "\n" : "  ", out);
    }
}

blink_result_t table_print(const table_t *table, FILE *out)
{
    int *widths = table && !table->failed ? calloc(table->column_count, sizeof(*widths)) : NULL;
    if (!widths)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print a table");
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = column_width(table, i);
    print_row(table, widths, table->headers, out);
    for (size_t i = 0; i + table->column_count <= table->cells.count; i += table->column_count)
        print_row(table, widths, (const char *const *)&table->cells.items[i], out);
    free(widths);
    return BLINK_OK;
}

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

/* A column is as wide as its header or what its cells have before and behind the place where they are
 * aligned: that is the decimal point or, of text without one, the end. */
typedef struct column {
    char alignment;
    int width, behind;
} column_t;

static int most(int one, int other)
{
    return one > other ? one : other;
}

/* Of a cell that is not aligned by its point all stands before. */
static int length_before(char alignment, const char *cell)
{
    return (int)(alignment == 'n' ? strcspn(cell, ".") : strlen(cell));
}

static column_t measure(const table_t *table, size_t index)
{
    column_t column = {.alignment = table->alignment[index]};
    int before = 0;
    for (size_t i = index; i < table->cells.count; i += table->column_count) {
        const char *cell = table->cells.items[i];
        int length = length_before(column.alignment, cell);
        before = most(before, length);
        column.behind = most(column.behind, (int)strlen(cell) - length);
    }
    column.width = most((int)strlen(table->headers[index]), before + column.behind);
    return column;
}

static void print_cell(const column_t *column, const char *cell, bool last, FILE *out)
{
    int pad = column->behind - ((int)strlen(cell) - length_before(column->alignment, cell));
    if (column->alignment == 'l')
        fprintf(out, "%-*s", last ? 0 : column->width, cell);
    else if (column->alignment == 'r')
        fprintf(out, "%*s", column->width, cell);
    else
        fprintf(out, "%*s%*s", column->width - pad, cell, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", out);
}

static void print_row(const table_t *table, const column_t *columns, const char *const *cells, FILE *out)
{
    for (size_t i = 0; i < table->column_count; i++)
        print_cell(&columns[i], cells[i], i + 1 == table->column_count, out);
}

/* A header has no point to be aligned by. */
static void print_headers(const table_t *table, const column_t *columns, FILE *out)
{
    for (size_t i = 0; i < table->column_count; i++) {
        column_t column = columns[i];
        column.alignment = column.alignment == 'n' ? 'r' : column.alignment;
        print_cell(&column, table->headers[i], i + 1 == table->column_count, out);
    }
}

blink_result_t table_print(const table_t *table, FILE *out)
{
    column_t *columns = table && !table->failed ? calloc(table->column_count, sizeof(*columns)) : NULL;
    if (!columns)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory to print a table");
    for (size_t i = 0; i < table->column_count; i++)
        columns[i] = measure(table, i);
    print_headers(table, columns, out);
    for (size_t i = 0; i + table->column_count <= table->cells.count; i += table->column_count)
        print_row(table, columns, (const char *const *)&table->cells.items[i], out);
    free(columns);
    return BLINK_OK;
}

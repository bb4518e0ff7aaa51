#include "ctl/top/screen.h"

#include "tools/human.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DELAY_LEAST_S 0.25
#define DELAY_MOST_S  60.0

enum { PAIR_BUSY = 1, PAIR_BAD = 2 };

/* Which part the keys scroll, and which row of each is the first that is shown. */
static struct {
    SCREEN *terminal;
    top_part_t chosen;
    size_t first[TOP_PART_COUNT];
    size_t shown[TOP_PART_COUNT]; /* rows, when it was drawn */
} screen;

blink_result_t top_screen_open(bool colours)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "top needs a terminal; --once prints what it would show");
    if (!top_terminal_can_be_drawn_on())
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                          "TERM=%s is no terminal that this machine knows how to draw on; --once prints what "
                          "top would show",
                          kind ? kind : "");
    screen.terminal = newterm(NULL, stdout, stdin);
    if (!screen.terminal)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a screen");
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    screen.chosen = TOP_LINKS;
    if (colours && has_colors()) {
        start_color();
        use_default_colors();
        init_pair(PAIR_BUSY, COLOR_YELLOW, -1);
        init_pair(PAIR_BAD, COLOR_RED, -1);
    }
    return BLINK_OK;
}

void top_screen_close(void)
{
    endwin();
    delscreen(screen.terminal);
}

unsigned top_screen_columns(void)
{
    return (unsigned)COLS;
}

/* ---- drawing ---- */

static attr_t attributes_of(top_tone_t tone)
{
    if (tone == TOP_PLAIN)
        return A_NORMAL;
    /* Pairs that were not made are drawn as plain text. */
    return A_BOLD | (attr_t)COLOR_PAIR(tone == TOP_BAD ? PAIR_BAD : PAIR_BUSY);
}

static void wear(attr_t attributes)
{
    attrset((int)attributes);
}

static void draw_line(int at, attr_t attributes, const char *text)
{
    wear(attributes);
    mvaddnstr(at, 0, text, COLS);
    wear(A_NORMAL);
}

/* How many lines each part has: as many as each other, less where it has fewer, and what is left over goes to
 * the one that the keys scroll, and to the others in turn. */
static void share_lines(const top_view_t *view, int lines, int share[TOP_PART_COUNT])
{
    int left = lines > 0 ? lines : 0, fair = left / TOP_PART_COUNT;
    for (int part = 0; part < TOP_PART_COUNT; part++) {
        int wanted = (int)view->parts[part].count;
        share[part] = wanted < fair ? wanted : fair;
        left -= share[part];
    }
    for (int i = 0; i < TOP_PART_COUNT; i++) {
        int part = ((int)screen.chosen + i) % TOP_PART_COUNT;
        int more = (int)view->parts[part].count - share[part];
        more = more < left ? more : left;
        share[part] += more;
        left -= more;
    }
}

/* The names of the columns; at the right which rows are shown, if these are not all. */
static void draw_header(const top_view_t *view, top_part_t part, int at)
{
    char place[64];
    size_t rows = view->parts[part].count - 1, first = screen.first[part];
    wear(A_REVERSE | (part == screen.chosen ? A_BOLD : A_NORMAL));
    mvhline(at, 0, ' ', COLS);
    mvaddnstr(at, 0, view->parts[part].items[0].text, COLS);
    if (screen.shown[part] < rows) {
        snprintf(place, sizeof(place), "  %zu-%zu of %zu%s", first + 1, first + screen.shown[part], rows,
                 part == screen.chosen ? " <" : "");
        int column = COLS - (int)strlen(place);
        mvaddnstr(at, column > 0 ? column : 0, place, COLS);
    }
    wear(A_NORMAL);
}

static void draw_part(const top_view_t *view, top_part_t part, int at, int lines)
{
    size_t rows = view->parts[part].count - 1;
    screen.shown[part] = (size_t)(lines - 1) < rows ? (size_t)(lines - 1) : rows;
    if (screen.first[part] > rows - screen.shown[part])
        screen.first[part] = rows - screen.shown[part];
    draw_header(view, part, at);
    for (size_t i = 0; i < screen.shown[part]; i++) {
        const top_line_t *line = &view->parts[part].items[1 + screen.first[part] + i];
        draw_line(at + 1 + (int)i, attributes_of(line->tone), line->text);
    }
}

static void draw_keys(const top_wishes_t *wishes)
{
    static const char *const orders[] = {"rate", "total", "name"};
    char text[160], delay[HUMAN_BYTES];
    snprintf(text, sizeof(text), "q quit  s by %s  Tab part  arrows scroll  p %s  +/- every %s s",
             orders[wishes->sort], wishes->paused ? "go on" : "pause", human_number(wishes->delay_s, delay));
    draw_line(LINES - 1, A_BOLD, text);
}

void top_screen_draw(const top_view_t *view, const top_wishes_t *wishes, const char *notice)
{
    int share[TOP_PART_COUNT], at = 1;
    erase();
    draw_line(0, A_BOLD, view->status);
    if (notice)
        draw_line(at++, attributes_of(TOP_BAD), notice);
    share_lines(view, LINES - 1 - at, share);
    for (top_part_t part = 0; part < TOP_PART_COUNT; part++) {
        if (share[part] > 0)
            draw_part(view, part, at, share[part]);
        at += share[part];
    }
    draw_keys(wishes);
    refresh();
}

/* ---- keys ---- */

static void scroll_rows(long rows)
{
    size_t *first = &screen.first[screen.chosen];
    if (rows < 0 && *first < (size_t)-rows)
        *first = 0;
    else
        *first += (size_t)rows; /* drawing keeps it below the end */
}

static void change_delay(top_wishes_t *wishes, double factor)
{
    double delay_s = wishes->delay_s * factor;
    if (delay_s >= DELAY_LEAST_S && delay_s <= DELAY_MOST_S)
        wishes->delay_s = delay_s;
}

bool top_screen_wait(int milliseconds, top_wishes_t *wishes)
{
    timeout(milliseconds);
    int key = getch();
    long page = (long)screen.shown[screen.chosen];
    switch (key) {
    case ERR:
        return false;
    case 'q':
        wishes->quit = true;
        break;
    case 's':
        wishes->sort = (wishes->sort + 1) % TOP_SORT_COUNT;
        break;
    case 'p':
        wishes->paused = !wishes->paused;
        break;
    case '+':
        change_delay(wishes, 2);
        break;
    case '-':
        change_delay(wishes, 0.5);
        break;
    case '\t':
        screen.chosen = (screen.chosen + 1) % TOP_PART_COUNT;
        break;
    case KEY_UP:
        scroll_rows(-1);
        break;
    case KEY_DOWN:
        scroll_rows(1);
        break;
    case KEY_PPAGE:
        scroll_rows(-page);
        break;
    case KEY_NPAGE:
        scroll_rows(page);
        break;
    case KEY_HOME:
        screen.first[screen.chosen] = 0;
        break;
    case KEY_END:
        screen.first[screen.chosen] = SIZE_MAX / 2;
        break;
    default: /* a new size of the terminal, too */
        break;
    }
    return true;
}

#include "ctl/list/watch.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define HOME_CURSOR  "\033[H"
#define CLEAR_SCREEN "\033[2J\033[3J"
#define CLEAR_LINE   "\033[K"
#define CLEAR_BELOW  "\033[J"

/* Of a terminal that does not say. */
#define USUAL_ROWS    24u
#define USUAL_COLUMNS 80u

#define NS_PER_S  1e9
#define NS_PER_MS 1000000u

typedef struct screen {
    bool is_terminal;
    bool has_keys; /* standard input is a terminal, too */
    int signals;   /* a signalfd; -1: none */
    int caught;    /* the signal that ends this; 0: none */
    bool ends;
    sigset_t mask_before;
    struct termios before;
    uint32_t header_lines;
    size_t top;                  /* the first row that is shown */
    size_t page_rows, row_count; /* as last drawn */
} screen_t;

/* ---- the terminal ---- */

static void screen_open(screen_t *screen, bool json)
{
    sigset_t set;
    screen->is_terminal = !json && isatty(STDOUT_FILENO);
    screen->signals = -1;
    if (!screen->is_terminal)
        return;
    screen->has_keys = tcgetattr(STDIN_FILENO, &screen->before) == 0;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, &screen->mask_before);
    screen->signals = signalfd(-1, &set, SFD_CLOEXEC);
    struct termios raw = screen->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (screen->has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs(HOME_CURSOR CLEAR_SCREEN, stdout);
}

static void screen_close(screen_t *screen)
{
    if (!screen->is_terminal)
        return;
    if (screen->has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
    putchar('\n');
    fflush(stdout);
    if (screen->signals >= 0)
        close(screen->signals);
    sigprocmask(SIG_SETMASK, &screen->mask_before, NULL);
    if (screen->caught != 0)
        raise(screen->caught); /* end as who sent it expects */
}

/* ---- drawing ---- */

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static const char *skip_lines(const char *text, size_t count)
{
    for (; count > 0 && *text; text++)
        count -= *text == '\n';
    return text;
}

static void put_lines(const char *text, size_t count, size_t columns)
{
    for (; count > 0 && *text; count--) {
        size_t length = strcspn(text, "\n");
        printf("%.*s" CLEAR_LINE "\n", (int)(length < columns ? length : columns), text);
        text += length + (text[length] == '\n');
    }
}

static void put_footer(const screen_t *screen, size_t columns, double seconds)
{
    char rows[64] = "", keys[64] = "", footer[192];
    size_t last = screen->top + screen->page_rows;
    bool has_pages = screen->row_count > screen->page_rows;
    if (has_pages)
        snprintf(rows, sizeof(rows), "rows %zu-%zu of %zu, ", screen->top + 1,
                 last < screen->row_count ? last : screen->row_count, screen->row_count);
    if (screen->has_keys)
        snprintf(keys, sizeof(keys), "; %sq: quit", has_pages ? "space: next page, b: back, " : "");
    int length = snprintf(footer, sizeof(footer), "%severy %g s%s", rows, seconds, keys);
    printf("%.*s" CLEAR_LINE, length < (int)columns ? length : (int)columns - 1, footer);
}

static void clamp_top(screen_t *screen)
{
    size_t most = screen->row_count > screen->page_rows ? screen->row_count - screen->page_rows : 0;
    screen->top = screen->top < most ? screen->top : most;
}

static void draw(screen_t *screen, const char *text, double seconds)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    size_t rows = known ? size.ws_row : USUAL_ROWS, columns = known ? size.ws_col : USUAL_COLUMNS;
    size_t lines = count_lines(text), header = screen->header_lines < lines ? screen->header_lines : lines;
    screen->row_count = lines - header;
    screen->page_rows = rows > header + 2 ? rows - header - 1 : 1;
    clamp_top(screen);
    fputs(HOME_CURSOR, stdout);
    put_lines(text, header, columns);
    put_lines(skip_lines(text, header + screen->top), screen->page_rows, columns);
    put_footer(screen, columns, seconds);
    fputs(CLEAR_BELOW, stdout);
}

/* ---- keys and signals ---- */

static void move(screen_t *screen, bool down, size_t rows)
{
    if (down)
        screen->top += rows;
    else
        screen->top -= rows < screen->top ? rows : screen->top;
    clamp_top(screen);
}

static void take_keys(screen_t *screen)
{
    static const struct {
        const char *key;
        bool down, page;
    } moves[] = {{" ", true, true},       {"f", true, true},        {"\033[6~", true, true},
                 {"b", false, true},      {"\033[5~", false, true}, {"j", true, false},
                 {"\033[B", true, false}, {"k", false, false},      {"\033[A", false, false}};
    char keys[32] = "";
    if (read(STDIN_FILENO, keys, sizeof(keys) - 1) <= 0)
        screen->has_keys = false;
    screen->ends = strchr(keys, 'q');
    for (const char *at = keys; *at; at++)
        for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
            if (strncmp(at, moves[i].key, strlen(moves[i].key)) == 0)
                move(screen, moves[i].down, moves[i].page ? screen->page_rows : 1);
}

static void take_signal(screen_t *screen)
{
    struct signalfd_siginfo info;
    if (read(screen->signals, &info, sizeof(info)) != (ssize_t)sizeof(info) || info.ssi_signo == SIGWINCH)
        return;
    screen->caught = (int)info.ssi_signo;
    screen->ends = true;
}

/* Until the time or something happens. */
static void await(screen_t *screen, uint64_t until_ns)
{
    struct pollfd awaited[] = {{.fd = screen->signals, .events = POLLIN},
                               {.fd = screen->has_keys ? STDIN_FILENO : -1, .events = POLLIN}};
    uint64_t now_ns = clock_ns();
    int wait_ms = now_ns < until_ns ? (int)((until_ns - now_ns) / NS_PER_MS) + 1 : 0;
    if (poll(awaited, sizeof(awaited) / sizeof(awaited[0]), wait_ms) <= 0)
        return;
    if (awaited[0].revents)
        take_signal(screen);
    if (awaited[1].revents)
        take_keys(screen);
}

/* ---- over and over ---- */

/* What was found, until it is time for the next look. */
static void hold(screen_t *screen, const ctl_options_t *options, const char *text, double seconds)
{
    uint64_t until_ns = clock_ns() + (uint64_t)(seconds * NS_PER_S);
    if (!screen->is_terminal)
        printf("%s%s", text, options->json ? "" : "\n");
    do {
        if (screen->is_terminal)
            draw(screen, text, seconds);
        screen->ends = fflush(stdout) != 0; /* main() reports it */
        if (!screen->ends)
            await(screen, until_ns);
    } while (!screen->ends && clock_ns() < until_ns);
}

blink_result_t watch(const ctl_options_t *options, double seconds, uint32_t header_lines, host_show_t *show,
                     void *context)
{
    screen_t screen = {.header_lines = header_lines};
    blink_result_t result = BLINK_OK;
    screen_open(&screen, options->json);
    while (result == BLINK_OK && !screen.ends) {
        char *text = NULL;
        result = host_catch(options, show, context, &text);
        if (result == BLINK_OK)
            hold(&screen, options, text, seconds);
        free(text);
    }
    screen_close(&screen);
    return result;
}

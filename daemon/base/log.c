#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES 1024

#define BURST_LINES 200u
#define LINES_PER_S 10u
#define NS_PER_S    1000000000u

/* The one process-wide state of the daemon: a log has one destination. Written before threads start. */
static struct {
    log_level_t level;
    bool journal;
} log_config = {LOG_LEVEL_INFO, false};

static const struct {
    const char *name;
    int syslog_priority;
} levels[] = {{"error", 3}, {"warning", 4}, {"info", 6}, {"debug", 7}};

void log_init(log_level_t level, bool journal)
{
    log_config.level = level;
    log_config.journal = journal;
}

const char *log_level_name(log_level_t level)
{
    return levels[level].name;
}

bool log_parse_level(const char *name, log_level_t *level)
{
    for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(levels[i].name, name) == 0) {
            *level = (log_level_t)i;
            return true;
        }
    }
    return false;
}

static int line_prefix(char *line, size_t bytes, log_level_t level)
{
    if (log_config.journal)
        return snprintf(line, bytes, "<%d>", levels[level].syslog_priority);
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    return snprintf(line, bytes, "%02d:%02d:%02d.%03ld %-7s ", local.tm_hour, local.tm_min, local.tm_sec,
                    now.tv_nsec / 1000000, levels[level].name);
}

bool log_writes(log_level_t level)
{
    return level <= log_config.level;
}

static void refill(log_budget_t *budget, uint64_t now_ns)
{
    uint64_t lines = (now_ns - budget->refilled_ns) / (NS_PER_S / LINES_PER_S);
    if (lines >= budget->spent) {
        budget->spent = 0;
        budget->refilled_ns = now_ns;
    } else {
        budget->spent -= (uint32_t)lines;
        budget->refilled_ns += lines * (NS_PER_S / LINES_PER_S);
    }
}

bool log_budget_spend(log_budget_t *budget, uint64_t now_ns, uint32_t *withheld_count)
{
    refill(budget, now_ns);
    if (budget->spent == BURST_LINES) {
        budget->withheld_count++;
        return false;
    }
    budget->spent++;
    *withheld_count = budget->withheld_count;
    budget->withheld_count = 0;
    return true;
}

void log_message(log_level_t level, const char *format, ...)
{
    if (!log_writes(level))
        return;
    char line[LOG_LINE_BYTES];
    int used = line_prefix(line, sizeof(line), level);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, arguments);
    va_end(arguments);
    size_t end = (size_t)used + (length < 0 ? 0 : (size_t)length);
    if (end > sizeof(line) - 2)
        end = sizeof(line) - 2;
    line[end] = '\n';
    ssize_t written = write(STDERR_FILENO, line, end + 1);
    (void)written; /* there is nowhere left to report to */
}

/* Formatting of numbers for the tools' tables. */
#include "tools/human.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *human_number(double value, char text[HUMAN_BYTES])
{
    int decimals = 1;
    for (double limit = 100; decimals < 6 && value < limit && value > 0; limit /= 10)
        decimals++;
    snprintf(text, HUMAN_BYTES, "%.*f", value > 0 ? decimals : 0, value);
    return text;
}

const char *human_column(double value, unsigned width, unsigned decimals, char text[HUMAN_BYTES])
{
    char number[HUMAN_BYTES];
    human_number(value, number);
    size_t whole = strcspn(number, "."), behind = strlen(number) - whole, most = decimals + 1;
    size_t after = behind < most ? most - behind : 0;
    size_t used = strlen(number) + after, before = width > used ? width - used : 0;
    if (before + used >= HUMAN_BYTES)
        before = after = 0;
    memset(text, ' ', before);
    char *end = stpcpy(text + before, number);
    memset(end, ' ', after);
    end[after] = '\0';
    return text;
}

const char *human_bytes(uint64_t bytes, char text[HUMAN_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    bool is_whole = value == (double)(uint64_t)value;
    snprintf(text, HUMAN_BYTES, "%.*f %s", is_whole ? 0 : value < 100 ? 2 : 1, value, units[unit]);
    return text;
}

const char *human_size(uint64_t bytes, char text[HUMAN_BYTES])
{
    static const char *const units[] = {"", "K", "M", "G"};
    unsigned unit = 0;
    for (; bytes > 0 && bytes % 1024 == 0 && unit < 3; unit++)
        bytes /= 1024;
    snprintf(text, HUMAN_BYTES, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

const char *human_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

const char *human_duration(double seconds, char text[HUMAN_BYTES])
{
    unsigned long whole = seconds > 0 ? (unsigned long)seconds : 0;
    if (whole >= 86400)
        snprintf(text, HUMAN_BYTES, "%lud %luh %lum", whole / 86400, whole / 3600 % 24, whole / 60 % 60);
    else if (whole >= 3600)
        snprintf(text, HUMAN_BYTES, "%luh %lum", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        snprintf(text, HUMAN_BYTES, "%lum %lus", whole / 60, whole % 60);
    else
        snprintf(text, HUMAN_BYTES, "%.1f s", seconds);
    return text;
}

const char *human_bar(double share, unsigned width, char text[HUMAN_BYTES])
{
    width = width < HUMAN_BYTES ? width : HUMAN_BYTES - 1;
    double filled = share > 0 ? fmin(share, 1) * width + 0.5 : 0;
    memset(text, '.', width);
    memset(text, '#', (size_t)filled);
    text[width] = '\0';
    return text;
}

const char *human_time(uint64_t time_us, char text[HUMAN_BYTES])
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm local;
    size_t used = localtime_r(&seconds, &local) ? strftime(text, HUMAN_BYTES, "%F %T", &local) : 0;
    snprintf(text + used, HUMAN_BYTES - used, ".%03u", (unsigned)(time_us / 1000 % 1000));
    return text;
}

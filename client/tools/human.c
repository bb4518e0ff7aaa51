/* Formatting and parsing of numbers for the tools' tables and command lines. */
#include "tools/human.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *human_number(double value, char text[HUMAN_BYTES])
{
    int decimals = 1;
    for (double limit = 100; decimals < 6 && value < limit && value > 0; limit /= 10)
        decimals++;
    snprintf(text, HUMAN_BYTES, "%.*f", value > 0 ? decimals : 0, value);
    return text;
}

const char *human_bytes(uint64_t bytes, char text[HUMAN_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    unsigned unit = 0;
    for (; value >= 1000 && unit < 6; unit++)
        value /= 1000;
    snprintf(text, HUMAN_BYTES, "%.*f %s", unit == 0 ? 0 : value < 100 ? 2 : 1, value, units[unit]);
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

bool human_parse_number(const char *text, uint64_t most, uint64_t *number)
{
    if (!*text || text[strspn(text, "0123456789")])
        return false;
    errno = 0;
    uint64_t value = strtoull(text, NULL, 10);
    if (errno != 0 || value > most)
        return false;
    *number = value;
    return true;
}

bool human_parse_bytes(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMG";
    char digits[32] = "";
    size_t length = strspn(text, "0123456789");
    const char *suffix = text[length] ? strchr(suffixes, text[length] & ~0x20) : NULL;
    unsigned shift = suffix ? 10 * ((unsigned)(suffix - suffixes) + 1) : 0;
    uint64_t number = 0;
    if (length < sizeof(digits))
        memcpy(digits, text, length);
    if (!human_parse_number(digits, UINT64_MAX >> (shift + 1), &number) || text[length + (suffix ? 1 : 0)])
        return false;
    *bytes = number << shift;
    return true;
}

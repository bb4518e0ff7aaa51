/* PMI-1, the text protocol of MPICH's launchers: lines of words KEY=VALUE on a descriptor that is inherited.
 * The process tells that it begins and that it has ended its part; in between it puts, meets all, and gets.
 */
#include "base/clock.h"
#include "launch/exchange.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 1024
#define KEY        "blink-id"

typedef struct pmi {
    int fd;
    uint64_t deadline_ns;
    char line[LINE_BYTES]; /* the last answer */
} pmi_t;

/* The value of a word in the last answer. */
static bool find_word(const pmi_t *pmi, const char *name, char *value, size_t value_bytes)
{
    size_t length = strlen(name);
    for (const char *at = pmi->line; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (strncmp(at, name, length) == 0 && at[length] == '=' && word - length - 1 < value_bytes) {
            snprintf(value, value_bytes, "%.*s", (int)(word - length - 1), at + length + 1);
            return true;
        }
        at += word;
    }
    return false;
}

/* A byte at a time: what comes after the line is not ours. */
static blink_result_t receive_line(pmi_t *pmi)
{
    for (size_t i = 0; i < sizeof(pmi->line); i++) {
        BLINK_TRY(exchange_receive(pmi->fd, &pmi->line[i], 1, pmi->deadline_ns, "the launcher (PMI)"));
        if (pmi->line[i] == '\n') {
            pmi->line[i] = '\0';
            return BLINK_OK;
        }
    }
    return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the launcher (PMI) answers by a line of more than %d bytes",
                      LINE_BYTES - 1);
}

/* Say a line, and hear the answer, which must be of this kind and no failure. */
static blink_result_t ask(pmi_t *pmi, const char *line, const char *kind)
{
    char cmd[64], rc[16] = "0";
    BLINK_TRY(exchange_send(pmi->fd, line, strlen(line), pmi->deadline_ns, "the launcher (PMI)"));
    BLINK_TRY(receive_line(pmi));
    (void)find_word(pmi, "rc", rc, sizeof(rc));
    if (!find_word(pmi, "cmd", cmd, sizeof(cmd)) || strcmp(cmd, kind) != 0 || strcmp(rc, "0") != 0)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the launcher (PMI) answers \"%.80s\" to \"%.*s\"", pmi->line,
                          (int)strcspn(line, "\n"), line);
    return BLINK_OK;
}

static blink_result_t exchange(pmi_t *pmi, bool gives, char text[UNIQUE_ID_TEXT_BYTES])
{
    char name[256], line[LINE_BYTES];
    BLINK_TRY(ask(pmi, "cmd=get_my_kvsname\n", "my_kvsname"));
    if (!find_word(pmi, "kvsname", name, sizeof(name)))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the launcher (PMI) names no key-value space: \"%.80s\"",
                          pmi->line);
    snprintf(line, sizeof(line), "cmd=put kvsname=%s key=" KEY " value=%s\n", name, text);
    if (gives)
        BLINK_TRY(ask(pmi, line, "put_result"));
    BLINK_TRY(ask(pmi, "cmd=barrier_in\n", "barrier_out"));
    if (gives)
        return BLINK_OK;
    snprintf(line, sizeof(line), "cmd=get kvsname=%s key=" KEY "\n", name);
    BLINK_TRY(ask(pmi, line, "get_result"));
    if (!find_word(pmi, "value", text, UNIQUE_ID_TEXT_BYTES))
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "the launcher (PMI) has no id of rank 0: \"%.80s\"", pmi->line);
    return BLINK_OK;
}

/* A launcher takes a process that has begun and ends without a word for one that has died. */
blink_result_t exchange_by_pmi(const launch_t *launch, uint64_t deadline_ns, char text[UNIQUE_ID_TEXT_BYTES])
{
    char *end;
    long fd = strtol(launch->where, &end, 10);
    if (*end || fd < 0 || fd > INT_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "PMI_FD=%.40s: a descriptor", launch->where);
    pmi_t pmi = {.fd = (int)fd, .deadline_ns = deadline_ns};
    BLINK_TRY(ask(&pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init"));
    BLINK_TRY(exchange(&pmi, launch->rank == 0, text));
    return ask(&pmi, "cmd=finalize\n", "finalize_ack");
}

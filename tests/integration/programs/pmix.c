/*
 * A libpmix.so.2 that is none, for processes of one machine: what a rank has, and that it has come, are files
 * in the directory that STANDIN_PMIX_FILES names. It exports what libblinkclient uses, with the layouts of
 * the PMIx standard, and requires of who calls what the standard does. STANDIN_PMIX_FAILS names a call that
 * fails with PMIX_ERR_NOT_FOUND.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, TIMED_OUT = -24, BAD_PARAM = -27, NOT_FOUND = -46, NOT_INITIALIZED = -31 };
enum { STRING = 3, INT = 6, GLOBAL = 3 };
#define WILDCARD  (UINT32_MAX - 1)
#define TEXT_MOST 1000

typedef struct proc {
    char space[256];
    uint32_t rank;
} proc_t;

typedef struct value {
    uint16_t type;
    union {
        char *text;
        int number;
        uint64_t longest[3];
    } data;
} value_t;

typedef struct info {
    char key[512];
    uint32_t flags;
    value_t value;
} info_t;

static struct {
    int begun; /* and not ended */
    proc_t own;
    char key[512], text[TEXT_MOST]; /* that is to be committed */
} pmix;

static const char *get(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static int judge(const char *call, int is_right)
{
    if (strcmp(get("STANDIN_PMIX_FAILS"), call) == 0)
        return NOT_FOUND;
    if (!pmix.begun)
        return NOT_INITIALIZED;
    return is_right ? SUCCESS : BAD_PARAM;
}

static const char *path_of(const char *what, uint32_t rank, char path[TEXT_MOST])
{
    snprintf(path, TEXT_MOST, "%s/%s.%u", get("STANDIN_PMIX_FILES"), what, rank);
    return path;
}

/* Either the whole file is there or none. */
static void leave(const char *what, const char *text)
{
    char path[TEXT_MOST], unfinished[TEXT_MOST];
    FILE *file = fopen(path_of("unfinished", pmix.own.rank, unfinished), "w");
    if (!file || fputs(text, file) == EOF || fclose(file) != 0 ||
        rename(unfinished, path_of(what, pmix.own.rank, path)) != 0)
        abort();
}

int PMIx_Init(proc_t *own, void *info, size_t count)
{
    (void)info;
    pmix.begun = 1;
    snprintf(pmix.own.space, sizeof(pmix.own.space), "%s", get("PMIX_NAMESPACE"));
    pmix.own.rank = (uint32_t)strtoul(get("PMIX_RANK"), NULL, 10);
    *own = pmix.own;
    return judge("PMIx_Init", count == 0);
}

int PMIx_Put(uint8_t scope, const char *key, value_t *value)
{
    snprintf(pmix.key, sizeof(pmix.key), "%s", key);
    snprintf(pmix.text, sizeof(pmix.text), "%s", value->data.text);
    return judge("PMIx_Put", scope == GLOBAL && value->type == STRING);
}

int PMIx_Commit(void)
{
    if (pmix.key[0])
        leave(pmix.key, pmix.text);
    return judge("PMIx_Commit", 1);
}

int PMIx_Fence(const proc_t *procs, size_t proc_count, const info_t *infos, size_t count)
{
    int status = judge("PMIx_Fence", proc_count == 1 && strcmp(procs->space, pmix.own.space) == 0 &&
                                         procs->rank == WILDCARD && count == 1 &&
                                         strcmp(infos->key, "pmix.timeout") == 0 && infos->value.type == INT);
    char path[TEXT_MOST];
    uint32_t rank = 0, rank_count = (uint32_t)strtoul(get("OMPI_COMM_WORLD_SIZE"), NULL, 10);
    if (status != SUCCESS)
        return status;
    leave("come", "");
    for (time_t end = time(NULL) + infos->value.data.number; rank < rank_count && time(NULL) <= end;) {
        if (access(path_of("come", rank, path), F_OK) == 0)
            rank++;
        else
            usleep(1000);
    }
    return rank == rank_count ? SUCCESS : TIMED_OUT;
}

int PMIx_Get(const proc_t *proc, const char *key, const info_t *infos, size_t count, value_t **value)
{
    int status = judge("PMIx_Get", strcmp(proc->space, pmix.own.space) == 0 && !infos && count == 0);
    char path[TEXT_MOST], text[TEXT_MOST];
    FILE *file = status == SUCCESS ? fopen(path_of(key, proc->rank, path), "r") : NULL;
    if (!file)
        return status == SUCCESS ? NOT_FOUND : status;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    *value = malloc(sizeof(**value));
    **value = (value_t){.type = STRING, .data.text = strdup(text)};
    return SUCCESS;
}

int PMIx_Finalize(const info_t *infos, size_t count)
{
    int status = judge("PMIx_Finalize", !infos && count == 0);
    leave("ended", "");
    pmix.begun = 0;
    return status;
}

const char *PMIx_Error_string(int status)
{
    switch (status) {
    case TIMED_OUT:
        return "TIMEOUT";
    case NOT_FOUND:
        return "NOT-FOUND";
    default:
        return "BAD-PARAM";
    }
}

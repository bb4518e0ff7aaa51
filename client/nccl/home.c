/*
 * The shared connection. NCCL's calls name no context, so there is one for the process. A connection whose
 * daemon is lost goes with the last communicator that was made through it.
 */
#include "home.h"

#include "fail.h"

#include "stderr.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    blink_context_t *context;
    unsigned int users;
    pid_t process; /* a child that was forked has none */
} home = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Before any thread reads the environment: NCCL's variable asks for the lines of BLINK_DEBUG. */
__attribute__((constructor)) static void take_debug(void)
{
    const char *asked = secure_getenv("NCCL_DEBUG");
    if (!asked || (strcasecmp(asked, "INFO") != 0 && strcasecmp(asked, "TRACE") != 0))
        return;
    (void)setenv("BLINK_DEBUG", strcasecmp(asked, "INFO") == 0 ? "info" : "trace", 0);
}

static void tell_version(void)
{
    char line[160];
    if (!secure_getenv("NCCL_DEBUG"))
        return;
    int length = snprintf(
        line, sizeof(line), "blink: %d: libnccl.so.2 of blinkd %s, for programs of NCCL %d.%d.%d\n",
        (int)getpid(), blink_version(), ABI_VERSION / 10000, ABI_VERSION / 100 % 100, ABI_VERSION % 100);
    stderr_write(line, (size_t)length);
}

/* Under the lock. */
static void forget_parent(void)
{
    if (home.process == getpid())
        return;
    home.context = NULL;
    home.users = 0;
    home.process = getpid();
}

abi_result_t nccl_home_get(blink_context_t **context)
{
    static pthread_once_t told = PTHREAD_ONCE_INIT;
    blink_result_t result = BLINK_OK;
    (void)pthread_once(&told, tell_version);
    pthread_mutex_lock(&home.lock);
    forget_parent();
    if (!home.context)
        result = blink_open(NULL, &home.context);
    if (result == BLINK_OK) {
        home.users++;
        *context = home.context;
    }
    pthread_mutex_unlock(&home.lock);
    return nccl_result(result);
}

blink_context_t *nccl_home_find(void)
{
    pthread_mutex_lock(&home.lock);
    forget_parent();
    blink_context_t *context = home.context;
    if (context)
        home.users++;
    pthread_mutex_unlock(&home.lock);
    return context;
}

void nccl_home_put(blink_context_t *context)
{
    pthread_mutex_lock(&home.lock);
    forget_parent();
    if (context == home.context && --home.users == 0) {
        blink_close(home.context);
        home.context = NULL;
    }
    pthread_mutex_unlock(&home.lock);
}

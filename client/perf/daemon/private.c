/* Starting and stopping the private daemon. */
#include "daemon/private.h"

#include "tools/query.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MAX_S     30
#define STOP_MAX_S      10
#define POLL_MS         5
#define LOG_SHOWN_BYTES 2000
#define HOST_DEVICES    8 /* without --ranks, --devices and --topology */

static blink_result_t make_directory(perf_private_t *daemon)
{
    const char *parent = getenv("TMPDIR");
    char *directory = NULL;
    if (asprintf(&directory, "%s/blink-perf-XXXXXX", parent && *parent ? parent : "/tmp") < 0)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a directory name");
    if (!mkdtemp(directory)) {
        blink_result_t result = BLINK_FAIL_ERRNO("make directory %s", directory);
        free(directory);
        return result;
    }
    daemon->directory = directory;
    if (asprintf(&daemon->socket_path, "%s/blinkd.sock", directory) < 0 ||
        asprintf(&daemon->log_path, "%s/blinkd.log", directory) < 0)
        return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a file name");
    return BLINK_OK;
}

/* ---- in the child ---- */

static uint32_t devices_needed(const perf_options_t *options)
{
    uint32_t needed = options->rank_count;
    for (uint32_t i = 0; i < options->device_count; i++)
        needed = options->devices[i] >= needed ? options->devices[i] + 1 : needed;
    return needed > 0 ? needed : HOST_DEVICES;
}

/* Run `path` if it is there; returns if not. */
static void run_blinkd(const perf_private_t *daemon, const perf_options_t *options, const char *path)
{
    char devices[32] = "host"; /* all of the topology */
    char pace[64] = "--pace";
    if (!options->topology)
        snprintf(devices, sizeof(devices), "host:%u", devices_needed(options));
    if (options->pace_scale)
        snprintf(pace, sizeof(pace), "--pace=%s", options->pace_scale);
    /* The empty file: this machine's configuration is for its own daemon. */
    const char *arguments[11] = {path,        "--config", "/dev/null", "--socket", daemon->socket_path,
                                 "--devices", devices};
    size_t count = 7;
    if (options->topology) {
        arguments[count++] = "--topology";
        arguments[count++] = options->topology;
    }
    if (options->paced)
        arguments[count++] = pace;
    execvp(path, (char *const *)arguments);
}

/* The directory of this program, or "" if that cannot be known. */
static void own_directory(char directory[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);
    directory[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(directory, '/');
    if (slash)
        *slash = '\0';
}

static _Noreturn void become_blinkd(const perf_private_t *daemon, const perf_options_t *options)
{
    char own[PATH_MAX], path[PATH_MAX + 32];
    int log = open(daemon->log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    }
    setpgid(0, 0); /* Ctrl-C is for the parent, which then ends this in order */
    own_directory(own);
    snprintf(path, sizeof(path), "%s/blinkd", own);
    run_blinkd(daemon, options, path);
    run_blinkd(daemon, options, "blinkd");
    fprintf(stderr, "blinkd is neither in %s nor on PATH\n", own);
    fflush(stderr);
    _exit(127);
}

/* ---- in the parent ---- */

static void show_log(const perf_private_t *daemon)
{
    char text[LOG_SHOWN_BYTES + 1];
    FILE *log = fopen(daemon->log_path, "re");
    if (!log)
        return;
    if (fseek(log, -LOG_SHOWN_BYTES, SEEK_END) != 0)
        rewind(log);
    size_t length = fread(text, 1, LOG_SHOWN_BYTES, log);
    fclose(log);
    fwrite(text, 1, length, stderr);
}

static blink_result_t ended(perf_private_t *daemon, int status)
{
    daemon->pid = 0;
    show_log(daemon);
    if (WIFSIGNALED(status))
        return BLINK_FAIL(BLINK_ERR_SYSTEM, "the private blinkd was ended by signal %d (%s)",
                          WTERMSIG(status), strsignal(WTERMSIG(status)));
    return BLINK_FAIL(BLINK_ERR_SYSTEM, "the private blinkd ended with status %d", WEXITSTATUS(status));
}

static blink_result_t await_answer(perf_private_t *daemon, perf_signals_t *signals)
{
    for (int waited_ms = 0; waited_ms < START_MAX_S * 1000; waited_ms += POLL_MS) {
        int status;
        query_t query;
        if (signals->caught != 0)
            return BLINK_FAIL(BLINK_ERR_ABORTED, "interrupted");
        if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
            return ended(daemon, status);
        if (query_open(daemon->socket_path, "blink-perf", &query) == BLINK_OK) {
            query_close(&query);
            return BLINK_OK;
        }
        perf_signals_wait(signals, POLL_MS);
    }
    show_log(daemon);
    return BLINK_FAIL(BLINK_ERR_TIMEOUT, "the private blinkd does not answer within %d s", START_MAX_S);
}

blink_result_t perf_private_start(const perf_options_t *options, perf_signals_t *signals,
                                  perf_private_t *daemon)
{
    *daemon = (perf_private_t){0};
    BLINK_TRY(make_directory(daemon));
    BLINK_TRY(perf_fork(signals, SIGTERM, &daemon->pid));
    if (daemon->pid == 0)
        become_blinkd(daemon, options);
    return await_answer(daemon, signals);
}

static blink_result_t end_daemon(perf_private_t *daemon, perf_signals_t *signals)
{
    int status;
    kill(daemon->pid, SIGTERM);
    for (int waited_ms = 0; waited_ms < STOP_MAX_S * 1000; waited_ms += POLL_MS) {
        if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return BLINK_OK;
            return ended(daemon, status);
        }
        perf_signals_wait(signals, POLL_MS);
    }
    kill(daemon->pid, SIGKILL);
    waitpid(daemon->pid, &status, 0);
    show_log(daemon);
    return BLINK_FAIL(BLINK_ERR_SYSTEM, "the private blinkd did not end within %d s and was killed",
                      STOP_MAX_S);
}

/* With whatever a daemon that was killed has left there. */
static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_type != DT_DIR)
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}

blink_result_t perf_private_stop(perf_private_t *daemon, perf_signals_t *signals)
{
    blink_result_t result = daemon->pid > 0 ? end_daemon(daemon, signals) : BLINK_OK;
    if (daemon->directory)
        remove_directory(daemon->directory);
    free(daemon->log_path);
    free(daemon->socket_path);
    free(daemon->directory);
    *daemon = (perf_private_t){0};
    return result;
}

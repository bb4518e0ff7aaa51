#include "run/child.h"

#include "run/options.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The descriptors between parent and child: [0] to read from, [1] to write to. */
typedef struct pipes {
    int in[2], out[2], err[2]; /* the child's; `in` may be without a pipe */
    int failure[2];            /* closed by a successful exec, else the errno comes */
} pipes_t;

static void close_both(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        pair[i] = -1;
    }
}

static void close_all(pipes_t *pipes)
{
    close_both(pipes->in);
    close_both(pipes->out);
    close_both(pipes->err);
    close_both(pipes->failure);
}

static blink_result_t make_pipes(bool is_host, pipes_t *pipes)
{
    *pipes = (pipes_t){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    if ((is_host ? pipe2(pipes->in, O_CLOEXEC) != 0
                 : (pipes->in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) ||
        pipe2(pipes->out, O_CLOEXEC) != 0 || pipe2(pipes->err, O_CLOEXEC) != 0 ||
        pipe2(pipes->failure, O_CLOEXEC) != 0)
        return BLINK_FAIL_ERRNO("pipes for a child");
    return BLINK_OK;
}

/* A rank ends with its parent, however that ends. What runs a blinkrun elsewhere must live to tell it. */
static void end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RUN_EXIT_FAILED);
}

/* In the child. */
static void become(const child_t *child, const child_config_t *config, const pipes_t *pipes, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    if (!child->is_host)
        end_with(parent);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (char **variable = config->environment; variable && *variable; variable++)
        putenv(*variable);
    if (dup2(pipes->in[0], STDIN_FILENO) >= 0 && dup2(pipes->out[1], STDOUT_FILENO) >= 0 &&
        dup2(pipes->err[1], STDERR_FILENO) >= 0)
        execvp(config->arguments[0], config->arguments);
    int failure = errno;
    (void)!write(pipes->failure[1], &failure, sizeof(failure));
    _exit(RUN_EXIT_FAILED);
}

/* Until the child is what it is to be. 0, or the errno that kept it from that. */
static int await_exec(const pipes_t *pipes)
{
    int failure = 0;
    ssize_t got;
    while ((got = read(pipes->failure[0], &failure, sizeof(failure))) < 0 && errno == EINTR)
        continue;
    return got == sizeof(failure) ? failure : 0;
}

static void keep(int pair[2], int which, int *kept)
{
    *kept = pair[which];
    pair[which] = -1;
    fcntl(*kept, F_SETFL, O_NONBLOCK);
}

static blink_result_t start(child_t *child, const child_config_t *config, pipes_t *pipes)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return BLINK_FAIL_ERRNO("fork");
    if (pid == 0)
        become(child, config, pipes, parent);
    setpgid(pid, pid); /* as the child does: whoever comes first */
    close(pipes->failure[1]);
    pipes->failure[1] = -1;
    int failure = await_exec(pipes);
    if (failure != 0) {
        waitpid(pid, NULL, 0);
        return BLINK_FAIL(BLINK_ERR_NOT_FOUND, "%s: %s", config->arguments[0], strerror(failure));
    }
    child->pid = pid;
    keep(pipes->out, 0, &child->out.from);
    keep(pipes->err, 0, &child->err.from);
    child->out.to = STDOUT_FILENO;
    child->err.to = STDERR_FILENO;
    if (child->is_host)
        keep(pipes->in, 1, &child->control);
    return BLINK_OK;
}

blink_result_t child_start(child_t *child, const child_config_t *config)
{
    pipes_t pipes;
    child->control = child->out.from = child->err.from = -1;
    blink_result_t result = make_pipes(child->is_host, &pipes);
    if (result == BLINK_OK)
        result = start(child, config, &pipes);
    close_all(&pipes);
    return result;
}

void child_signal(child_t *child, int number)
{
    char byte = (char)number;
    if (child->pid == 0)
        return;
    if (child->control >= 0)
        (void)!write(child->control, &byte, 1); /* if it cannot be told, it is ended by and by */
    else
        kill(-child->pid, number);
}

/* The child is a zombie, so its number is nobody else's yet. */
static int bury(child_t *child)
{
    int status = 0;
    kill(-child->pid, SIGKILL);
    waitpid(child->pid, &status, 0);
    child->pid = 0;
    if (child->control >= 0)
        close(child->control);
    child->control = -1;
    lines_end(&child->out);
    lines_end(&child->err);
    return status;
}

bool child_reap(child_t *child, int *status)
{
    siginfo_t ended = {0};
    if (child->pid == 0 || waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid == 0)
        return false;
    *status = bury(child);
    return true;
}

void child_kill(child_t *child)
{
    siginfo_t ended;
    if (child->pid == 0)
        return;
    kill(-child->pid, SIGKILL);
    while (waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
    (void)bury(child);
}

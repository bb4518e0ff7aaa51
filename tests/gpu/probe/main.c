/* gpu_probe: what a GPU and its driver really do, before anything is built on guesses about it. Every
 * question runs in processes of its own with a deadline, so that one that hangs or crashes costs only its
 * row. Here: options, those processes, and the table's rows on standard output. */
#include "probe.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NO_GPU = 3, DESCRIBE_DEADLINE_S = 30 };

typedef struct options {
    const char *libcuda, *mps_pipe, *no_mps;
    const char *only;
    unsigned budget_s;
} options_t;

static const struct argp_option option_table[] = {
    {"libcuda", 'l', "FILE", 0, "the driver's library (default libcuda.so.1)", 0},
    {"mps", 'm', "DIRECTORY", 0,
     "ask the questions about MPS, and no others: the pipe directory of a running nvidia-cuda-mps-control",
     0},
    {"no-mps", 'n', "WHY", 0, "ask nothing, mark the questions about MPS as unsupported for this reason", 0},
    {"only", 'o', "NUMBER", 0, "only questions whose number begins so (4, 4a)", 0},
    {"budget", 'b', "SECONDS", 0, "start no question after so many seconds (default 200)", 0},
    {0},
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    options_t *options = state->input;
    char *end;
    switch (key) {
    case 'l':
        options->libcuda = argument;
        return 0;
    case 'm':
        options->mps_pipe = argument;
        return 0;
    case 'n':
        options->no_mps = argument;
        return 0;
    case 'o':
        options->only = argument;
        return 0;
    case 'b':
        options->budget_s = (unsigned)strtoul(argument, &end, 10);
        if (*end || options->budget_s == 0 || options->budget_s > 3600)
            argp_error(state, "--budget %s: a number of seconds from 1 to 3600", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->mps_pipe && options->no_mps)
            argp_error(state, "--mps and --no-mps exclude one another");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The group of a question's processes: its leader is the first of them. */
typedef enum ending { ENDED, CRASHED, HUNG } ending_t;

static void run_question(probe_t *p)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->fd_socket) == 0)
        p->question->run(p); /* the board says how it went */
    else
        probe_note_error(p, "socketpair: %m");
    _exit(0);
}

/* A process stuck in the driver does not die at once; it is not waited for longer than a few seconds. */
static bool reap(pid_t pid, int *status, unsigned timeout_ms)
{
    for (unsigned waited_ms = 0; waited_ms <= timeout_ms; waited_ms++) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return true;
        probe_sleep_ms(1);
    }
    return false;
}

static ending_t supervise(probe_t *p, int *signal_number)
{
    int status = 0;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid < 0)
        return CRASHED;
    if (pid == 0)
        run_question(p);
    setpgid(pid, pid); /* whichever comes first */
    const bool is_over = reap(pid, &status, p->question->deadline_s * 1000);
    kill(-pid, SIGKILL); /* what is left of the group, which is this question's alone */
    if (!is_over) {
        reap(pid, &status, 5000);
        return HUNG;
    }
    *signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return *signal_number ? CRASHED : ENDED;
}

static void print_row(const probe_question_t *question, const char *verdict, const char *answer,
                      const char *numbers)
{
    printf("| %s | %s | %s | %s | %s | %s |\n", question->number, question->asked, question->assumed, verdict,
           answer, numbers);
    fflush(stdout);
}

static void join_errors(const probe_board_t *board, char *text, size_t bytes)
{
    const uint32_t count = board->error_count < PROBE_ERRORS ? board->error_count : PROBE_ERRORS;
    snprintf(text, bytes, "%s", board->answer);
    for (uint32_t i = 0; i < count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", used ? "; " : "", board->error[i]);
    }
}

static void ask(probe_t *p)
{
    static const char *const verdicts[] = {
        [PROBE_PASS] = "PASS", [PROBE_FAIL] = "FAIL", [PROBE_UNSUPPORTED] = "UNSUPPORTED"};
    char text[2048], verdict[64];
    int signal_number = 0;
    memset(p->board, 0, sizeof(*p->board));
    const ending_t ending = supervise(p, &signal_number);
    join_errors(p->board, text, sizeof(text));
    if (ending == HUNG)
        snprintf(verdict, sizeof(verdict), "hung (killed after %u s)", p->question->deadline_s);
    else if (ending == CRASHED)
        snprintf(verdict, sizeof(verdict), "crashed (%s)", strsignal(signal_number));
    else if (p->board->verdict != PROBE_NONE)
        snprintf(verdict, sizeof(verdict), "%s", verdicts[p->board->verdict]);
    else
        snprintf(verdict, sizeof(verdict), "%s", p->board->is_unsupported ? "UNSUPPORTED" : "FAIL");
    print_row(p->question, verdict, *text ? text : "no answer", p->board->numbers);
}

/* The GPU in a sentence, asked by a process of its own, as this one must not touch CUDA before it forks. */
static bool describe(probe_t *p)
{
    char name[96] = "", *out = p->board->answer;
    int count = 0, version = 0, wait = 0, engines = 0, preempts = 0;
    CUuuid uuid;
    PROBE_TRY(probe_load(p));
    PROBE_CU(cuDeviceGetCount(&count));
    if (count < 1) {
        probe_note_error(p, "the driver knows no GPU");
        return false;
    }
    PROBE_CU(cuDeviceGet(&p->device, 0));
    PROBE_CU(cuDeviceGetName(name, sizeof(name), p->device));
    PROBE_CU(cuDriverGetVersion(&version));
    PROBE_CU(cuDeviceGetUuid(&uuid, p->device));
    PROBE_CU(cuDeviceGetAttribute(&wait, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, p->device));
    PROBE_CU(cuDeviceGetAttribute(&engines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, p->device));
    PROBE_CU(cuDeviceGetAttribute(&preempts, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, p->device));
    snprintf(out, sizeof(p->board->answer),
             "%s (device 0 of %d), CUDA driver API %d.%d, %d copy engines, compute preemption %s", name,
             count, version / 1000, version % 1000 / 10, engines, preempts ? "yes" : "no");
    p->board->verdict = PROBE_PASS;
    return true;
}

static bool find_gpu(probe_t *p)
{
    static const probe_question_t question = {
        .number = "0", .run = describe, .deadline_s = DESCRIBE_DEADLINE_S};
    int signal_number;
    char text[2048];
    p->question = &question;
    if (supervise(p, &signal_number) == ENDED && p->board->verdict == PROBE_PASS) {
        printf("GPU: %s\n\n", p->board->answer);
        return true;
    }
    join_errors(p->board, text, sizeof(text));
    fprintf(stderr, "gpu_probe: no GPU to ask: %s\n",
            *text ? text : "the driver crashed or hung at its start");
    return false;
}

static void ask_all(probe_t *p, const options_t *options)
{
    static const probe_question_t *const groups[] = {
        probe_word_questions,   probe_share_questions,    probe_memory_questions, probe_stream_questions,
        probe_beside_questions, probe_stranger_questions, probe_queue_questions};
    const uint64_t end_ns = probe_now_ns() + options->budget_s * UINT64_C(1000000000);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        for (const probe_question_t *question = groups[i]; question->number; question++) {
            if (options->only && strncmp(question->number, options->only, strlen(options->only)) != 0)
                continue;
            if ((question->mode == PROBE_MPS) != (options->mps_pipe || options->no_mps))
                continue;
            p->question = question;
            if (options->no_mps)
                print_row(question, "UNSUPPORTED", options->no_mps, "");
            else if (probe_now_ns() < end_ns)
                ask(p);
            else
                print_row(question, "not asked", "the time given was used up", "");
        }
    }
}

int main(int argc, char **argv)
{
    const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .doc = "Asks the GPU and its driver what blinkd's design takes for granted and prints one table row "
               "per question. Exits "
               "with 3 where there is no GPU.",
    };
    options_t options = {.libcuda = "libcuda.so.1", .budget_s = 200};
    argp_parse(&parser, argc, argv, 0, NULL, &options);

    probe_t p = {.libcuda = options.libcuda, .mps_pipe = options.mps_pipe, .no_mps_pipe = "/nonexistent/mps"};
    p.board = mmap(NULL, sizeof(*p.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p.board == MAP_FAILED) {
        fprintf(stderr, "gpu_probe: mmap: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    if (!find_gpu(&p))
        return EXIT_NO_GPU;
    ask_all(&p, &options);
    return EXIT_SUCCESS;
}

/* Question 13: memory of processes that differ from the importer as programs differ from a service: another
 * user, containers' namespaces, other visible devices. Legacy IPC is said to be refused between some of them,
 * and is staged then; descriptors are said to be indifferent. */
#include "probe.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 8 << 20, PATTERN = 0x31415926, NOBODY = 65534 };
enum { STAGE_SENT, STAGE_OVER };

/* The variant says who exports, and with IS_VMM how. */
enum { OTHER_USER, PID_NAMESPACE, NET_NAMESPACE, OTHER_DEVICES, WHO = 7, IS_VMM = 8 };

static share_way_t way_of(const probe_t *p)
{
    return p->question->variant & IS_VMM ? SHARE_VMM : SHARE_LEGACY;
}

static bool export_memory(probe_t *p)
{
    share_t share;
    PROBE_TRY(probe_open(p, p->question->mode) && share_create(p, way_of(p), BYTES, &share) &&
              share_fill(p, &share, PATTERN) && share_send(p, &share));
    probe_reach(p, STAGE_SENT);
    return probe_await(p, STAGE_OVER, 10000);
}

static bool unshare_or_say(probe_t *p, int what)
{
    if (unshare(what) == 0)
        return true;
    probe_note_error(p, "unshare: %m (this question wants root)");
    atomic_store_explicit(&p->board->is_unsupported, true, memory_order_relaxed);
    return false;
}

/* A process is in the namespace that its parent has asked for. */
static bool export_in_pid_namespace(probe_t *p)
{
    int status;
    PROBE_TRY(unshare_or_say(p, CLONE_NEWPID));
    const pid_t pid = fork();
    if (pid < 0)
        return false;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(export_memory(p) ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool export_as_stranger(probe_t *p)
{
    switch (p->question->variant & WHO) {
    case OTHER_USER:
        if (setgid(NOBODY) || setuid(NOBODY)) {
            probe_note_error(p, "setuid: %m (this question wants root)");
            atomic_store_explicit(&p->board->is_unsupported, true, memory_order_relaxed);
            return false;
        }
        break;
    case PID_NAMESPACE:
        return export_in_pid_namespace(p);
    case NET_NAMESPACE:
        PROBE_TRY(unshare_or_say(p, CLONE_NEWNET));
        break;
    default:
        setenv("CUDA_VISIBLE_DEVICES", "1,0", 1); /* its device 0 is the importer's device 1 */
    }
    return export_memory(p);
}

static bool check_place(probe_t *p, const share_t *share)
{
    int ordinal = -1;
    PROBE_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, share->address));
    probe_number(p, "device ordinal of the import %d", ordinal);
    if (way_of(p) == SHARE_VMM) {
        CUmemAllocationProp property;
        PROBE_CU(cuMemGetAllocationPropertiesFromHandle(&property, share->handle));
        probe_number(p, "location of the handle %d", property.location.id);
    }
    return true;
}

static bool ask_stranger(probe_t *p)
{
    pid_t exporter;
    share_t share;
    uint32_t first = 0;
    int count = 0;
    PROBE_TRY(probe_actor(p, export_as_stranger, &exporter) && probe_open(p, p->question->mode));
    PROBE_CU(cuDeviceGetCount(&count));
    if ((p->question->variant & WHO) == OTHER_DEVICES && count < 2) {
        probe_answer(p, PROBE_UNSUPPORTED, "it takes two GPUs");
        return true;
    }
    PROBE_TRY(probe_await(p, STAGE_SENT, 10000));
    if (!share_receive(p, way_of(p), BYTES, &share)) {
        const bool is_staged = way_of(p) == SHARE_LEGACY;
        probe_answer(p, is_staged ? PROBE_PASS : PROBE_FAIL, "REFUSED, so such memory is staged");
        return true;
    }
    PROBE_TRY(check_place(p, &share));
    PROBE_CU(cuMemcpyDtoH(&first, share.address, sizeof(first)));
    probe_answer(p, first == PATTERN ? PROBE_PASS : PROBE_FAIL, "imported; its first word is %s",
                 first == PATTERN ? "right" : "wrong");
    probe_reach(p, STAGE_OVER);
    return true;
}

#define ASSUME_USER   "a service imports memory of programs of other users; where it is refused it is staged"
#define ASSUME_PID    "containers: descriptors work, legacy IPC may be refused and is staged then"
#define ASSUME_NET    "the service's PrivateNetwork=yes does not stand between it and programs"
#define ASSUME_OTHERS "the import's ordinal, and not the handle's location, tells which GPU it is on"

const probe_question_t probe_stranger_questions[] = {
    {"13a", "legacy IPC from another user", ASSUME_USER, ask_stranger, OTHER_USER, PROBE_ISOLATED, 15},
    {"13b", "VMM descriptor from another user", ASSUME_USER, ask_stranger, OTHER_USER | IS_VMM,
     PROBE_ISOLATED, 15},
    {"13c", "legacy IPC from another PID namespace", ASSUME_PID, ask_stranger, PID_NAMESPACE, PROBE_ISOLATED,
     15},
    {"13d", "VMM descriptor from another PID namespace", ASSUME_PID, ask_stranger, PID_NAMESPACE | IS_VMM,
     PROBE_ISOLATED, 15},
    {"13e", "legacy IPC from another network namespace", ASSUME_NET, ask_stranger, NET_NAMESPACE,
     PROBE_ISOLATED, 15},
    {"13f", "VMM descriptor from another network namespace", ASSUME_NET, ask_stranger, NET_NAMESPACE | IS_VMM,
     PROBE_ISOLATED, 15},
    {"13g", "legacy IPC from a process with CUDA_VISIBLE_DEVICES=1,0", ASSUME_OTHERS, ask_stranger,
     OTHER_DEVICES, PROBE_ISOLATED, 15},
    {"13h", "VMM descriptor from a process with CUDA_VISIBLE_DEVICES=1,0", ASSUME_OTHERS, ask_stranger,
     OTHER_DEVICES | IS_VMM, PROBE_ISOLATED, 15},
    {0},
};

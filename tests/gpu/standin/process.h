/*
 * For tests over the stand-in: processes that talk over a socket, and checks that end the process. Every test
 * of the stand-in runs in a process of its own, for CUDA is initialised once per process and not inherited.
 */
#ifndef STANDIN_PROCESS_H
#define STANDIN_PROCESS_H

#include "base/cuda_driver.h"
#include "limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

#define CHECK_RESULT(expected, name, ...)                                                                    \
    process_check(__FILE__, __LINE__, #name, cuda->name(__VA_ARGS__), expected)
#define CU(name, ...) CHECK_RESULT(CUDA_SUCCESS, name, __VA_ARGS__)

static const cuda_driver_t *cuda; /* of this process */

static inline void process_check(const char *file, int line, const char *call, CUresult result,
                                 CUresult expected)
{
    if (result == expected)
        return;
    fprintf(stderr, "%s:%d: %s returned %d, not %d\n", file, line, call, (int)result, (int)expected);
    _exit(1);
}

/** Find the driver. */
static inline void process_load(void)
{
    cuda = cuda_driver_find(true);
    if (!cuda)
        fprintf(stderr, "%s\n", blink_error_text());
    CHECK(cuda);
}

/** Make a device's context current. */
static inline CUcontext process_use(int ordinal)
{
    CUcontext context;
    if (!cuda)
        process_load();
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, ordinal);
    CU(cuCtxSetCurrent, context);
    return context;
}

typedef struct process {
    pid_t pid;
    int socket; /* to the other end */
} process_t;

/** Run a function in a child that ends with it; it gets the other end of the socket. */
static inline process_t process_start(void (*run)(int socket))
{
    int sockets[2];
    CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets));
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        close(sockets[0]);
        alarm(limit_s());
        run(sockets[1]);
        exit(0);
    }
    close(sockets[1]);
    return (process_t){pid, sockets[0]};
}

/** How it ended, as waitpid() says. */
static inline int process_end(process_t process)
{
    int status;
    CHECK(waitpid(process.pid, &status, 0) == process.pid);
    close(process.socket);
    return status;
}

/** Send bytes, and a file with them unless it is -1. */
static inline void process_send(int socket, const void *bytes, size_t count, int file)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &file, sizeof(file));
    }
    CHECK(sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)count);
}

/** Returns the file, or -1. */
static inline int process_receive(int socket, void *bytes, size_t count)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {bytes, count};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == (ssize_t)count);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int file = -1;
    if (header)
        memcpy(&file, CMSG_DATA(header), sizeof(file));
    return file;
}

/** A word there, read by the process itself. */
static inline uint64_t process_word(CUdeviceptr address)
{
    uint64_t word;
    CU(cuMemcpyDtoH, &word, address, sizeof(word));
    return word;
}

/** What cuMemCreate() is told: memory of a device that can be shared as a descriptor. */
static inline CUmemAllocationProp process_properties(int ordinal)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
}

/** What cuMemSetAccess() is told: a device may read and write. */
static inline CUmemAccessDesc process_access(int ordinal)
{
    return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
                             .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

/** Launch blocks of one thread. */
static inline CUresult process_launch(CUfunction function, unsigned blocks, bool is_cooperative,
                                      CUstream stream, void **parameters)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                   .value = {.cooperative = is_cooperative}};
    const CUlaunchConfig config = {.gridDimX = blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream,
                                   .attrs = &attribute,
                                   .numAttrs = 1};
    return cuda->cuLaunchKernelEx(&config, function, parameters, NULL);
}

/** Both sides have come here. */
static inline void process_meet(int socket)
{
    char byte = 0;
    process_send(socket, &byte, 1, -1);
    process_receive(socket, &byte, 1);
}

/** A test: in a process of its own. */
typedef struct process_test {
    const char *name;
    void (*run)(int socket); /* which nobody listens to */
    const char *environment; /* "NAME=value", for this test only; NULL: nothing */
} process_test_t;

/** Run all; returns how many failed. */
static inline int process_run_all(const process_test_t *tests, size_t count)
{
    int failures = 0;
    for (size_t i = 0; i < count; i++) {
        char name[64] = "";
        const char *value = tests[i].environment ? strchr(tests[i].environment, '=') : NULL;
        if (value) {
            snprintf(name, sizeof(name), "%.*s", (int)(value - tests[i].environment), tests[i].environment);
            setenv(name, value + 1, 1);
        }
        int status = process_end(process_start(tests[i].run));
        if (status)
            printf("FAILED %s: wait status %#x\n", tests[i].name, (unsigned)status);
        else
            printf("ok     %s\n", tests[i].name);
        failures += status != 0;
        if (value)
            unsetenv(name);
    }
    return failures;
}

#endif

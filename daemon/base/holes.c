/* By userfaultfd, which can have the missing pages of a range answered by SIGBUS instead of by anybody. */
#include "base/holes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

blink_result_t holes_open(int *holes)
{
    /* Without the kernel's own faults, which nobody answers here either, no capability is needed. */
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        return BLINK_FAIL_ERRNO("userfaultfd");
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM};
    if (ioctl(fd, UFFDIO_API, &api) != 0) {
        blink_result_t result = BLINK_FAIL_ERRNO("userfaultfd with SIGBUS for shared memory");
        close(fd);
        return result;
    }
    *holes = fd;
    return BLINK_OK;
}

blink_result_t holes_keep(int holes, void *base, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)base, .len = (bytes + page_bytes - 1) / page_bytes * page_bytes},
        .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (holes >= 0 && ioctl(holes, UFFDIO_REGISTER, &range) != 0)
        return BLINK_FAIL_ERRNO("keep the holes of %zu bytes", bytes);
    return BLINK_OK;
}

/* Device memory between processes by exported descriptors and by legacy IPC handles, behind one face so that
 * questions 4, 5 and 8 put both to the same test. */
#include "probe.h"

#include <unistd.h>

static bool allocate_vmm(probe_t *p, share_t *share)
{
    const CUmemAllocationProp property = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = p->device},
    };
    PROBE_CU(cuMemCreate(&share->handle, share->bytes, &property, 0));
    return true;
}

static bool map_vmm(probe_t *p, const share_t *share)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = p->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    PROBE_CU(cuMemMap(share->address, share->bytes, 0, share->handle, 0));
    PROBE_CU(cuMemSetAccess(share->address, share->bytes, &access, 1));
    return true;
}

static bool unmap_vmm(probe_t *p, const share_t *share)
{
    PROBE_CU(cuMemUnmap(share->address, share->bytes));
    PROBE_CU(cuMemRelease(share->handle));
    return true;
}

bool share_create(probe_t *p, share_way_t way, size_t bytes, share_t *share)
{
    *share = (share_t){.way = way, .bytes = bytes};
    if (way == SHARE_LEGACY) {
        PROBE_CU(cuMemAlloc(&share->address, bytes));
        return true;
    }
    PROBE_TRY(allocate_vmm(p, share));
    PROBE_CU(cuMemAddressReserve(&share->address, bytes, 0, 0, 0));
    return map_vmm(p, share);
}

bool share_renew(probe_t *p, share_t *share)
{
    if (share->way == SHARE_LEGACY) {
        PROBE_CU(cuMemFree(share->address));
        PROBE_CU(cuMemAlloc(&share->address, share->bytes));
        return true;
    }
    PROBE_TRY(unmap_vmm(p, share));
    PROBE_TRY(allocate_vmm(p, share));
    return map_vmm(p, share);
}

bool share_send(probe_t *p, const share_t *share)
{
    if (share->way == SHARE_LEGACY) {
        PROBE_CU(cuIpcGetMemHandle(&p->board->ipc_handle, share->address));
        return true;
    }
    int fd;
    PROBE_CU(cuMemExportToShareableHandle(&fd, share->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    const bool is_sent = probe_send_fd(p, fd);
    close(fd);
    return is_sent;
}

bool share_receive(probe_t *p, share_way_t way, size_t bytes, share_t *share)
{
    *share = (share_t){.way = way, .bytes = bytes};
    if (way == SHARE_LEGACY) {
        PROBE_CU(
            cuIpcOpenMemHandle(&share->address, p->board->ipc_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        return true;
    }
    int fd;
    PROBE_TRY(probe_receive_fd(p, &fd));
    PROBE_CU(cuMemImportFromShareableHandle(&share->handle, (void *)(uintptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    PROBE_CU(cuMemAddressReserve(&share->address, bytes, 0, 0, 0));
    return map_vmm(p, share);
}

bool share_close_import(probe_t *p, share_t *share)
{
    if (share->way == SHARE_VMM)
        return unmap_vmm(p, share);
    PROBE_CU(cuIpcCloseMemHandle(share->address));
    return true;
}

bool share_fill(probe_t *p, const share_t *share, uint32_t value)
{
    PROBE_CU(cuMemsetD32(share->address, value, share->bytes / sizeof(value)));
    PROBE_CU(cuCtxSynchronize());
    return true;
}

bool share_buffer_id(probe_t *p, CUdeviceptr address, uint64_t *id)
{
    unsigned long long value = 0;
    PROBE_CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    *id = value;
    return true;
}

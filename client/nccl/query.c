/* What is asked of the library and of communicators. */
#include "comm.h"

#include <string.h>

abi_result_t ncclGetVersion(int *version)
{
    if (!version)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclGetVersion: version is NULL");
    *version = ABI_VERSION;
    return ABI_SUCCESS;
}

const char *ncclGetErrorString(abi_result_t result)
{
    switch (result) {
    case ABI_SUCCESS:
        return "no error";
    case ABI_CUDA_ERROR:
        return "a call of the CUDA driver failed (ncclGetLastError() names it)";
    case ABI_SYSTEM_ERROR:
        return "the daemon or the system failed (ncclGetLastError() says how)";
    case ABI_INTERNAL_ERROR:
        return "a defect of blinkd";
    case ABI_INVALID_ARGUMENT:
        return "invalid argument (ncclGetLastError() names it)";
    case ABI_INVALID_USAGE:
        return "invalid usage (ncclGetLastError() says why)";
    case ABI_REMOTE_ERROR:
        return "another rank was lost or has aborted";
    case ABI_IN_PROGRESS:
        return "in progress";
    case ABI_TIMEOUT:
        return "ranks did not come in time (ncclGetLastError() names them)";
    }
    return "unknown result code";
}

const char *ncclGetLastError(nccl_comm_t *comm)
{
    (void)comm; /* the sentence is the thread's, as with NCCL it is the process's */
    return nccl_sentence();
}

static abi_result_t tell(const nccl_comm_t *comm, const char *call, int value, int *place)
{
    if (!comm || !place)
        return nccl_fail(ABI_INVALID_ARGUMENT, "%s: %s is NULL", call,
                         comm ? "the place for the answer" : "comm");
    *place = value;
    return ABI_SUCCESS;
}

abi_result_t ncclCommCount(const nccl_comm_t *comm, int *count)
{
    return tell(comm, __func__, comm ? comm->rank_count : 0, count);
}

abi_result_t ncclCommCuDevice(const nccl_comm_t *comm, int *device)
{
    return tell(comm, __func__, comm ? comm->gpu.ordinal : 0, device);
}

abi_result_t ncclCommUserRank(const nccl_comm_t *comm, int *rank)
{
    return tell(comm, __func__, comm ? comm->rank : 0, rank);
}

/* It has grown at its end before, and may again: no more is written than the program has. */
abi_result_t ncclCommQueryProperties(nccl_comm_t *comm, abi_properties_t *properties)
{
    if (!comm || !properties)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommQueryProperties: %s is NULL",
                         comm ? "props" : "comm");
    size_t bytes = properties->struct_bytes, head = offsetof(abi_properties_t, rank);
    if (properties->magic != ABI_MAGIC || bytes < head)
        return nccl_fail(ABI_INVALID_ARGUMENT, "ncclCommQueryProperties: props has not been initialised with "
                                               "NCCL_COMM_PROPERTIES_INITIALIZER");
    const abi_properties_t told = {.rank = comm->rank,
                                   .rank_count = comm->rank_count,
                                   .cuda_device = comm->gpu.ordinal,
                                   .nvml_device = comm->gpu.ordinal,
                                   .lsa_teams = comm->rank_count};
    bytes = bytes < sizeof(told) ? bytes : sizeof(told);
    memcpy((char *)properties + head, (const char *)&told + head, bytes - head);
    return ABI_SUCCESS;
}

/* ---- teams: no rank loads and stores in the memory of another one ---- */

abi_team_t ncclTeamWorld(nccl_comm_t *comm)
{
    return comm ? (abi_team_t){comm->rank_count, comm->rank, 1} : (abi_team_t){0};
}

abi_team_t ncclTeamLsa(nccl_comm_t *comm)
{
    return comm ? (abi_team_t){1, 0, 1} : (abi_team_t){0};
}

abi_team_t ncclTeamRail(nccl_comm_t *comm)
{
    return ncclTeamWorld(comm);
}

int ncclTeamRankToWorld(nccl_comm_t *comm, abi_team_t team, int rank)
{
    return comm ? comm->rank + (rank - team.rank) * team.stride : -1;
}

int ncclTeamRankToLsa(nccl_comm_t *comm, abi_team_t team, int rank)
{
    return comm ? (rank - team.rank) * team.stride : -1;
}

/* ---- what has nothing to say ---- */

int ncclLLA2ACalcSlots(int element_count, int element_bytes)
{
    (void)element_count;
    (void)element_bytes;
    return 0; /* ncclLLA2ACreateRequirement() is refused */
}

void ncclParamDumpAll(void) {}

void ncclResetDebugInit(void) {}

void ncclResetDebugInitInternal(void) {}

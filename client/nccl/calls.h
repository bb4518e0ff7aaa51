/* The functions of this library that do something, as NCCL declares them, in our names for its types. */
#ifndef CLIENT_NCCL_CALLS_H
#define CLIENT_NCCL_CALLS_H

#include "abi.h"

/** One rank of a communicator: ncclComm_t points to it. */
typedef struct nccl_comm nccl_comm_t;

/* query.c */
abi_result_t ncclGetVersion(int *version);
const char *ncclGetErrorString(abi_result_t result);
const char *ncclGetLastError(nccl_comm_t *comm);
abi_result_t ncclCommCount(const nccl_comm_t *comm, int *count);
abi_result_t ncclCommCuDevice(const nccl_comm_t *comm, int *device);
abi_result_t ncclCommUserRank(const nccl_comm_t *comm, int *rank);
abi_result_t ncclCommQueryProperties(nccl_comm_t *comm, abi_properties_t *properties);
abi_team_t ncclTeamWorld(nccl_comm_t *comm);
abi_team_t ncclTeamLsa(nccl_comm_t *comm);
abi_team_t ncclTeamRail(nccl_comm_t *comm);
int ncclTeamRankToWorld(nccl_comm_t *comm, abi_team_t team, int rank);
int ncclTeamRankToLsa(nccl_comm_t *comm, abi_team_t team, int rank);
int ncclLLA2ACalcSlots(int element_count, int element_bytes);
void ncclParamDumpAll(void);
void ncclResetDebugInit(void);
void ncclResetDebugInitInternal(void);

/* init.c */
abi_result_t ncclGetUniqueId(abi_unique_id_t *id);
abi_result_t ncclCommInitRank(nccl_comm_t **comm, int rank_count, abi_unique_id_t id, int rank);
abi_result_t ncclCommInitRankConfig(nccl_comm_t **comm, int rank_count, abi_unique_id_t id, int rank,
                                    abi_config_t *config);
abi_result_t ncclCommInitRankScalable(nccl_comm_t **comm, int rank_count, int rank, int id_count,
                                      abi_unique_id_t *ids, abi_config_t *config);
abi_result_t ncclCommInitAll(nccl_comm_t **comms, int count, const int *devices);

/* end.c */
abi_result_t ncclCommFinalize(nccl_comm_t *comm);
abi_result_t ncclCommDestroy(nccl_comm_t *comm);
abi_result_t ncclCommAbort(nccl_comm_t *comm);
abi_result_t ncclCommRevoke(nccl_comm_t *comm, int flags);
abi_result_t ncclCommGetAsyncError(nccl_comm_t *comm, abi_result_t *error);

/* derive.c */
abi_result_t ncclCommSplit(nccl_comm_t *comm, int color, int key, nccl_comm_t **split, abi_config_t *config);
abi_result_t ncclCommShrink(nccl_comm_t *comm, int *excluded, int excluded_count, nccl_comm_t **shrunk,
                            abi_config_t *config, int flags);

/* grow.c */
abi_result_t ncclCommGetUniqueId(nccl_comm_t *comm, abi_unique_id_t *id);
abi_result_t ncclCommGrow(nccl_comm_t *comm, int rank_count, const abi_unique_id_t *id, int rank,
                          nccl_comm_t **grown, abi_config_t *config);

/* group.c */
abi_result_t ncclGroupStart(void);
abi_result_t ncclGroupEnd(void);
abi_result_t ncclGroupSimulateEnd(abi_sim_info_t *info);

/* redop.c */
abi_result_t ncclRedOpCreatePreMulSum(blink_redop_t *redop, void *scalar, blink_datatype_t datatype,
                                      abi_residence_t residence, nccl_comm_t *comm);
abi_result_t ncclRedOpDestroy(blink_redop_t redop, nccl_comm_t *comm);

/* memory.c */
abi_result_t ncclMemAlloc(void **address, size_t bytes);
abi_result_t ncclMemFree(void *address);
abi_result_t ncclCommRegister(const nccl_comm_t *comm, void *address, size_t bytes, void **handle);
abi_result_t ncclCommDeregister(const nccl_comm_t *comm, void *handle);

/* collectives.c */
abi_result_t ncclAllReduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                           blink_redop_t redop, nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclBroadcast(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                           nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclBcast(void *buffer, size_t count, blink_datatype_t datatype, int root, nccl_comm_t *comm,
                       blink_stream_t stream);
abi_result_t ncclReduce(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                        blink_redop_t redop, int root, nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclAllGather(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                           nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclReduceScatter(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                               blink_redop_t redop, nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclGather(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                        nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclScatter(const void *send, void *recv, size_t count, blink_datatype_t datatype, int root,
                         nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclAlltoAll(const void *send, void *recv, size_t count, blink_datatype_t datatype,
                          nccl_comm_t *comm, blink_stream_t stream);
abi_result_t ncclSend(const void *send, size_t count, blink_datatype_t datatype, int peer, nccl_comm_t *comm,
                      blink_stream_t stream);
abi_result_t ncclRecv(void *recv, size_t count, blink_datatype_t datatype, int peer, nccl_comm_t *comm,
                      blink_stream_t stream);

#endif

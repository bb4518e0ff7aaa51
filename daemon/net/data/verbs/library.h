/*
 * The calls of librdmacm and libibverbs, which are loaded when RDMA is wanted: a host without rdma-core runs
 * without. Names and contracts are those of the libraries, without their prefixes; what verbs.h has inline
 * (posting, polling) goes through the device's own calls. A test may have a table of its own.
 */
#ifndef BLINK_VERBS_LIBRARY_H
#define BLINK_VERBS_LIBRARY_H

#include "error.h"

#include <rdma/rdma_cma.h>

typedef struct verbs_library {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *channel);
    int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);
    int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space space);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *address);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    uint16_t (*get_src_port)(struct rdma_cm_id *id);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *attributes);
    void (*destroy_qp)(struct rdma_cm_id *id);
    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *parameters);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *parameters);
    int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t private_bytes);
    int (*disconnect)(struct rdma_cm_id *id);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *device);
    int (*dealloc_pd)(struct ibv_pd *domain);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *domain, void *address, size_t bytes, int access);
    /* NULL: rdma-core is older than 34. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *domain, uint64_t offset, size_t bytes, uint64_t address,
                                    int dma_buf, int access);
    int (*dereg_mr)(struct ibv_mr *region);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *device);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *device, int entries, void *context,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *queue);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **queue, void **context);
    void (*ack_cq_events)(struct ibv_cq *queue, unsigned count);
    /* Of queue pairs that librdmacm does not make: those that are joined with themselves. */
    struct ibv_qp *(*create_own_qp)(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes);
    int (*destroy_own_qp)(struct ibv_qp *qp);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask,
                    struct ibv_qp_init_attr *made_with);
    int (*query_port)(struct ibv_context *device, uint8_t port, struct _compat_ibv_port_attr *attributes);
    int (*query_gid)(struct ibv_context *device, uint8_t port, int index, union ibv_gid *gid);
    int (*get_async_event)(struct ibv_context *device, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    const char *(*status_text)(enum ibv_wc_status status);
} verbs_library_t;

/* The libraries of this machine; they stay loaded. Errors: UNSUPPORTED (they are not installed, or lack a
 * call). */
blink_result_t verbs_library_load(const verbs_library_t **library);

#endif

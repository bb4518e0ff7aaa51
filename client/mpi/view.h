/*
 * Buffers of MPI's calls as bytes that lie next to one another. What does (arrays of basic types) is used
 * where it is; anything else is packed into memory of the view's own, and unpacked from it.
 */
#ifndef CLIENT_MPI_VIEW_H
#define CLIENT_MPI_VIEW_H

#include <mpi.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct shim_view {
    /* set by the caller */
    char *address;
    MPI_Datatype type;
    size_t count; /* elements; of all blocks */
    const int
        *counts; /* NULL: one block; else those of `block_count` blocks, which start at `displacements` */
    const int *displacements;
    int block_count;
    size_t alignment_bytes; /* 0: any */
    bool is_read, is_written;
    bool is_overwritten; /* by what another view writes, while it is read: so it is packed in any case */
    /* set by shim_view_begin() */
    char *bytes; /* NULL: it is neither read nor written */
    int lowest;  /* of the displacements: `bytes` begins there, unless it is packed */
    bool is_packed;
} shim_view_t;

/** Bytes of so many elements, without gaps. */
size_t shim_type_bytes(size_t count, MPI_Datatype type);

/** Whether it is used where it is. */
bool shim_view_is_plain(const shim_view_t *view);

/** Make `bytes` of it, and pack what is read. False: there is no memory, or MPI does not pack. */
bool shim_view_begin(shim_view_t *view);

/** Where a block starts in `bytes`. */
size_t shim_view_offset(const shim_view_t *view, int block);

/** Unpack what was written, if the op has `succeeded`, and free it. False: MPI does not unpack. */
bool shim_view_end(shim_view_t *view, bool succeeded);

#endif

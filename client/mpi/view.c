/* Packing, a block at a time, of each so many elements as MPI's ints can count. */
#include "view.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#define PACK_MOST_BYTES (1 << 30)

size_t shim_type_bytes(size_t count, MPI_Datatype type)
{
    MPI_Count bytes = 0;
    (void)PMPI_Type_size_x(type, &bytes);
    return count * (size_t)bytes;
}

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent = 0;
    (void)PMPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

/* A basic type without padding; what programs derive may have gaps, or its parts in any order. */
static bool is_plain(MPI_Datatype type)
{
    int integers, addresses, types, combiner = MPI_COMBINER_STRUCT;
    (void)PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED && (size_t)extent_of(type) == shim_type_bytes(1, type);
}

bool shim_view_is_plain(const shim_view_t *view)
{
    return !view->is_overwritten && is_plain(view->type) &&
           (view->alignment_bytes == 0 || (uintptr_t)view->address % view->alignment_bytes == 0);
}

/* One of both, of elements that follow one another. */
static bool move(char *elements, size_t count, MPI_Datatype type, char *packed, bool packs)
{
    const size_t each = shim_type_bytes(1, type);
    if (each == 0 || each > PACK_MOST_BYTES)
        return each == 0;
    const size_t most = PACK_MOST_BYTES / each;
    MPI_Aint extent = extent_of(type);
    while (count > 0) {
        int now = (int)(count < most ? count : most), bytes = (int)((size_t)now * each), position = 0;
        int result = packs ? PMPI_Pack(elements, now, type, packed, bytes, &position, MPI_COMM_SELF)
                           : PMPI_Unpack(packed, bytes, &position, elements, now, type, MPI_COMM_SELF);
        if (result != MPI_SUCCESS || position != bytes)
            return false;
        elements += extent * now;
        packed += bytes;
        count -= (size_t)now;
    }
    return true;
}

static bool move_all(const shim_view_t *view, bool packs)
{
    char *packed = view->bytes;
    MPI_Aint extent = extent_of(view->type);
    if (!view->counts)
        return move(view->address, view->count, view->type, packed, packs);
    for (int i = 0; i < view->block_count; i++) {
        size_t count = (size_t)view->counts[i];
        if (!move(view->address + extent * view->displacements[i], count, view->type, packed, packs))
            return false;
        packed += shim_type_bytes(count, view->type);
    }
    return true;
}

/* Of blocks that have elements; it may be negative. 0: there are none. */
static int find_lowest(const shim_view_t *view)
{
    int lowest = INT_MAX;
    for (int i = 0; i < view->block_count; i++) {
        if (view->counts[i] > 0 && view->displacements[i] < lowest)
            lowest = view->displacements[i];
    }
    return lowest == INT_MAX ? 0 : lowest;
}

bool shim_view_begin(shim_view_t *view)
{
    if (!view->is_read && !view->is_written)
        return true;
    view->is_packed = !shim_view_is_plain(view);
    if (!view->is_packed) {
        view->lowest = find_lowest(view);
        view->bytes = view->address + extent_of(view->type) * view->lowest;
        return true;
    }
    view->bytes = malloc(shim_type_bytes(view->count, view->type));
    return view->bytes && (!view->is_read || move_all(view, true));
}

size_t shim_view_offset(const shim_view_t *view, int block)
{
    size_t before = 0;
    if (view->counts[block] == 0)
        return 0;
    if (!view->is_packed)
        return (size_t)(extent_of(view->type) * ((MPI_Aint)view->displacements[block] - view->lowest));
    for (int i = 0; i < block; i++)
        before += (size_t)view->counts[i];
    return shim_type_bytes(before, view->type);
}

bool shim_view_end(shim_view_t *view, bool succeeded)
{
    bool good = true;
    if (!view->is_packed)
        return true;
    if (view->is_written && succeeded)
        good = move_all(view, false);
    free(view->bytes);
    return good;
}

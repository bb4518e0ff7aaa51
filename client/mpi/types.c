/* Which of blinkd's types a type is, follows from its class and its size. */
#include "types.h"

#include "view.h"

typedef enum class { SIGNED, UNSIGNED, FLOAT } class_t;

/* Not MPI_CHAR and its like, which MPI does not reduce, nor MPI_LONG_DOUBLE, which blinkd does not. */
static bool find_class(MPI_Datatype type, class_t *class)
{
    static const struct {
        MPI_Datatype type;
        class_t class;
    } known[] = {
        {MPI_DOUBLE, FLOAT},
        {MPI_FLOAT, FLOAT},
        {MPI_INT, SIGNED},
        {MPI_LONG, SIGNED},
        {MPI_LONG_LONG, SIGNED},
        {MPI_SIGNED_CHAR, SIGNED},
        {MPI_INT8_T, SIGNED},
        {MPI_INT32_T, SIGNED},
        {MPI_INT64_T, SIGNED},
        {MPI_AINT, SIGNED},
        {MPI_OFFSET, SIGNED},
        {MPI_COUNT, SIGNED},
        {MPI_UNSIGNED, UNSIGNED},
        {MPI_UNSIGNED_LONG, UNSIGNED},
        {MPI_UNSIGNED_LONG_LONG, UNSIGNED},
        {MPI_UNSIGNED_CHAR, UNSIGNED},
        {MPI_UINT8_T, UNSIGNED},
        {MPI_UINT32_T, UNSIGNED},
        {MPI_UINT64_T, UNSIGNED},
        {MPI_INTEGER, SIGNED},
        {MPI_REAL, FLOAT},
        {MPI_DOUBLE_PRECISION, FLOAT},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].type == type) {
            *class = known[i].class;
            return true;
        }
    }
    return false;
}

static bool find_datatype(MPI_Datatype type, blink_datatype_t *datatype)
{
    class_t class;
    if (!find_class(type, &class))
        return false;
    switch (shim_type_bytes(1, type)) {
    case 1:
        *datatype = class == SIGNED ? BLINK_INT8 : BLINK_UINT8;
        return class != FLOAT;
    case 4:
        *datatype = class == FLOAT ? BLINK_FLOAT32 : class == SIGNED ? BLINK_INT32 : BLINK_UINT32;
        return true;
    case 8:
        *datatype = class == FLOAT ? BLINK_FLOAT64 : class == SIGNED ? BLINK_INT64 : BLINK_UINT64;
        return true;
    default:
        return false;
    }
}

static bool find_redop(MPI_Op op, blink_redop_t *redop)
{
    if (op == MPI_SUM)
        *redop = BLINK_SUM;
    else if (op == MPI_MAX)
        *redop = BLINK_MAX;
    else if (op == MPI_MIN)
        *redop = BLINK_MIN;
    else if (op == MPI_PROD)
        *redop = BLINK_PROD;
    else
        return false;
    return true;
}

bool shim_reduction(MPI_Datatype type, MPI_Op op, blink_datatype_t *datatype, blink_redop_t *redop)
{
    return find_redop(op, redop) && find_datatype(type, datatype);
}

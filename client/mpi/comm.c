/* The records. MPI frees them with their communicators, by the attribute's callback. */
#include "comm.h"

#include "home.h"
#include "join.h"
#include "settings.h"

#include <pthread.h>
#include <stdlib.h>

#define TURN_MS      1u
#define UNASKED_MOST 63u

static struct {
    pthread_mutex_t lock;
    int keyval;
    shim_comm_t *comms;
    bool is_over;
    int code; /* the error code of this library; 0: not made yet */
} records = {.lock = PTHREAD_MUTEX_INITIALIZER, .keyval = MPI_KEYVAL_INVALID};

static int forget(MPI_Comm handle, int keyval, void *attribute, void *extra)
{
    (void)handle, (void)keyval, (void)extra;
    shim_comm_t *comm = attribute;
    pthread_mutex_lock(&records.lock);
    shim_comm_t **link = &records.comms;
    while (*link != comm)
        link = &(*link)->next;
    *link = comm->next;
    pthread_mutex_unlock(&records.lock);
    (void)blink_comm_destroy(comm->joined);
    free(comm);
    return MPI_SUCCESS;
}

/* MPI_KEYVAL_INVALID: all is over, or MPI gives none. */
static int keyval_get(void)
{
    pthread_mutex_lock(&records.lock);
    if (records.keyval == MPI_KEYVAL_INVALID && !records.is_over)
        (void)PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &records.keyval, NULL);
    int keyval = records.is_over ? MPI_KEYVAL_INVALID : records.keyval;
    pthread_mutex_unlock(&records.lock);
    return keyval;
}

/* Whether one launcher has started all ranks. Those that MPI_Comm_spawn() has started, or MPI_Comm_accept()
 * has let in, may be without this library, and then do not take part in what it agrees on. */
static bool is_of_one_job(MPI_Comm handle)
{
    MPI_Group world, ranks, common;
    int is_initialized = 0, rank_count = 0, common_count = -1;
    (void)PMPI_Initialized(&is_initialized); /* else, with MPI's sessions, there is no such communicator */
    if (!is_initialized || handle == MPI_COMM_WORLD)
        return is_initialized;
    (void)PMPI_Comm_group(MPI_COMM_WORLD, &world);
    (void)PMPI_Comm_group(handle, &ranks);
    (void)PMPI_Group_intersection(ranks, world, &common);
    (void)PMPI_Group_size(ranks, &rank_count);
    (void)PMPI_Group_size(common, &common_count);
    (void)PMPI_Group_free(&common);
    (void)PMPI_Group_free(&ranks);
    (void)PMPI_Group_free(&world);
    return common_count == rank_count;
}

/* What a rank wants for a communicator. The largest is what becomes of it. */
typedef enum wish { TAKEN, LEFT_TO_MPI, UNKEPT } wish_t;

/* The ranks need not have the same environment, nor memory. Errors: MPI has failed. */
static bool agree(shim_comm_t *comm, wish_t *wish)
{
    long mine[2] = {*wish, shim_settings()->min_bytes}, all[2];
    if (PMPI_Allreduce(mine, all, 2, MPI_LONG, MPI_MAX, comm->handle) != MPI_SUCCESS)
        return false;
    *wish = (wish_t)all[0];
    comm->min_bytes = all[1];
    return true;
}

static shim_comm_t look_at(MPI_Comm handle)
{
    shim_comm_t comm = {.handle = handle};
    int is_between = 0;
    (void)PMPI_Comm_test_inter(handle, &is_between);
    (void)PMPI_Comm_rank(handle, &comm.rank);
    (void)PMPI_Comm_size(handle, &comm.rank_count);
    comm.is_left_to_mpi = is_between || comm.rank_count < 2 || !is_of_one_job(handle);
    return comm;
}

/* NULL: it cannot be kept. */
static shim_comm_t *keep(const shim_comm_t *seen, int keyval)
{
    shim_comm_t *comm = malloc(sizeof(*comm));
    if (!comm)
        return NULL;
    *comm = *seen;
    if (PMPI_Comm_set_attr(comm->handle, keyval, comm) != MPI_SUCCESS) {
        free(comm);
        return NULL;
    }
    pthread_mutex_lock(&records.lock);
    comm->next = records.comms;
    records.comms = comm;
    pthread_mutex_unlock(&records.lock);
    return comm;
}

/* A rank that cannot keep a record takes part in the agreement all the same. Then no rank keeps one, so that
 * all of them make one in the next call, and MPI does this one. */
static shim_comm_t *make(MPI_Comm handle, int keyval)
{
    shim_comm_t seen = look_at(handle), *comm = keep(&seen, keyval);
    wish_t wish = !comm ? UNKEPT : shim_settings()->is_off ? LEFT_TO_MPI : TAKEN;
    if (seen.is_left_to_mpi)
        return comm;
    bool agreed = agree(comm ? comm : &seen, &wish);
    if (comm && (!agreed || wish == UNKEPT)) {
        (void)PMPI_Comm_delete_attr(handle, keyval);
        return NULL;
    }
    if (comm)
        comm->is_left_to_mpi = wish == LEFT_TO_MPI;
    return comm;
}

shim_comm_t *shim_comm_find(MPI_Comm handle)
{
    shim_comm_t *comm = NULL;
    int found = 0, keyval = handle == MPI_COMM_NULL ? MPI_KEYVAL_INVALID : keyval_get();
    if (keyval == MPI_KEYVAL_INVALID || PMPI_Comm_get_attr(handle, keyval, &comm, &found) != MPI_SUCCESS)
        return NULL;
    if (!found)
        comm = make(handle, keyval);
    return comm && !comm->is_left_to_mpi ? comm : NULL;
}

/*
 * Whether all ranks have the daemon's memory, which MPI does not demand: they tell each other. Where that is
 * not so the communicator asks less and less often, down to one call in 64, which is the same on all ranks,
 * too.
 */
static bool asks_all(shim_comm_t *comm, bool in_place)
{
    int mine = in_place, all = 0;
    if (comm->unasked > 0) {
        comm->unasked--;
        return false;
    }
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm->handle) != MPI_SUCCESS)
        return false;
    comm->refusals = all ? 0 : comm->refusals + 1;
    comm->unasked = comm->refusals > 5 ? UNASKED_MOST : (1u << comm->refusals) - 1;
    return all != 0;
}

static bool is_worth_it(shim_comm_t *comm, shim_collective_t collective, size_t bytes, bool in_place)
{
    shim_limit_t limit = shim_limit(collective);
    if (bytes == 0)
        return false;
    if (comm->min_bytes != SHIM_MIN_BYTES_UNSET)
        return bytes >= (size_t)comm->min_bytes;
    return bytes >= limit.staged_bytes || (bytes >= limit.in_place_bytes && asks_all(comm, in_place));
}

bool shim_comm_takes(shim_comm_t *comm, shim_collective_t collective, size_t bytes, bool in_place)
{
    if (!is_worth_it(comm, collective, bytes, in_place))
        return false;
    if (!comm->joined)
        shim_join(comm);
    return !comm->is_left_to_mpi;
}

blink_result_t shim_comm_wait(const shim_comm_t *comm, blink_op_t *op)
{
    blink_result_t result;
    while ((result = blink_wait_for(&op, TURN_MS)) == BLINK_ERR_TIMEOUT && op)
        shim_progress(comm->handle);
    return result;
}

/* In a class of its own, for MPICH does not keep sentences of codes in MPI's classes. */
static int make_code(void)
{
    int class, code;
    if (PMPI_Add_error_class(&class) != MPI_SUCCESS || PMPI_Add_error_code(class, &code) != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    (void)PMPI_Add_error_string(class, "blinkd could not do a collective");
    return code;
}

/* One for the process, with the sentence of the last failure, for MPI forgets none. */
static int code_for(const char *sentence)
{
    char text[MPI_MAX_ERROR_STRING];
    size_t used = 0;
    for (; sentence[used] && used + 1 < sizeof(text); used++)
        text[used] = sentence[used];
    text[used] = '\0';
    pthread_mutex_lock(&records.lock);
    if (records.code == 0)
        records.code = make_code();
    if (records.code != MPI_ERR_OTHER)
        (void)PMPI_Add_error_string(records.code, text);
    int code = records.code;
    pthread_mutex_unlock(&records.lock);
    return code;
}

int shim_comm_fail(shim_comm_t *comm, const char *sentence)
{
    int code = code_for(sentence);
    (void)blink_comm_abort(comm->joined);
    (void)PMPI_Comm_call_errhandler(comm->handle, code);
    return code;
}

static void forget_all(void)
{
    pthread_mutex_lock(&records.lock);
    records.is_over = true;
    int keyval = records.keyval;
    shim_comm_t *comm = records.comms;
    pthread_mutex_unlock(&records.lock);
    while (comm) {
        shim_comm_t *next = comm->next;
        (void)PMPI_Comm_delete_attr(comm->handle, keyval);
        comm = next;
    }
}

/* What the program does in callbacks of MPI_Finalize() is MPI's. */
int MPI_Finalize(void)
{
    int rank = 1;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    forget_all();
    shim_home_close();
    if (rank == 0 && shim_settings()->informs)
        shim_tell_counts();
    return PMPI_Finalize();
}

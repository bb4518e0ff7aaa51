/* GPU memory in memfds. */
#include "standin/memory/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC  UINT64_C(0x6d656d2d6e696473) /* "sdin-mem" */
#define POISON 0xdb

pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static memory_t *memories;              /* all; under the lock */
static uint64_t used[STANDIN_GPUS_MAX]; /* bytes, by GPU of the machine */

/* ---- who else has it: an importer's description of the file has a lock, whose end is the import's ---- */

static struct flock lock_of(const memory_t *memory, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = memory->offset, .l_len = 1};
}

/* A descriptor of the importer's own. */
static int open_again(int file, off_t offset)
{
    if (!standin_settings()->faults)
        return fcntl(file, F_DUPFD_CLOEXEC, 0);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    int own = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = lock_of(&(memory_t){.offset = offset}, F_RDLCK);
    if (own >= 0 && fcntl(own, F_OFD_SETLK, &lock)) {
        close(own);
        return -1;
    }
    return own;
}

static bool is_imported(const memory_t *memory)
{
    struct flock lock = lock_of(memory, F_WRLCK);
    return !fcntl(memory->file, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

static bool must_outlive_imports(const memory_t *memory)
{
    return standin_settings()->faults && memory->is_own &&
           (memory->header.kind == MEMORY_LEGACY || memory->header.kind == MEMORY_POOLED);
}

static void poison(const memory_t *memory)
{
    size_t bytes = memory_round_up(memory->header.bytes, MEMORY_PAGE_BYTES);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->file,
                     memory->offset + (off_t)MEMORY_PAGE_BYTES);
    if (map == MAP_FAILED)
        return;
    memset(map, POISON, bytes);
    munmap(map, bytes);
}

/* Give back what was freed too early, as far as nobody has it any more. */
static void release_held(void)
{
    memory_t *memory = memories;
    while (memory && !(memory->is_held && !is_imported(memory)))
        memory = memory->next;
    if (!memory)
        return;
    memory->is_held = false;
    memory->references = 1;
    memory_put(memory);
    release_held(); /* the list is another one now */
}

uint64_t memory_used(int gpu)
{
    release_held();
    return used[gpu];
}

int memory_ordinal(const memory_t *memory)
{
    return standin_ordinal((int)memory->header.gpu);
}

static size_t stretch_of(const memory_t *memory)
{
    return memory_round_up(memory->header.bytes, MEMORY_PAGE_BYTES);
}

/* A new one, not in the list yet. It takes the file over, also where it fails. */
static memory_t *allocate(int file, off_t offset)
{
    memory_t *memory = file >= 0 ? calloc(1, sizeof(*memory)) : NULL;
    if (!memory && file >= 0)
        close(file);
    if (!memory)
        return NULL;
    memory->references = 1;
    memory->file = file;
    memory->offset = offset;
    return memory;
}

static memory_t *add(memory_t *memory)
{
    memory->next = memories;
    memories = memory;
    return memory;
}

/* Give the memory its place in the file, and its header. */
static bool write_header(memory_t *memory)
{
    off_t end = memory->offset + (off_t)(MEMORY_PAGE_BYTES + stretch_of(memory));
    memory_header_t header = memory->header;
    header.magic = MAGIC;
    if (getrandom(&header.cookie, sizeof(header.cookie), 0) != sizeof(header.cookie) ||
        ftruncate(memory->file, end) ||
        pwrite(memory->file, &header, sizeof(header), memory->offset) != sizeof(header))
        return false;
    memory->header = header;
    return true;
}

static CUresult create(int file, off_t offset, const memory_header_t *header, memory_t **memory)
{
    uint64_t stretch = memory_round_up(header->bytes, MEMORY_PAGE_BYTES);
    uint64_t limit = standin_settings()->memory_bytes;
    bool fits =
        header->bytes <= limit && stretch <= limit && memory_used((int)header->gpu) <= limit - stretch;
    memory_t *made = allocate(file, offset);
    if (made)
        made->header = *header;
    if (!made || !fits || !write_header(made)) {
        if (made)
            close(file);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->is_own = true;
    used[header->gpu] += stretch;
    *memory = add(made);
    return CUDA_SUCCESS;
}

CUresult memory_create(memory_kind_t kind, int gpu, size_t bytes, uint64_t handle_types, memory_t **memory)
{
    memory_header_t header = {.bytes = bytes,
                              .kind = (uint32_t)kind,
                              .gpu = (uint32_t)gpu,
                              .ordinal = (uint32_t)standin_ordinal(gpu),
                              .handle_types = handle_types};
    STANDIN_TRY(create(memfd_create("stand-in GPU memory", MFD_CLOEXEC), 0, &header, memory));
    (*memory)->end = (off_t)MEMORY_PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult memory_create_in(memory_t *pool, size_t bytes, memory_t **memory)
{
    memory_header_t header = pool->header;
    header.kind = MEMORY_POOLED;
    header.bytes = bytes;
    STANDIN_TRY(create(fcntl(pool->file, F_DUPFD_CLOEXEC, 0), pool->end, &header, memory));
    (*memory)->pool = memory_get(pool);
    pool->end += (off_t)(MEMORY_PAGE_BYTES + stretch_of(*memory)); /* no place is used twice */
    return CUDA_SUCCESS;
}

/* Whether a file holds what the header at this offset promises. */
static bool read_header(int file, off_t offset, memory_kind_t kind, memory_header_t *header)
{
    struct stat status;
    if (fstat(file, &status) || pread(file, header, sizeof(*header), offset) != sizeof(*header))
        return false;
    uint64_t room = (uint64_t)status.st_size - (uint64_t)offset;
    return header->magic == MAGIC && header->kind == (uint32_t)kind && header->gpu < STANDIN_GPUS_MAX &&
           room >= MEMORY_PAGE_BYTES && header->bytes <= room - MEMORY_PAGE_BYTES;
}

CUresult memory_import(int file, off_t offset, memory_kind_t kind, memory_t **memory)
{
    memory_header_t header;
    if (!read_header(file, offset, kind, &header))
        return CUDA_ERROR_INVALID_VALUE;
    if (standin_ordinal((int)header.gpu) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    memory_t *made = allocate(open_again(file, offset), offset);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->header = header;
    *memory = add(made);
    return CUDA_SUCCESS;
}

CUresult memory_create_multicast(size_t bytes, uint32_t device_count, memory_t **memory)
{
    memory_t *made = allocate(memfd_create("stand-in multicast object", MFD_CLOEXEC), 0);
    memory_team_t *team = calloc(1, sizeof(*team));
    if (!made || !team) {
        if (made)
            close(made->file);
        free(made);
        free(team);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    team->device_count = device_count;
    made->team = team;
    made->header = (memory_header_t){.bytes = bytes, .kind = MEMORY_MULTICAST};
    *memory = add(made);
    return CUDA_SUCCESS;
}

memory_t *memory_get(memory_t *memory)
{
    memory->references++;
    return memory;
}

/* The whole pool's file goes only with the last who has it: this part of it goes now. */
static void punch(const memory_t *memory)
{
    fallocate(memory->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, memory->offset,
              (off_t)(MEMORY_PAGE_BYTES + stretch_of(memory)));
}

void memory_put(memory_t *memory)
{
    if (--memory->references)
        return;
    if (must_outlive_imports(memory) && is_imported(memory)) {
        standin_fault("process %d frees memory of %" PRIu64 " bytes that another process has imported",
                      (int)getpid(), memory->header.bytes);
        poison(memory);
        memory->is_held = true;
        return;
    }
    memory_t **link = &memories;
    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
    if (memory->is_own) {
        used[memory->header.gpu] -= stretch_of(memory);
        if (memory->pool)
            punch(memory);
    }
    close(memory->file);
    if (memory->team)
        memory_free_team(memory->team, memory->header.bytes);
    if (memory->pool)
        memory_put(memory->pool);
    free(memory);
}

bool memory_is(const memory_t *memory, memory_kind_t kind)
{
    const memory_t *found = memories;
    while (found && found != memory)
        found = found->next;
    return found && found->header.kind == (uint32_t)kind && found->handles;
}

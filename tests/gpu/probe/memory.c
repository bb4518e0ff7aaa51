/* Questions 4, 5 and 8: memory of another process. blinkd takes for granted that a killed client's regions
 * stay readable until no lane reads them, and that freed and reused addresses have another buffer id, by
 * which its cache of imports is keyed. Whether clients in and out of MPS can share at all is asked without a
 * guess. */
#include "probe.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 256 << 20, OLD = 0x11111111, NEW = 0x22222222, TRIES = 8 };
enum {
    STAGE_SENT,
    STAGE_BULLY_READY,
    STAGE_KILLED,
    STAGE_FILLED,
    STAGE_IMPORTED,
    STAGE_RENEWED,
    STAGE_CLOSED,
    STAGE_SENT_AGAIN
};
enum { WORD_OLD_ID, WORD_NEW_ID, WORD_OLD_ADDRESS, WORD_NEW_ADDRESS, WORD_TRIES };

/* The variant says how to share and, for question 8, on which side of MPS the exporter is. */
enum { VARIANT_VMM = 1, VARIANT_OTHER_MODE = 2, VARIANT_POOL = 4 };

static share_way_t way_of(const probe_t *p)
{
    return p->question->variant & VARIANT_VMM ? SHARE_VMM : SHARE_LEGACY;
}

static bool read_word(probe_t *p, CUdeviceptr address, uint32_t *value)
{
    PROBE_CU(cuMemcpyDtoH(value, address, sizeof(*value)));
    return true;
}

static const char *whose(uint32_t value)
{
    return value == OLD ? "the old" : value == NEW ? "the new" : "some other";
}

/* ---- 4 and 8: an exporter ---- */

static bool export_and_stay(probe_t *p)
{
    share_t share;
    const bool is_other = p->question->mode == PROBE_MPS && p->question->variant & VARIANT_OTHER_MODE;
    const probe_mode_t mode = is_other ? PROBE_ISOLATED : p->question->mode;
    PROBE_TRY(probe_open(p, mode) && share_create(p, way_of(p), BYTES, &share));
    PROBE_TRY(share_fill(p, &share, OLD) && share_send(p, &share));
    probe_reach(p, STAGE_SENT);
    probe_sleep_ms(30000); /* killed long before */
    return true;
}

/* Takes nearly all free memory and fills it: if the dead process's pages are free, they are overwritten now.
 */
static bool bully(probe_t *p)
{
    const size_t piece = (size_t)4 << 30, spare = (size_t)2 << 30;
    size_t available, total;
    PROBE_TRY(probe_open(p, p->question->mode));
    probe_reach(p, STAGE_BULLY_READY);
    PROBE_TRY(probe_await(p, STAGE_KILLED, 15000));
    for (;;) {
        CUdeviceptr address;
        PROBE_CU(cuMemGetInfo(&available, &total));
        if (available < piece + spare || p->cu.cuMemAlloc(&address, piece) != CUDA_SUCCESS)
            break;
        PROBE_CU(cuMemsetD32(address, NEW, piece / sizeof(uint32_t)));
    }
    PROBE_CU(cuCtxSynchronize());
    probe_reach(p, STAGE_FILLED);
    probe_sleep_ms(15000); /* its end would give the memory back */
    return true;
}

typedef struct reader {
    CUstream stream;
    uint32_t *words; /* [0] stops, [16] passes */
    CUdeviceptr device_words;
    CUdeviceptr extremes; /* lowest, highest */
} reader_t;

static bool start_reader(probe_t *p, const share_t *share, reader_t *reader)
{
    CUdeviceptr stop = reader->device_words, passes = reader->device_words + 16 * sizeof(uint32_t);
    CUdeviceptr lowest = reader->extremes, highest = reader->extremes + sizeof(uint32_t);
    uint64_t words = share->bytes / sizeof(uint32_t), limit_ns = UINT64_C(8000000000);
    CUdeviceptr memory = share->address;
    PROBE_CU(cuMemsetD32(lowest, 0xffffffffu, 1));
    PROBE_CU(cuMemsetD32(highest, 0, 1));
    PROBE_CU(cuCtxSynchronize());
    return probe_launch(p, PROBE_READ, (unsigned)p->multiprocessors, 512, reader->stream,
                        (void *[]){&memory, &words, &stop, &limit_ns, &lowest, &highest, &passes});
}

/* Whether the context can still do anything at all. */
static bool context_lives(probe_t *p, const reader_t *reader)
{
    CUdeviceptr flag = reader->device_words + 32 * sizeof(uint32_t);
    uint32_t value = 1;
    return probe_launch(p, PROBE_MARK, 1, 1, reader->stream, (void *[]){&flag, &value}) &&
           probe_sync(p, reader->stream, 2000) && probe_fetch(&reader->words[32]) == 1;
}

static bool kill_under_reader(probe_t *p, pid_t exporter, const share_t *share, reader_t *reader)
{
    uint32_t extreme[2] = {0, 0}, after = 0;
    PROBE_TRY(start_reader(p, share, reader));
    if (!probe_spin_until(&reader->words[16], 3, 3000)) {
        probe_note_error(p, "the reading kernel made no pass in 3 s");
        return false;
    }
    kill(exporter, SIGKILL);
    waitpid(exporter, NULL, 0);
    const uint32_t passes_at_death = probe_fetch(&reader->words[16]);
    probe_reach(p, STAGE_KILLED);
    const bool is_filled = probe_await(p, STAGE_FILLED, 5000);
    probe_sleep_ms(200);
    const uint32_t passes_after = probe_fetch(&reader->words[16]) - passes_at_death;
    probe_store(&reader->words[0], 1);
    const bool is_finished = probe_sync(p, reader->stream, 3000);
    const bool is_alive = context_lives(p, reader);
    const bool is_readable = is_alive &&
                             p->cu.cuMemcpyDtoH(extreme, reader->extremes, sizeof(extreme)) == CUDA_SUCCESS &&
                             p->cu.cuMemcpyDtoH(&after, share->address, sizeof(after)) == CUDA_SUCCESS;
    const bool is_old = is_readable && extreme[0] == OLD && extreme[1] == OLD && after == OLD;
    probe_number(
        p, "passes over 256 MiB before the kill %u, after it %u; lowest 0x%x, highest 0x%x, afterwards 0x%x",
        passes_at_death, passes_after, extreme[0], extreme[1], after);
    probe_answer(p, is_finished && is_alive && is_old && is_filled ? PROBE_PASS : PROBE_FAIL,
                 "the kernel %s, its context %s, the memory %s%s",
                 is_finished ? "finished" : "did not finish", is_alive ? "lives" : "is lost",
                 is_old        ? "kept its bytes"
                 : is_readable ? "CHANGED"
                               : "could not be read",
                 is_filled ? " while another process filled all free memory"
                           : " (nobody managed to fill the free memory)");
    return true;
}

static bool ask_killed_exporter(probe_t *p)
{
    pid_t exporter, filler;
    share_t share;
    reader_t reader;
    PROBE_TRY(probe_actor(p, export_and_stay, &exporter) && probe_actor(p, bully, &filler));
    PROBE_TRY(probe_open(p, p->question->mode) && probe_stream(p, &reader.stream));
    PROBE_TRY(probe_host_words(p, 64, &reader.words, &reader.device_words));
    PROBE_CU(cuMemAlloc(&reader.extremes, 2 * sizeof(uint32_t)));
    PROBE_TRY(probe_await(p, STAGE_SENT, 10000) && share_receive(p, way_of(p), BYTES, &share));
    PROBE_TRY(probe_await(p, STAGE_BULLY_READY, 10000));
    return kill_under_reader(p, exporter, &share, &reader);
}

/* ---- 8: importing from the other side of MPS ---- */

static bool ask_mixed(probe_t *p)
{
    pid_t exporter;
    share_t share;
    uint32_t first = 0, last = 0;
    PROBE_TRY(probe_actor(p, export_and_stay, &exporter));
    /* One of both is a client of MPS. The exporter is isolated with VARIANT_OTHER_MODE, else the importer. */
    const bool is_client = p->question->variant & VARIANT_OTHER_MODE;
    PROBE_TRY(probe_open(p, is_client ? PROBE_MPS : PROBE_ISOLATED));
    PROBE_TRY(probe_await(p, STAGE_SENT, 10000) && share_receive(p, way_of(p), BYTES, &share));
    PROBE_TRY(read_word(p, share.address, &first) &&
              read_word(p, share.address + BYTES - sizeof(last), &last));
    const bool is_right = first == OLD && last == OLD;
    probe_answer(p, is_right ? PROBE_PASS : PROBE_FAIL, "imported; its first and last words are %s",
                 is_right ? "right" : "wrong");
    return true;
}

/* ---- 5: freed and allocated again under an import ---- */

static bool renew(probe_t *p)
{
    share_t share;
    uint64_t id = 0;
    PROBE_TRY(probe_open(p, p->question->mode) && share_create(p, way_of(p), BYTES, &share));
    PROBE_TRY(share_fill(p, &share, OLD) && share_buffer_id(p, share.address, &id));
    p->board->word[WORD_OLD_ID] = id;
    p->board->word[WORD_OLD_ADDRESS] = share.address;
    PROBE_TRY(share_send(p, &share));
    probe_reach(p, STAGE_SENT);
    PROBE_TRY(probe_await(p, STAGE_IMPORTED, 10000));
    do { /* until the address comes back, which is the case that matters */
        PROBE_TRY(share_renew(p, &share));
    } while (++p->board->word[WORD_TRIES] < TRIES && share.address != p->board->word[WORD_OLD_ADDRESS]);
    PROBE_TRY(share_fill(p, &share, NEW) && share_buffer_id(p, share.address, &id));
    p->board->word[WORD_NEW_ID] = id;
    p->board->word[WORD_NEW_ADDRESS] = share.address;
    probe_reach(p, STAGE_RENEWED);
    PROBE_TRY(probe_await(p, STAGE_CLOSED, 10000) && share_send(p, &share));
    probe_reach(p, STAGE_SENT_AGAIN);
    probe_sleep_ms(10000);
    return true;
}

/* A handle of memory that is gone: what the daemon meets when a client sends an old one. Legacy only: a
 * descriptor keeps its memory. */
static bool open_stale(probe_t *p)
{
    CUdeviceptr address;
    uint32_t value = 0;
    const CUresult result =
        p->cu.cuIpcOpenMemHandle(&address, p->board->ipc_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        probe_number(p, "opening the stale handle: %s", probe_error_name(p, result));
        return true;
    }
    PROBE_TRY(read_word(p, address, &value));
    probe_number(p, "opening the stale handle: succeeds and shows %s bytes", whose(value));
    PROBE_CU(cuIpcCloseMemHandle(address));
    return true;
}

static bool ask_renewed(probe_t *p)
{
    pid_t exporter;
    share_t import;
    uint32_t under = 0, fresh = 0;
    PROBE_TRY(probe_actor(p, renew, &exporter) && probe_open(p, p->question->mode));
    PROBE_TRY(probe_await(p, STAGE_SENT, 10000) && share_receive(p, way_of(p), BYTES, &import));
    probe_reach(p, STAGE_IMPORTED);
    PROBE_TRY(probe_await(p, STAGE_RENEWED, 10000));
    PROBE_TRY(read_word(p, import.address, &under) && share_close_import(p, &import));
    if (way_of(p) == SHARE_LEGACY)
        PROBE_TRY(open_stale(p));
    probe_reach(p, STAGE_CLOSED);
    PROBE_TRY(probe_await(p, STAGE_SENT_AGAIN, 10000) && share_receive(p, way_of(p), BYTES, &import));
    PROBE_TRY(read_word(p, import.address, &fresh));
    const _Atomic uint64_t *word = p->board->word;
    const bool is_same_address = word[WORD_OLD_ADDRESS] == word[WORD_NEW_ADDRESS];
    const bool is_new_id = word[WORD_OLD_ID] != word[WORD_NEW_ID];
    probe_number(p, "buffer id %llu, then %llu; address %s after %llu tries",
                 (unsigned long long)word[WORD_OLD_ID], (unsigned long long)word[WORD_NEW_ID],
                 is_same_address ? "the same" : "another", (unsigned long long)word[WORD_TRIES]);
    probe_answer(p, is_new_id && fresh == NEW ? PROBE_PASS : PROBE_FAIL,
                 "the buffer id %s; the import still open shows %s bytes, one opened anew %s",
                 is_new_id ? "changes" : "STAYS", whose(under), whose(fresh));
    return true;
}

/* Pools give the same physical memory out again without telling anyone, so the id is all there is. */
static bool ask_pool_id(probe_t *p)
{
    CUmemoryPool pool;
    CUstream stream;
    CUdeviceptr address[2];
    uint64_t id[2] = {0, 0};
    const CUmemPoolProps property = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    PROBE_TRY(probe_open(p, p->question->mode) && probe_stream(p, &stream));
    PROBE_CU(cuMemPoolCreate(&pool, &property));
    for (unsigned i = 0; i < 2; i++) {
        PROBE_CU(cuMemAllocFromPoolAsync(&address[i], BYTES, pool, stream));
        PROBE_TRY(probe_sync(p, stream, 2000) && share_buffer_id(p, address[i], &id[i]));
        PROBE_CU(cuMemFreeAsync(address[i], stream));
        PROBE_TRY(probe_sync(p, stream, 2000));
    }
    probe_number(p, "buffer id %llu, then %llu; address %s", (unsigned long long)id[0],
                 (unsigned long long)id[1], address[0] == address[1] ? "the same" : "another");
    probe_answer(p, id[0] != id[1] ? PROBE_PASS : PROBE_FAIL, "the buffer id %s",
                 id[0] != id[1] ? "changes" : "STAYS");
    return true;
}

/* 0 would be taken for what was never asked. */
static bool ask_vmm_id(probe_t *p)
{
    share_t share;
    uint64_t first = 0, middle = 0;
    PROBE_TRY(probe_open(p, p->question->mode) && share_create(p, SHARE_VMM, BYTES, &share));
    PROBE_TRY(share_buffer_id(p, share.address, &first) &&
              share_buffer_id(p, share.address + BYTES / 2, &middle));
    probe_answer(p, first != 0 && first == middle ? PROBE_PASS : PROBE_FAIL,
                 "buffer id %llu at its start, %llu in its middle", (unsigned long long)first,
                 (unsigned long long)middle);
    return true;
}

#define ASSUME_KILLED                                                                                        \
    "a killed client's memory stays as it was until the importer closes it; kernel and context go on"
#define ASSUME_MPS     "under MPS a kill may end other clients: this says which"
#define ASSUME_RENEWED "memory freed and allocated again has another buffer id, so the import cache misses"
#define ASSUME_MIXED                                                                                         \
    "not relied upon: a GPU is isolated or mps as a whole; this says what a client on the wrong side meets"

const probe_question_t probe_memory_questions[] = {
    {"4a", "the exporter killed under a reading kernel, legacy IPC", ASSUME_KILLED, ask_killed_exporter, 0,
     PROBE_ISOLATED, 25},
    {"4b", "the same, VMM descriptor", ASSUME_KILLED, ask_killed_exporter, VARIANT_VMM, PROBE_ISOLATED, 25},
    {"4c", "4a under MPS", ASSUME_MPS, ask_killed_exporter, 0, PROBE_MPS, 25},
    {"4d", "4b under MPS", ASSUME_MPS, ask_killed_exporter, VARIANT_VMM, PROBE_MPS, 25},
    {"5a", "freed and allocated again under an import, legacy IPC", ASSUME_RENEWED, ask_renewed, 0,
     PROBE_ISOLATED, 15},
    {"5b", "the same, VMM descriptor, mapped at the same address", ASSUME_RENEWED, ask_renewed, VARIANT_VMM,
     PROBE_ISOLATED, 15},
    {"5c", "freed and allocated again from a pool (buffer id only)", ASSUME_RENEWED, ask_pool_id,
     VARIANT_POOL, PROBE_ISOLATED, 15},
    {"5d", "buffer id of VMM memory", "every mapping of a handle has one id, which is not 0", ask_vmm_id,
     VARIANT_VMM, PROBE_ISOLATED, 15},
    {"8a", "legacy IPC, an MPS client exports to an isolated process", ASSUME_MIXED, ask_mixed, 0, PROBE_MPS,
     15},
    {"8b", "VMM, an MPS client exports to an isolated process", ASSUME_MIXED, ask_mixed, VARIANT_VMM,
     PROBE_MPS, 15},
    {"8c", "legacy IPC, an isolated process exports to an MPS client", ASSUME_MIXED, ask_mixed,
     VARIANT_OTHER_MODE, PROBE_MPS, 15},
    {"8d", "VMM, an isolated process exports to an MPS client", ASSUME_MIXED, ask_mixed,
     VARIANT_OTHER_MODE | VARIANT_VMM, PROBE_MPS, 15},
    {0},
};

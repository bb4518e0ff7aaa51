#include "control/gather/terms.h"

#include "names.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

/* A part of a sentence: "rank 3", or "rank 3 on n1". */
#define PHRASE_BYTES 96

typedef struct phrase {
    char text[PHRASE_BYTES];
} phrase_t;

static phrase_t name_of(const terms_rank_t *rank)
{
    phrase_t name;
    snprintf(name.text, sizeof(name.text), "rank %u%s%s", rank->rank, rank->host ? " on " : "",
             rank->host ? rank->host : "");
    return name;
}

blink_result_t terms_check(const terms_t *terms, uint32_t rank)
{
    if (terms->rank_count == 0 || terms->rank_count > PLAN_RANKS_MAX)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "%u ranks: from 1 to %u are possible",
                          terms->rank_count, PLAN_RANKS_MAX);
    if (rank >= terms->rank_count)
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "rank %u of %u ranks: the last one is %u", rank,
                          terms->rank_count, terms->rank_count - 1);
    if (!blink_algorithm_valid(terms->algorithm))
        return BLINK_FAIL(BLINK_ERR_INVALID_ARGUMENT, "unknown algorithm %u", terms->algorithm);
    return BLINK_OK;
}

/* "has links emulated at 0.001 of their speed". */
static phrase_t pace_of(const terms_t *terms)
{
    phrase_t pace = {"has links that are not emulated"};
    if (terms->pace_scale > 0)
        snprintf(pace.text, sizeof(pace.text), "has links emulated at %g of their speed", terms->pace_scale);
    return pace;
}

blink_result_t terms_check_agreement(const terms_t *agreed, const terms_rank_t *first, const terms_t *asked,
                                     const terms_rank_t *rank)
{
    if (agreed->rank_count != asked->rank_count)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s joined a communicator of %u ranks, %s asks for %u",
                          name_of(first).text, agreed->rank_count, name_of(rank).text, asked->rank_count);
    if (agreed->algorithm != asked->algorithm)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s asked for algorithm %s, %s asks for %s",
                          name_of(first).text, blink_name_algorithm((blink_algorithm_t)agreed->algorithm),
                          name_of(rank).text, blink_name_algorithm((blink_algorithm_t)asked->algorithm));
    if (agreed->op_timeout_ms != asked->op_timeout_ms)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s asked for an op timeout of %u ms, %s asks for %u ms",
                          name_of(first).text, agreed->op_timeout_ms, name_of(rank).text,
                          asked->op_timeout_ms);
    if (agreed->init_timeout_ms != asked->init_timeout_ms)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s asked for an init timeout of %u ms, %s asks for %u ms",
                          name_of(first).text, agreed->init_timeout_ms, name_of(rank).text,
                          asked->init_timeout_ms);
    if (agreed->pace_scale != asked->pace_scale)
        return BLINK_FAIL(BLINK_ERR_MISMATCH, "%s %s, %s %s: all daemons need the same pace",
                          name_of(first).text, pace_of(agreed).text, name_of(rank).text, pace_of(asked).text);
    return BLINK_OK;
}

blink_result_t terms_check_kind(const terms_rank_t *first, const terms_rank_t *rank)
{
    static const char *const kinds[] = {"a host device", "on a GPU"};
    if (first->on_gpu == rank->on_gpu)
        return BLINK_OK;
    return BLINK_FAIL(BLINK_ERR_UNSUPPORTED,
                      "%s's device %u is %s, %s's device %u is %s: a communicator has one kind",
                      name_of(first).text, first->device, kinds[first->on_gpu], name_of(rank).text,
                      rank->device, kinds[rank->on_gpu]);
}

blink_result_t terms_fail_other_user(void)
{
    return BLINK_FAIL(BLINK_ERR_PERMISSION, "the communicator belongs to another user");
}

blink_result_t terms_fail_rank_taken(const terms_rank_t *rank, const terms_rank_t *holder)
{
    if (!rank->host || !holder->host)
        return BLINK_FAIL(BLINK_ERR_EXISTS, "rank %u has joined this communicator already", rank->rank);
    return BLINK_FAIL(BLINK_ERR_EXISTS,
                      "rank %u, which comes from %s, has joined this communicator already from %s",
                      rank->rank, rank->host, holder->host);
}

blink_result_t terms_fail_device_taken(const terms_rank_t *rank, const terms_rank_t *holder,
                                       uint32_t device_count)
{
    if (device_count > 0)
        return BLINK_FAIL(BLINK_ERR_EXISTS,
                          "%s asks for device %u, which rank %u has taken; this host has %u, and each is for "
                          "one rank of a communicator",
                          name_of(rank).text, rank->device, holder->rank, device_count);
    return BLINK_FAIL(BLINK_ERR_EXISTS, "%s asks for device %u, which rank %u has taken", name_of(rank).text,
                      rank->device, holder->rank);
}

void terms_list_add(terms_list_t *list, const char *name)
{
    static const char more[] = " and 4294967295 more";
    const size_t room = sizeof(list->text) - list->used;
    if (list->unnamed == 0 && strlen(name) + strlen(", ") + sizeof(more) <= room)
        list->used += (size_t)snprintf(list->text + list->used, room, "%s%s", list->used ? ", " : "", name);
    else
        list->unnamed++;
}

void terms_list_add_number(terms_list_t *list, uint32_t number)
{
    char text[12];
    snprintf(text, sizeof(text), "%u", number);
    terms_list_add(list, text);
}

const char *terms_list_end(terms_list_t *list)
{
    if (list->unnamed > 0)
        snprintf(list->text + list->used, sizeof(list->text) - list->used, " and %u more", list->unnamed);
    return list->text;
}

void terms_note_refused(terms_note_t *note, const terms_t *agreed, const terms_t *asked,
                        const terms_rank_t *rank)
{
    if (*note->text)
        return;
    if (agreed->rank_count != asked->rank_count)
        snprintf(note->text, sizeof(note->text), "%s asked for %u", name_of(rank).text, asked->rank_count);
    else
        snprintf(note->text, sizeof(note->text), "%s was refused", name_of(rank).text);
}

void terms_note_apart(terms_note_t *note, uint32_t rank_count, const terms_rank_t *rank)
{
    if (!*note->text)
        snprintf(note->text, sizeof(note->text), "%s, of %u, has another id", name_of(rank).text, rank_count);
}

blink_result_t terms_fail_late(uint32_t joined_count, uint32_t rank_count, uint64_t timeout_ms,
                               const terms_note_t *note, terms_list_t *missing, terms_list_t *hosts)
{
    return BLINK_FAIL(BLINK_ERR_TIMEOUT, "only %u of %u ranks joined within %g s%s%s; missing: rank %s%s%s",
                      joined_count, rank_count, (double)timeout_ms / 1e3, *note->text ? "; " : "", note->text,
                      terms_list_end(missing), hosts ? "; the others are on " : "",
                      hosts ? terms_list_end(hosts) : "");
}

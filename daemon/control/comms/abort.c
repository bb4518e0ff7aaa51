#include "control/comms/abort.h"

#include "control/comms/children.h"
#include "control/comms/gathering.h"

#include <stdio.h>

/* What is made of its ranks fails, too, if it needs ranks of other hosts. */
static void tell_children(roster_t *roster, blink_result_t code, const char *text)
{
    roster_hosts_t *hosts = roster->hosts;
    if (!hosts)
        return;
    hosts->end_code = code;
    snprintf(hosts->end_text, sizeof(hosts->end_text), "%s", text);
    children_end(roster);
}

/* Unless they have said so themselves. */
static void tell_other_hosts(roster_t *roster, blink_result_t code, const char *text)
{
    gather_comm_t comm = roster->comm;
    if (!roster->is_named)
        return;
    roster_forget_name(roster);
    rendezvous_comm_lost(roster->control->rendezvous, comm, blink_error_set(code, "%s", text));
}

void roster_end_ops(const roster_t *roster, blink_result_t code, const char *text)
{
    if (roster->engine)
        engine_comm_end(roster->engine, code, text);
}

void roster_announce_abort(roster_t *roster, blink_result_t code, const char *text, const member_t *except)
{
    if (roster->state == ROSTER_ABORTED)
        return;
    roster->state = ROSTER_ABORTED;
    tell_other_hosts(roster, code, text);
    tell_children(roster, code, text);
    LIST_FOR_EACH (link, &roster->joined) {
        const member_t *member = CONTAINER_OF(link, member_t, of_joined);
        turns_count(&roster->control->turns, 1);
        if (member == except || member->leaving || member->left)
            continue;
        Blinkwire__Error error = BLINKWIRE__ERROR__INIT;
        Blinkwire__CommLost lost = BLINKWIRE__COMM_LOST__INIT;
        Blinkwire__Reply reply = BLINKWIRE__REPLY__INIT;
        error.code = (uint32_t)code;
        error.text = (char *)(uintptr_t)text; /* only read */
        lost.member = member->number;
        lost.error = &error;
        reply.body_case = BLINKWIRE__REPLY__BODY_COMM_LOST;
        reply.comm_lost = &lost;
        connection_send(member->client->connection, &reply, NULL, 0);
    }
}

void rosters_abort_by_engine(rosters_t *rosters, uint32_t number, blink_result_t code, const char *text)
{
    roster_t *roster = roster_find_number(rosters, number);
    if (roster)
        roster_announce_abort(roster, code, text, NULL);
}

void roster_stop(roster_t *roster)
{
    static const char text[] = "the daemon is stopping";
    turns_count(&roster->control->turns, 1);
    if (!roster_has_begun(roster)) {
        roster_gathering_failed(roster, BLINK_FAIL(BLINK_ERR_DAEMON_LOST, "%s", text));
    } else {
        roster_end_ops(roster, BLINK_ERR_DAEMON_LOST, text);
        roster_announce_abort(roster, BLINK_ERR_DAEMON_LOST, text, NULL);
    }
}

void rosters_begin_to_stop(rosters_t *rosters)
{
    rosters->to_abort = rosters->all.count;
}

bool rosters_abort_some(rosters_t *rosters)
{
    size_t *left = &rosters->to_abort;
    while (*left > 0 && !turns_slice_is_over(&rosters->control->turns)) {
        if (--*left < rosters->all.count) /* fewer may be left than there were */
            roster_stop(CONTAINER_OF(rosters->all.items[*left], roster_t, of_all));
    }
    return *left > 0;
}

/*
 * Which ranks of a communicator live, for those of them that go on as another one (blink_comm_shrink()).
 * Ranks that live become fewer and never more, so who names the same ranks means the same moment, and the id
 * under which they gather follows from them.
 *
 * Of ranks on other hosts their hosts tell: as soon as a rank of any host asks, every host of the
 * communicator tells all others once which of its ranks live, and again when one of these goes. Who asks is
 * answered when all hosts have told. A host that is lost has none that live. Two hosts may name different
 * ranks for a moment; who gathers under the older id then fails with PEER_LOST, and asks for fewer.
 *
 * A host that is told and has no such communicator says so, and all hosts hear of it: if a rank goes while
 * hosts begin a communicator, some may have begun it and others not, and will not any more.
 */
#ifndef BLINK_SURVIVORS_H
#define BLINK_SURVIVORS_H

#include "control/comms/roster.h"

/* Serve CommSurvivors, which is answered when all hosts have told, and when fewer ranks live than the request
 * may want. Errors, as answers: NOT_FOUND (no such handle), EXISTS (it asks already), UNSUPPORTED (the daemon
 * of another host is too old), TIMEOUT (that was not within the time that ranks have to join), PEER_LOST (the
 * rank leaves), NO_MEMORY, SYSTEM. */
void roster_tell_survivors(client_t *client, uint64_t request, const Blinkwire__CommSurvivors *message);

/* A rank of a ready roster goes: other hosts are told, if they want to know. */
void survivors_lose(member_t *member);

/* For peers_handler_t: a host tells. Errors: PROTOCOL (ranks that are not its own). */
blink_result_t survivors_heard(control_t *control, const gather_host_t *from,
                               const Blinkpeer__Survivors *message);

/* For peers_handler_t: hosts have no session any more, which concerns each communicator in a slice of its
 * tenant's turns. */
void survivors_hosts_lost(control_t *control);

#endif

"""No tenant makes a turn of the engine long: the engine counts the steps of its turns, and attacks of one
client, which were once a step for each of 65,000 ops in one turn, leave the count where it was."""
import os
import time
import unittest

import raw
from harness import IntegrationTest
from raw import message, open_client, sealed_memfd

PAGE = 4096
#: Steps: slices of one tenant's clients, of communicators and of clients that leave, with some to spare.
BOUND = 2000
MANY = 60000


class TurnsTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.blinkd = self.daemon(*self.limits(clients_per_tenant=1100, regions_per_tenant=MANY))

    def client(self):
        return open_client(self, self.blinkd)

    def join(self, clients):
        """A communicator with a rank of each of these clients: its members."""
        return [reply.body(5)[1] for reply in raw.join_all(clients)]

    def push(self, client, times, **entry):
        """So many entries of one kind, as fast as the ring takes them."""
        for number in range(times):
            while client.sq_tail - client.word(raw.SQ_HEAD) >= client.sq_entries:
                client.doorbell()
                time.sleep(0.0005)
            client.submit(**entry, ring_doorbell=number + 1 == times)
        while client.word(raw.SQ_HEAD) != client.sq_tail:
            time.sleep(0.0005)

    def staged(self, client, member):
        staging = client.request(raw.STAGING_CREATE, message(_1=9 << 20)).body(8)[1]
        return dict(opcode=raw.ALLREDUCE, member=member, count=1, in_region=staging, out_region=staging,
                    in_offset=PAGE, out_offset=PAGE + (4 << 20), flags=raw.IN_STAGED | raw.OUT_STAGED)

    def steps(self):
        return self.ctl_json(self.blinkd, "status")["engine_steps_most"]

    def check_turns(self):
        """Also while others use the daemon."""
        self.blinkd.check_serves()
        self.assertGreater(self.steps(), 0)
        self.assertLess(self.steps(), BOUND)

    def wait_until_gone(self):
        self.until(lambda: self.ctl_json(self.blinkd, "status")["client_count"] == 0)

    def test_a_group_of_staged_ops_that_is_held(self):
        """What the clients have to copy is looked at in rotation; the end of them all is no single turn."""
        client = self.client()
        member, = self.join([client])
        entry = self.staged(client, member)
        more = dict(entry, flags=entry["flags"] | raw.MORE)
        self.push(client, MANY, **more)
        self.push(client, 1, **entry)
        self.check_turns()
        client.close()
        self.wait_until_gone()
        self.check_turns()

    def test_a_rank_that_leaves_ops_of_another_undone(self):
        clients = [self.client(), self.client()]
        members = self.join(clients)
        self.push(clients[0], MANY, opcode=raw.BARRIER, member=members[0], flags=raw.MORE)
        self.push(clients[0], 1, opcode=raw.BARRIER, member=members[0])
        self.assertEqual(clients[1].request(raw.COMM_DESTROY, message(_1=members[1])).code, 0)
        self.assertEqual(clients[0].reap()[1], raw.PEER_LOST)
        self.check_turns()

    def test_an_abort_of_many_ops(self):
        clients = [self.client(), self.client()]
        members = self.join(clients)
        self.push(clients[0], MANY, opcode=raw.BARRIER, member=members[0], flags=raw.MORE)
        self.push(clients[0], 1, opcode=raw.BARRIER, member=members[0])
        self.assertEqual(clients[1].request(raw.COMM_ABORT, message(_1=members[1])).code, 0)
        self.assertNotEqual(clients[0].reap()[1], raw.OK)
        self.check_turns()

    def test_groups_that_become_active_at_once(self):
        """The second group waits for the first, which then ends, and makes all of it active."""
        clients = [self.client(), self.client()]
        members = self.join(clients)
        for client, member in zip(clients, members):
            self.push(client, 1, opcode=raw.BARRIER, member=member, flags=raw.MORE)
        for client, member in zip(clients, members):
            self.push(client, 1, opcode=raw.BARRIER, member=member)
            self.push(client, MANY, opcode=raw.BARRIER, member=member, flags=raw.MORE)
            self.push(client, 1, opcode=raw.BARRIER, member=member)
        for client in clients:
            self.assertEqual([client.reap()[1] for _ in range(2)], [raw.OK, raw.OK])
        self.check_turns()

    def test_many_regions_of_a_client_that_goes(self):
        client = self.client()
        fd = sealed_memfd(PAGE)
        self.addCleanup(os.close, fd)
        for _ in range(3000):
            self.assertEqual(client.register(fd, 1).code, 0)
        client.close()
        self.wait_until_gone()
        self.check_turns()

    def test_many_clients_that_all_submit_at_once(self):
        clients = [self.client() for _ in range(200)]
        for client in clients:
            for _ in range(100):
                client.submit(ring_doorbell=False)
        for client in clients:
            client.doorbell()
        for client in clients:
            for _ in range(100):
                self.assertEqual(client.reap()[1], raw.OK)
        self.check_turns()

    def test_clients_that_rest_are_heard(self):
        """A client that has done nothing for a while is not looked at until it rings, whatever others do."""
        resting = [self.client() for _ in range(20)]
        busy = self.client()
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            busy.submit()
            busy.reap()
        for client in resting:
            client.submit()
            busy.submit()
        for client in resting + [busy] * len(resting):
            self.assertEqual(client.reap()[1], raw.OK)

    def test_many_clients_are_heard_whenever_the_engine_has_slept(self):
        """The engine tells each of them in a visit that it sleeps, and sleeps once all have been told."""
        clients = [self.client() for _ in range(100)]
        for pause_s in [0.0002, 0.0005, 0.001, 0.005, 0.05] * 4:
            for client in clients:
                client.submit()
            for client in clients:
                self.assertEqual(client.reap()[1], raw.OK)
            time.sleep(pause_s)
        self.check_turns()

    def test_a_rank_that_leaves_in_the_middle_of_a_group_ends_the_communicator_for_all(self):
        """Also as the control thread knows it, which tells the others."""
        clients = [self.client(), self.client()]
        members = self.join(clients)
        self.push(clients[0], 1, opcode=raw.BARRIER, member=members[0], flags=raw.MORE)
        self.assertEqual(clients[0].request(raw.COMM_DESTROY, message(_1=members[0])).code, 0)
        lost = clients[1].receive()
        self.assertEqual((lost.id, lost.body(7).get(1)), (0, members[1]))
        comm, = self.ctl_json(self.blinkd, "comms")["comms"]
        self.assertEqual(comm["state"], "aborted")
        self.push(clients[1], 1, opcode=raw.BARRIER, member=members[1])
        self.assertEqual(clients[1].reap()[1], raw.PEER_LOST)

    def test_what_is_asked_last_by_a_client_that_goes_is_done(self):
        """Its ring is full, so that the engine defers what it has asked for; then it is gone."""
        for _ in range(20):
            client = self.client()
            member, = self.join([client])
            fd = sealed_memfd(PAGE)
            region = client.register(fd, 1).body(4)[1]
            os.close(fd)
            for _ in range(client.sq_entries):
                client.submit(ring_doorbell=False)
            client.send(raw.MEM_DEREGISTER, message(_1=region))
            client.send(raw.COMM_DESTROY, message(_1=member))
            client.close()
        self.wait_until_gone()
        self.check_turns()


if __name__ == "__main__":
    unittest.main()

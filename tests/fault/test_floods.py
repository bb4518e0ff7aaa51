"""What a user can make long keeps no other user waiting."""
import os
import re
import resource
import signal
import struct
import time

import raw
from floods import NOBODY, TURN_STEPS_MOST, FloodTest
from harness import BLINKCTL, LIMIT_S
from raw import RawClient, message, open_client, sealed_memfd

DEVICES, TOPOLOGY, LINKS, COMMS, CLIENTS = range(1, 6)


class ConnectTest(FloodTest):
    def clients(self, daemon, count):
        clients = [RawClient(daemon) for _ in range(count)]
        for client in clients:
            self.addCleanup(client.close)
        return clients

    def test_connecting_in_a_loop_keeps_nobody_waiting(self):
        daemon = self.watched_daemon()
        bystanders = self.start_ranks(daemon, [6, 7], ["gate:begin", "allreduce:1000:float32:max"])
        for bystander in bystanders:
            bystander.wait_for_step("at-gate")
        for user in range(3):
            self.attack(daemon, "connections", NOBODY - user)
        self.check_goes_on(daemon)
        for bystander in bystanders:
            bystander.say()
        for bystander in bystanders:
            self.assert_all_ok(bystander.finish())
        self.assertLess(daemon.descriptors(), 200)
        self.check_turns(daemon)

    def test_who_says_nothing_is_disconnected(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=10))
        silent = self.clients(daemon, 42)
        for client in silent:
            self.assertEqual(client.receive().code, raw.TIMEOUT)
            self.assertTrue(client.closed_by_daemon())
        daemon.check_serves()

    def test_refused_connections_keep_no_descriptors(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=10))
        clients = self.clients(daemon, 300)
        refusal = clients[-1].receive()
        self.assertEqual(refusal.code, raw.QUOTA)
        self.assertRegex(refusal.text, r"\b42\b")
        # Of the 42 each has a socket and a pidfd; the daemon itself has some 15.
        self.assertLess(daemon.descriptors(), 150)

    def test_a_refusal_says_why_to_programs_and_tools(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=0))
        for client in self.clients(daemon, 32):
            client.hello(want_ring=False)
        for _ in range(20):
            status, _, text = self.run_command([BLINKCTL, "--socket", daemon.socket, "status"])
            self.assertNotEqual(status, 0)
            self.assertIn("uses 32 and asks for 1 more", text)
            self.assertIn("the limit is 32, connections_per_tenant", text)
        opened = self.start_client(daemon, []).finish()
        self.assert_step(opened, "open", "QUOTA", "uses 32 and asks for 1 more")

    def test_connections_of_one_user_write_a_bounded_log(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=0))
        clients = self.clients(daemon, 32 + 1000)
        self.assertEqual(clients[-1].receive().code, raw.QUOTA)
        for client in clients:
            client.close()
        daemon.wait_for("the count", lambda blinkd: "were not written" in blinkd.stderr())
        self.assertLess(len(daemon.stderr().splitlines()), 800)


class RequestTest(FloodTest):
    def wait_for_communicators(self, daemon, condition):
        self.until(lambda: condition(self.ctl_json(daemon, "status")["comm_count"]))

    def join_alone(self, client, count):
        """So many communicators of one rank, asked for without waiting: the replies."""
        first = client.last_id + 1
        for _ in range(count):
            client.send(raw.COMM_INIT, message(_1=raw.unique_id(), _2=1, _3=0, _4=0))
            if client.last_id % 64 == 0:
                client.request(raw.QUERY)
        client.request(raw.QUERY)
        return [client.received_by_id[number].code for number in range(first, client.last_id)]

    def test_gatherings_and_queries_keep_nobody_waiting(self):
        daemon = self.watched_daemon()
        self.attack(daemon, "gatherings")
        self.wait_for_communicators(daemon, lambda count: count >= 200)
        self.check_goes_on(daemon)
        self.check_turns(daemon)

    def test_joins_and_exits_keep_nobody_waiting(self):
        daemon = self.watched_daemon()
        for user in range(3):
            self.attack(daemon, "joins", NOBODY - user)
        self.wait_for_communicators(daemon, lambda count: count >= 1000)
        self.check_goes_on(daemon)
        self.check_turns(daemon)

    def test_many_communicators_are_listed_and_left(self):
        daemon = self.watched_daemon()
        client = open_client(self, daemon)
        self.assertEqual(set(self.join_alone(client, 16000)), {0})
        comms = self.ctl_json(daemon, "comms")["comms"]
        self.assertEqual([comm["comm"] for comm in comms], list(range(16000, 0, -1)))
        self.assertEqual(self.ctl_json(daemon, "devices")["devices"][0]["comm_count"], 16000)
        client.close()
        self.check_goes_on(daemon)
        self.wait_for_communicators(daemon, lambda count: count == 0)
        self.check_turns(daemon)

    def gatherings_of_ranks(self, client, parent, count):
        """So many communicators that wait for both ranks of this one: the requests to join."""
        first = client.last_id + 1
        for _ in range(count):
            client.send(raw.COMM_INIT, message(_1=raw.unique_id(), _2=2, _3=0, _4=0, _8=parent))
        return range(first, first + count)

    def check_gatherings_fail(self, daemon, gone, code, text):
        """One rank waits in thousands of communicators for the other, which goes."""
        clients = [open_client(self, daemon) for _ in range(2)]
        members = [reply.body(5)[1] for reply in raw.join_all(clients)]
        requests = self.gatherings_of_ranks(clients[0], members[0], 4000)
        clients[0].request(raw.QUERY)
        gone(clients[1], members[1])
        while requests[-1] not in clients[0].received_by_id:
            self.assertTrue(clients[0].receive())
        replies = [clients[0].received_by_id[number] for number in requests]
        self.assertEqual({(reply.code, text in reply.text) for reply in replies}, {(code, True)})
        self.check_goes_on(daemon)
        self.check_turns(daemon)
        for client in clients:
            client.close()
        self.wait_for_communicators(daemon, lambda count: count == 0)

    def test_gatherings_that_expect_a_rank_which_leaves_fail_in_slices(self):
        self.check_gatherings_fail(
            self.watched_daemon(), lambda client, member: client.send(raw.COMM_DESTROY, message(_1=member)),
            raw.PEER_LOST, "rank 1 of communicator 1 left before it had joined as rank 1")

    def test_gatherings_that_expect_a_rank_which_exits_fail_in_slices(self):
        self.check_gatherings_fail(
            self.watched_daemon(), lambda client, member: client.close(),
            raw.PEER_LOST, "rank 1 of communicator 1 disconnected before it had joined as rank 1")

    def test_gatherings_of_a_communicator_that_is_aborted_fail_in_slices(self):
        self.check_gatherings_fail(
            self.watched_daemon(), lambda client, member: client.send(raw.COMM_ABORT, message(_1=member)),
            raw.ABORTED, "aborted communicator 1")

    def test_an_answer_is_given_in_pages(self):
        daemon = self.daemon()
        client = open_client(self, daemon)
        self.join_alone(client, 500)
        pages, following = 0, 0
        while True:
            page = client.request(raw.QUERY, message(_1=COMMS, _15=following)).body(6)
            pages, following = pages + 1, page.get(15, 0)
            if not following:
                break
        self.assertGreater(pages, 3)
        for kind in [DEVICES, TOPOLOGY, LINKS, CLIENTS]:
            for page in [0, 1, 500, 1 << 40, (1 << 64) - 1]:
                self.assertEqual(client.request(raw.QUERY, message(_1=kind, _15=page)).code, 0)

    def test_regions_of_a_client_that_exits_are_unmapped_in_slices(self):
        daemon = self.watched_daemon()
        before = daemon.mappings()
        client, fd = open_client(self, daemon), sealed_memfd(4096)
        self.addCleanup(os.close, fd)
        for _ in range(3000):
            self.assertEqual(client.register(fd, 4096).code, 0)
        self.assertGreater(daemon.mappings(), 3000)
        client.close()
        self.check_goes_on(daemon)
        self.until(lambda: daemon.mappings() <= before + 100)
        self.check_turns(daemon)

    def test_four_users_who_register_all_they_may_leave_enough_to_a_fifth(self):
        """Each region is a mapping, of which a process has vm.max_map_count."""
        daemon, held = self.watched_daemon(), []

        def register_all():
            client, fd = RawClient(daemon), sealed_memfd(4096)
            client.hello()
            count = 0
            while not client.register(fd, 4096).code:
                count += 1
            held.append(client)
            return count

        counts = [count() for count in [self.start_as_user(register_all, NOBODY - user, stays=True)
                                        for user in range(4)]]
        self.assertGreater(min(counts), 1000)
        with open("/proc/sys/vm/max_map_count", encoding="ascii") as most:
            self.assertLess(daemon.mappings(), int(most.read()))

        def reduce():
            client, fd = RawClient(daemon), sealed_memfd(1 << 20)
            client.hello()
            region = client.register(fd, 1 << 20).body(4)[1]
            for reply in raw.join_all([client, client]):
                client.submit(raw.ALLREDUCE, reply.body(5)[1], 1 << 18, region, region)
            return [client.reap()[1:] for _ in range(2)]

        self.assertEqual(self.as_user(reduce, NOBODY - 4), [[raw.OK, ""]] * 2)
        self.check_goes_on(daemon)

    def test_who_does_not_read_is_not_heard_and_loses_nothing(self):
        daemon = self.daemon(topology="16xdgx1v")
        client = open_client(self, daemon, want_ring=False)
        client.socket.setblocking(False)
        request, sent = message(_1=7) + raw.field(raw.QUERY, message(_1=TOPOLOGY)), 0
        frame = struct.pack("<I", len(request)) + request
        unsent = memoryview(frame * 2000)
        idle = 0
        while unsent and idle < 100:
            try:
                count = client.socket.send(unsent)
                unsent, sent, idle = unsent[count:], sent + count, 0
            except BlockingIOError:
                idle += 1
                time.sleep(0.01)
        daemon.check_serves()
        client.socket.settimeout(LIMIT_S)
        for _ in range(sent // len(frame)):
            self.assertEqual(client.receive().id, 7)
        self.assertNotIn("dropped", daemon.stderr())


class StopTest(FloodTest):
    """The daemon stops while there is much to end."""

    def test_everybody_hears_and_no_turn_is_long(self):
        daemon = self.watched_daemon(*self.limits(clients_per_tenant=1000))
        hoarder, victim = open_client(self, daemon), open_client(self, daemon)
        for _ in range(400):
            open_client(self, daemon)
        for _ in range(4000):
            hoarder.send(raw.COMM_INIT, message(_1=raw.unique_id(), _2=2, _3=0, _4=0))
            hoarder.send(raw.COMM_INIT, message(_1=raw.unique_id(), _2=1, _3=0, _4=0))
            if hoarder.last_id % 64 == 0:
                hoarder.request(raw.QUERY)
        hoarder.request(raw.QUERY)
        member, = [reply.body(5)[1] for reply in raw.join_all([victim])]
        daemon.ended = True
        os.kill(daemon.pid, signal.SIGTERM)
        lost = victim.receive()
        self.assertEqual((lost.id, lost.body(7).get(1)), (0, member))
        self.assertIn("the daemon is stopping", raw.parse(lost.body(7)[2])[2].decode())
        self.assertEqual(daemon.wait(), 0)
        while hoarder.receive():
            pass
        self.assertIn(raw.DAEMON_LOST, {reply.code for reply in hoarder.received_by_id.values()})
        steps, = re.findall(r"longest turn: (\d+) steps", daemon.stderr())
        self.assertLessEqual(int(steps), TURN_STEPS_MOST)


class SightTest(FloodTest):
    """Tools see what their user has."""

    def seen(self, daemon):
        tool = RawClient(daemon)
        tool.hello(want_ring=False)
        found = []
        for kind, number in [(CLIENTS, 6), (COMMS, 5)]:
            found.append(number in tool.request(raw.QUERY, message(_1=kind)).body(6))
        last_link = raw.parse(tool.request(raw.QUERY, message(_1=LINKS)).body(6)[4])
        found.append(8 in last_link)  # uses, which come last
        tool.close()
        return found

    def busy_daemon(self, *flags):
        daemon = self.watched_daemon(*flags, topology="dgx1v", devices=8)
        ranks = self.start_ranks(daemon, [0, 1], ["allreduce:1000:float32:sum", "gate:end"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
            self.addCleanup(rank.say)
        return daemon

    def test_another_user_sees_nothing_of_it(self):
        daemon = self.busy_daemon()
        self.assertEqual(self.as_user(lambda: self.seen(daemon)), [False, False, False])
        self.assertEqual(self.seen(daemon), [True, True, True])

    def test_a_member_of_the_admin_group_sees_all(self):
        config = self.write_file("blinkd.conf", "[daemon]\nadmin_group = 4711\n")
        daemon = self.busy_daemon("--config", config)
        self.assertEqual(self.as_user(lambda: self.seen(daemon), groups=[4710]), [False, False, False])
        self.assertEqual(self.as_user(lambda: self.seen(daemon), groups=[4710, 4711]), [True, True, True])

    def test_a_user_sees_what_it_has(self):
        daemon = self.busy_daemon()

        def own():
            client = RawClient(daemon)
            client.hello()
            client.join("00" * 16, 1, 0, 0)
            return self.seen(daemon)
        self.assertEqual(self.as_user(own), [True, True, False])


class MappingTest(FloodTest):
    def test_regions_of_many_users_leave_mappings_for_others(self):
        daemon = self.watched_daemon(*self.limits(regions_per_node=1000))
        before = daemon.mappings()
        for user in range(3):
            self.attack(daemon, "regions", NOBODY - user)
        daemon.wait_for("regions", lambda blinkd: blinkd.mappings() > before + 300)
        self.check_goes_on(daemon)
        self.assertLess(daemon.mappings(), before + 1000 + 100)
        self.check_turns(daemon)


class DescriptorTest(FloodTest):
    def fill(self, daemon):
        """Connect until no more descriptors are left: the clients, and the refusal of the last."""
        clients = []
        while True:
            client = RawClient(daemon)
            self.addCleanup(client.close)
            reply = client.hello()
            if reply.code:
                break
            clients.append(client)
        for _ in range(50):
            self.addCleanup(RawClient(daemon).close)
        return clients, reply

    def test_without_descriptors_who_connects_hears_why_and_the_connected_go_on(self):
        daemon = self.daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)))
        bystanders = self.start_ranks(daemon, [0, 1], ["gate:begin", "allreduce:1000:float32:sum"])
        for bystander in bystanders:
            bystander.wait_for_step("at-gate")
        clients, refusal = self.fill(daemon)
        self.assertGreater(len(clients), 5)
        self.assertEqual(refusal.code, raw.QUOTA)
        self.assertIn("LimitNOFILE", refusal.text)
        status, _, text = self.run_command([BLINKCTL, "--socket", daemon.socket, "status"])
        self.assertEqual(status, 1)
        self.assertIn("LimitNOFILE", text)
        for bystander in bystanders:
            bystander.say()
        for bystander in bystanders:
            self.assert_all_ok(bystander.finish())
        for client in clients:
            client.close()
        daemon.wait_for("the clients' end", lambda blinkd: blinkd.descriptors() < 100)
        daemon.check_serves()

    def test_descriptors_that_wait_for_their_frames_are_few(self):
        daemon = self.daemon()
        fd, before = sealed_memfd(4096), daemon.descriptors()
        self.addCleanup(os.close, fd)
        clients = []
        for _ in range(40):
            clients.append(open_client(self, daemon))
            clients[-1].send_bytes(struct.pack("<I", 100), [fd] * 64)
        open_client(self, daemon)
        self.assertLess(daemon.descriptors(), before + 41 * 8 + 1024 + 64)
        for client in clients:
            client.close()
        daemon.wait_for("the clients' end", lambda blinkd: blinkd.descriptors() < before + 30)
        daemon.check_serves()

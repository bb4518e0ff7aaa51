"""Clients of GPUs that speak nonsense, or go at the worst moment, harm nobody but themselves."""
import mmap
import os
import resource
import signal
import socket
import struct
import time
import unittest

import harness
import raw
from harness import IntegrationTest
from raw import message, open_client

STANDIN = os.environ["STANDIN"]
PAGE = 4096
WINDOW = 128  # bytes of a window_t
NOWHERE = 99999  # a window that is in no region


class HostileGpuTest(IntegrationTest):
    LIMITS = {}

    def setUp(self):
        super().setUp()
        # hwloc's plugins load libraries of other vendors, which leak.
        environment = {**os.environ, "LD_LIBRARY_PATH": STANDIN, "HWLOC_PLUGINS_PATH": "/nonexistent"}
        self.blinkd = self.daemon("--devices", "cuda:0x4", *self.limits(**self.LIMITS), env=environment)

    def client(self, windows=PAGE // WINDOW):
        client = open_client(self, self.blinkd)
        reply = client.request(raw.STAGING_CREATE, message(_1=windows * WINDOW, _3=1))
        self.assertEqual((reply.code, reply.text), (0, ""))
        client.windows = mmap.mmap(client.fds[-1], windows * WINDOW)
        self.addCleanup(client.windows.close)
        return client

    def members(self, *clients):
        """A communicator of these: the handle of each."""
        replies = raw.join_all(clients)
        self.assertEqual([(reply.code, reply.text) for reply in replies], [(0, "")] * len(clients))
        return [reply.body(5)[1] for reply in replies]

    def submit(self, client, expected=raw.OK, **entry):
        """An entry that is completed before any other; its text."""
        client.submit(**entry)
        user_data, result, text = client.reap()
        self.assertEqual((user_data, result), (entry.get("user_data", 1), expected), text)
        return text

    def store(self, client, member, window=0, **entry):
        return self.submit(client, member=member, reserved=window, flags=raw.STREAM | raw.STORED,
                           **{"opcode": raw.BARRIER, **entry})

    @staticmethod
    def fill(client, window, value=1):
        struct.pack_into("<Q", client.windows, window * WINDOW, value)
        client.doorbell()

    @staticmethod
    def done(client, window):
        return struct.unpack_from("<Q", client.windows, window * WINDOW + 64)[0]

    def wait_done(self, client, window, value=1):
        deadline = time.monotonic() + harness.LIMIT_S
        while self.done(client, window) != value:
            self.assertLess(time.monotonic(), deadline, "the stream waits for ever")
            time.sleep(0.001)

    def replay(self, client, window):
        struct.pack_into("<Q", client.windows, window * WINDOW + 64, 0)
        self.fill(client, window)


class WindowTest(HostileGpuTest):
    def test_windows_are_limited(self):
        """The daemon keeps a quarter of their bytes beside them."""
        client = open_client(self, self.blinkd)
        reply = client.request(raw.STAGING_CREATE, message(_1=4097 * WINDOW // PAGE * PAGE + PAGE, _3=1))
        self.assertEqual(reply.code, raw.INVALID_ARGUMENT)
        self.assertRegex(reply.text, r"up to 524288 are possible")

    def test_pinned_staging_memory_is_charged_until_the_budget_refuses_it(self):
        """The GPU worker pins it before its client can populate it."""
        client = open_client(self, self.blinkd)
        for size, code in [(64 << 20, 0), (1 << 30, raw.QUOTA)]:
            reply = client.request(raw.STAGING_CREATE, message(_1=size, _2=1))
            self.assertEqual(reply.code, code, reply.text)
        self.assertIn("pinned_bytes_per_tenant", reply.text)
        client.close()
        self.until(lambda: self.pinned() == 0)

    def pinned(self):
        [tenant] = self.ctl_json(self.blinkd, "tenants")["tenants"]
        return tenant["budgets"]["pinned_bytes"]["used"]

    def test_an_entry_with_a_bad_window_fails_its_group(self):
        client = self.client()
        [member] = self.members(client)
        client.submit(raw.BARRIER, member=member, reserved=NOWHERE, flags=raw.STREAM | raw.MORE)
        self.assertIn(f"window {NOWHERE}",
                      self.submit(client, raw.INVALID_ARGUMENT, opcode=raw.BARRIER, member=member))

    def test_an_entry_with_a_bad_window_fails_its_op_on_all_ranks(self):
        clients = [self.client(), self.client()]
        members = self.members(*clients)
        for flags in (0, raw.STREAM):
            clients[0].submit(raw.BARRIER, member=members[0], reserved=NOWHERE * (flags != 0), flags=flags)
            clients[1].submit(raw.BARRIER, member=members[1])
            for client in clients:
                _, result, text = client.reap()
                self.assertEqual(result, raw.INVALID_ARGUMENT if flags else raw.OK, text)

    def test_stored_entries_of_a_group_that_is_refused_are_forgotten(self):
        client = self.client()
        [member] = self.members(client)
        both = raw.STREAM | raw.STORED
        # The first would fail, and with it the communicator, if it ever ran.
        client.submit(raw.ALLREDUCE, member=member, count=4, in_region=77, out_region=77,
                      flags=both | raw.MORE)
        self.submit(client, raw.INVALID_ARGUMENT, opcode=raw.BARRIER, member=member, reserved=NOWHERE,
                    flags=both)
        self.store(client, member)
        self.replay(client, 0)
        self.wait_done(client, 0)
        self.submit(client, opcode=raw.BARRIER, member=member)

    def test_a_stored_group_with_a_bad_entry_is_refused(self):
        client = self.client()
        [member] = self.members(client)
        both = raw.STREAM | raw.STORED
        client.submit(raw.BARRIER, member=member, reserved=NOWHERE, flags=both | raw.MORE)
        self.submit(client, raw.INVALID_ARGUMENT, opcode=raw.BARRIER, member=member, flags=both)

    def test_a_window_that_is_forgotten_while_it_runs(self):
        clients = [self.client(), self.client()]
        members = self.members(*clients)
        self.store(clients[0], members[0])
        self.replay(clients[0], 0)
        self.until(lambda: struct.unpack_from("<Q", clients[0].windows)[0] == 0)  # the daemon will run it
        clients[0].submit(raw.FORGET, member=members[0], user_data=5)
        self.submit(clients[0], user_data=6)  # the nop overtakes it
        self.store(clients[0], members[0], opcode=raw.ALLREDUCE)
        self.submit(clients[1], opcode=raw.BARRIER, member=members[1])
        self.assertEqual(clients[0].reap(), (5, raw.OK, ""))
        self.replay(clients[0], 0)
        self.submit(clients[1], opcode=raw.ALLREDUCE, member=members[1])
        self.wait_done(clients[0], 0)
        self.submit(clients[0], opcode=raw.FORGET, member=members[0])
        self.submit(clients[0], raw.NOT_FOUND, opcode=raw.FORGET, member=members[0])

    def test_a_replay_does_not_break_into_a_group(self):
        client = self.client()
        [member] = self.members(client)
        self.store(client, member)
        client.submit(raw.ALLREDUCE, member=member, count=4, in_region=77, out_region=77, flags=raw.MORE)
        self.submit(client)  # a nop: the engine has the entry
        self.replay(client, 0)
        time.sleep(0.1)
        self.submit(client, raw.NOT_REGISTERED, opcode=raw.BARRIER, member=member)
        self.wait_done(client, 0)
        self.submit(client, opcode=raw.BARRIER, member=member)

    def test_many_replays_of_one_client_leave_others_their_turn(self):
        victim = self.client()
        [member] = self.members(victim)
        self.store(victim, member)
        count = 4096
        client = self.client(count)
        [hostile] = self.members(client)
        for window in range(count):
            self.store(client, hostile, window)
        os.kill(self.blinkd.pid, signal.SIGSTOP)
        client.windows[:] = struct.pack("<16Q", 1, *[0] * 15) * count
        self.replay(victim, 0)
        os.kill(self.blinkd.pid, signal.SIGCONT)
        self.wait_done(victim, 0)
        for window in range(count):
            self.wait_done(client, window)
        self.assertLess(self.ctl_json(self.blinkd, "status")["engine_steps_most"], count / 2)

    def store_group(self, client, member, count):
        """A stored group of so many barriers."""
        both = raw.STREAM | raw.STORED
        for i in range(count - 1):
            while i % 512 == 0 and client.word(raw.SQ_HEAD) != client.sq_tail & 0xFFFFFFFF:
                time.sleep(0.001)
            client.submit(raw.BARRIER, member=member, flags=both | raw.MORE, ring_doorbell=i % 512 == 511)
        self.submit(client, opcode=raw.BARRIER, member=member, flags=both)

    def test_a_replay_of_a_large_group_is_no_single_turn_and_keeps_its_order(self):
        """What the client submits meanwhile comes after the group."""
        client, count = self.client(), 60000
        [member] = self.members(client)
        self.store_group(client, member, count)
        before = self.ctl_json(self.blinkd, "status")["op_count"]
        self.replay(client, 0)
        self.submit(client, opcode=raw.BARRIER, member=member)
        self.wait_done(client, 0)
        status = self.ctl_json(self.blinkd, "status")
        self.assertEqual(status["op_count"], before + count + 1)
        self.assertLess(status["engine_steps_most"], 2000)

    def test_a_client_that_goes_in_the_middle_of_a_replay(self):
        for _ in range(5):
            clients = [self.client(), self.client()]
            members = self.members(*clients)
            self.store_group(clients[0], members[0], 20000)
            self.replay(clients[0], 0)
            clients[0].send(raw.COMM_DESTROY, message(_1=members[0]))
            clients[0].close()
            result = raw.OK
            while result == raw.OK:  # with those of the replay that came about
                clients[1].submit(raw.BARRIER, member=members[1])
                _, result, text = clients[1].reap()
            self.assertEqual(result, raw.PEER_LOST, text)
            clients[1].close()
        self.until(lambda: self.ctl_json(self.blinkd, "status")["client_count"] == 0)

    def test_turns_that_pile_up_behind_one_are_counted(self):
        client = self.client()
        [member] = self.members(client)
        client.submit(raw.BARRIER, member=member, flags=raw.STREAM)
        for i in range(131072):
            while i % 512 == 0 and client.word(raw.SQ_HEAD) != client.sq_tail & 0xFFFFFFFF:
                time.sleep(0.001)
            client.submit(raw.BARRIER, member=77, flags=raw.STREAM | raw.MORE, ring_doorbell=i % 512 == 511)
        self.submit(client, raw.QUOTA, opcode=raw.BARRIER, member=77, flags=raw.STREAM)
        self.fill(client, 0)
        self.assertEqual(client.reap(), (1, raw.OK, ""))
        self.store(client, member, 1)

    def test_stored_entries_are_counted(self):
        client = self.client()
        [member] = self.members(client)
        both = raw.STREAM | raw.STORED
        for _ in range(2):
            for i in range(65535):
                while i % 512 == 0 and client.word(raw.SQ_HEAD) != client.sq_tail & 0xFFFFFFFF:
                    time.sleep(0.001)
                client.submit(raw.BARRIER, member=member, flags=both | raw.MORE, ring_doorbell=i % 512 == 511)
            self.store(client, member)
        self.assertIn("131072", self.submit(client, raw.QUOTA, opcode=raw.BARRIER, member=member, flags=both))
        self.submit(client, opcode=raw.FORGET, member=member)
        self.store(client, member)


class StoredBudgetTest(HostileGpuTest):
    LIMITS = {"op_bytes_per_tenant": "64K"}

    def used(self):
        [tenant] = self.ctl_json(self.blinkd, "tenants")["tenants"]
        return tenant["budgets"]["op_bytes"]["used"]

    def test_stored_groups_are_charged_until_they_are_forgotten(self):
        client, entries = self.client(), 200
        [member] = self.members(client)

        def store_group(window, expected):
            for _ in range(entries):
                client.submit(raw.BARRIER, member=member, reserved=window,
                              flags=raw.STREAM | raw.STORED | raw.MORE)
            return self.submit(client, expected, opcode=raw.BARRIER, member=member, reserved=window,
                               flags=raw.STREAM | raw.STORED)
        store_group(0, raw.OK)
        self.assertGreater(self.used(), entries * 64)
        entries = 600
        self.assertIn("op_bytes_per_tenant", store_group(1, raw.QUOTA))
        self.submit(client, raw.NOT_FOUND, opcode=raw.FORGET, member=member, reserved=1)
        self.submit(client, opcode=raw.FORGET, member=member)
        self.assertEqual(self.used(), 0)
        self.store(client, member)
        client.close()
        self.until(lambda: self.used() == 0)

    def test_tickets_are_charged_while_an_older_one_of_their_window_lasts(self):
        client = self.client()
        [member] = self.members(client)
        client.submit(raw.BARRIER, member=member, flags=raw.STREAM)
        for tickets in range(3000):
            client.submit(raw.BARRIER, member=77, flags=raw.STREAM)
            _, result, text = client.reap()
            if result != raw.NOT_FOUND:
                break
        self.assertEqual(result, raw.QUOTA)
        self.assertIn("op_bytes_per_tenant", text)
        self.assertGreater(tickets, 1000)
        self.fill(client, 0)
        self.assertEqual(client.reap()[:2], (1, raw.OK))
        client.close()
        self.until(lambda: self.used() == 0)


class EndTest(HostileGpuTest):
    def test_a_client_and_the_worker_go_together(self):
        for _ in range(5):
            client = self.client()
            for _ in range(20):
                client.request(raw.STAGING_CREATE, message(_1=2 * PAGE, _2=1))
            worker = self.ctl_json(self.blinkd, "status")["gpu_worker_pid"]
            os.kill(self.blinkd.pid, signal.SIGSTOP)
            client.close()
            os.kill(worker, signal.SIGKILL)
            time.sleep(0.05)
            os.kill(self.blinkd.pid, signal.SIGCONT)
            self.wait_for_worker(worker)

    def wait_for_worker(self, last):
        deadline = time.monotonic() + harness.LIMIT_S
        while self.ctl_json(self.blinkd, "status")["gpu_worker_pid"] in (None, 0, last):
            self.assertLess(time.monotonic(), deadline, "there is no worker")
            time.sleep(0.05)

    def register(self, client, fd, size):
        """Memory of the host that GPUs reach: its number."""
        reply = client.request(raw.MEM_REGISTER, message(_2=size, _3=1), [fd])
        self.assertTrue(reply.body(4).get(2), reply.text)
        return reply.body(4)[1]

    def test_a_worker_with_much_to_lose_makes_no_turn_long(self):
        """Its communicators end, and the next worker maps all regions again."""
        client, fd, count = self.client(), raw.sealed_memfd(PAGE), 3000
        self.addCleanup(os.close, fd)
        regions = [self.register(client, fd, PAGE) for _ in range(count)]
        members = [self.members(client)[0] for _ in range(count)]
        worker = self.ctl_json(self.blinkd, "status")["gpu_worker_pid"]
        os.kill(worker, signal.SIGKILL)
        ended = {client.receive().body(7)[1] for _ in range(count)}
        self.assertEqual(ended, set(members))
        self.wait_for_worker(worker)
        self.submit(client, raw.SYSTEM, opcode=raw.BARRIER, member=members[0])
        [member] = self.members(client)
        for region in [regions[0], regions[-1]]:
            result = None
            while result != raw.OK:
                client.submit(raw.ALLREDUCE, member=member, count=1, in_region=region, out_region=region)
                _, result, text = client.reap()
                self.assertIn(result, [raw.OK, raw.INVALID_ARGUMENT], text)
        status = self.ctl_json(self.blinkd, "status")
        self.assertLess(status["turn_steps_most"], 1000)
        self.assertLess(status["engine_steps_most"], 2000)

    def test_a_client_goes_as_the_worker_answers(self):
        worker = self.ctl_json(self.blinkd, "status")["gpu_worker_pid"]
        for _ in range(20):
            client = self.client()
            os.kill(worker, signal.SIGSTOP)
            for _ in range(20):
                client.send(raw.STAGING_CREATE, message(_1=2 * PAGE, _2=1))
            time.sleep(0.05)
            os.kill(self.blinkd.pid, signal.SIGSTOP)
            client.close()
            os.kill(worker, signal.SIGCONT)
            time.sleep(0.05)
            os.kill(self.blinkd.pid, signal.SIGCONT)

    @unittest.skipIf(os.geteuid() == 0, "root may have any number of descriptors on their way")
    def test_a_message_to_the_worker_that_cannot_be_sent_is_answered_itself(self):
        client = self.client()
        resource.prlimit(self.blinkd.pid, resource.RLIMIT_NOFILE, (256, 256))
        pairs = [socket.socketpair() for _ in range(6)]
        for pair in pairs:  # descriptors of this user that are on their way
            socket.send_fds(pair[0], [b"x"], [0] * 50)
        reply = client.request(raw.STAGING_CREATE, message(_1=2 * PAGE, _2=1))
        self.assertIn("tell the GPU worker", reply.text)
        for pair in pairs:
            pair[0].close()
            pair[1].close()
        self.assertEqual(client.request(raw.STAGING_CREATE, message(_1=2 * PAGE, _2=1)).code, 0)

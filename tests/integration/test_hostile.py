"""Clients that speak nonsense harm nobody but themselves."""
import ctypes
import fcntl
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time
import unittest

import raw
from harness import IntegrationTest, new_id
from raw import VERSION, RawClient, join_all, message, sealed_memfd, unique_id

PAGE = 4096
COMMS = 4  # a query
#: Has a thread of the process of this number watched, and a child that inherits the connection.
WATCHES_ANOTHER = """
import os, subprocess, sys, types
import raw
client = raw.RawClient(types.SimpleNamespace(socket=sys.argv[1]))
assert client.hello().code == 0
assert client.request(raw.WATCH_THREAD, b"", [os.pidfd_open(int(sys.argv[2]))]).code == 0
child = subprocess.Popen(["sleep", "1000"], pass_fds=[client.socket.fileno()], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
"""
FALLOC_PUNCH_HOLE_KEEP_SIZE = 3


class HostileTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.blinkd = self.daemon()
        self.bystanders = self.start_ranks(self.blinkd, [6, 7], ["allreduce:1000:float32:sum", "gate:end",
                                                                 "allreduce:1000:float32:max"])
        for bystander in self.bystanders:
            bystander.wait_for_step("at-gate")

    def tearDown(self):
        """Whatever the test did: those connected before go on, and new ones are served."""
        for bystander in self.bystanders:
            bystander.say()
        for bystander in self.bystanders:
            for step in bystander.finish():
                self.assertEqual((step["result"], step["wrong"]), ("BLINK_OK", 0), step)
        self.blinkd.check_serves()
        super().tearDown()

    def client(self, hello=True):
        client = RawClient(self.blinkd)
        self.addCleanup(client.close)
        if hello:
            self.assertEqual(client.hello().code, 0)
        return client

    def fd(self, fd):
        self.addCleanup(os.close, fd)
        return fd

    def member(self, client):
        """A communicator of this client alone, and memory for it: (member, region)."""
        reply = client.join(new_id(), 1, 0, 0)
        self.assertEqual((reply.code, reply.text), (0, ""))
        return reply.body(5)[1], self.region(client)

    def region(self, client, size=16 * PAGE):
        reply = client.register(self.fd(sealed_memfd(size)), size)
        self.assertEqual((reply.code, reply.text), (0, ""))
        return reply.body(4)[1]

    def wait_until_gone(self, count):
        """Until the daemon has `count` clients with rings: it has forgotten the others."""
        self.until(lambda: sum(client["program"] != "blinkctl" for client in
                               self.ctl_json(self.blinkd, "clients")["clients"]) <= count)


class FrameTest(HostileTest):
    def test_another_protocol_version(self):
        client = self.client(hello=False)
        reply = client.hello(7, 9)
        self.assertEqual(reply.code, raw.PROTOCOL)
        self.assertRegex(reply.text, r"\b7\b.*\b9\b|\b9\b.*\b7\b")
        self.assertTrue(client.closed_by_daemon())

    def test_a_range_of_versions_meets(self):
        client = self.client(hello=False)
        reply = client.hello(1, 9)
        self.assertEqual(reply.code, 0)
        self.assertEqual(reply.body(3)[1], VERSION)

    def test_ids_begin_with_where_ranks_gather(self):
        reply = self.client(hello=False).hello()
        self.assertEqual(reply.body(3)[6], unique_id()[:48])  # without a network: nowhere else

    def test_versions_in_the_wrong_order(self):
        client = self.client(hello=False)
        self.assertEqual(client.hello(9, 1).code, raw.PROTOCOL)
        self.assertTrue(client.closed_by_daemon())

    def test_request_before_hello(self):
        for kind, body in [(raw.QUERY, b""), (raw.MEM_REGISTER, message(_2=PAGE)),
                           (raw.COMM_ABORT, message(_1=1)), (raw.COMM_INIT, message(_1=unique_id(), _2=1))]:
            client = self.client(hello=False)
            self.assertEqual(client.request(kind, body).code, raw.PROTOCOL)

    def test_hello_twice(self):
        again = message(_1=VERSION, _2=VERSION, _3=b"again")
        self.assertEqual(self.client().request(raw.HELLO, again).code, raw.PROTOCOL)

    def test_requests_for_rings_without_a_ring(self):
        client = self.client(hello=False)
        self.assertEqual(client.hello(want_ring=False).code, 0)
        fd = self.fd(sealed_memfd(PAGE))
        self.assertNotEqual(client.register(fd, PAGE).code, 0)
        self.assertNotEqual(client.join(new_id(), 1, 0).code, 0)

    def test_garbage_in_a_frame(self):
        client = self.client(hello=False)
        client.send_frame(b"\xff" * 40)
        self.assertTrue(client.closed_by_daemon())

    def test_garbage_after_hello(self):
        client = self.client()
        client.send_frame(bytes(range(256)))
        self.assertTrue(client.closed_by_daemon())

    def test_empty_frame(self):
        client = self.client()
        client.send_bytes(struct.pack("<I", 0))
        reply = client.receive()
        self.assertTrue(reply is None or reply.code, "an empty request is no success")

    def test_length_beyond_the_limit(self):
        for length in [(64 << 10) + 1, 0x7FFFFFFF, 0xFFFFFFFF]:
            client = self.client()
            client.send_bytes(struct.pack("<I", length) + b"x" * 1000)
            self.assertTrue(client.closed_by_daemon())

    def test_frame_in_single_bytes(self):
        client = self.client()
        request = message(_1=77) + raw.field(raw.QUERY, b"")
        for byte in struct.pack("<I", len(request)) + request:
            client.send_bytes(bytes([byte]))
        self.assertEqual((client.receive().id, ), (77, ))

    def test_many_requests_in_one_write(self):
        client = self.client()
        request = b"".join(struct.pack("<I", len(body)) + body
                           for body in [message(_1=number) + raw.field(raw.QUERY, b"")
                                        for number in range(1, 201)])
        client.send_bytes(request)
        self.assertEqual(sorted(client.receive().id for _ in range(200)), list(range(1, 201)))

    def test_a_client_that_never_reads_its_replies(self):
        client = self.client(hello=False)
        client.hello(want_ring=False)
        client.socket.settimeout(1)
        request = message(_1=1) + raw.field(raw.QUERY, message(_1=2))
        try:
            for _ in range(20000):
                client.send_bytes(struct.pack("<I", len(request)) + request)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass
        self.blinkd.check_serves()

    def test_too_many_descriptors(self):
        client = self.client()
        fds = [self.fd(sealed_memfd(PAGE)) for _ in range(80)]
        before = self.blinkd.descriptors()
        client.send(raw.MEM_REGISTER, message(_2=PAGE), fds)
        self.assertTrue(client.closed_by_daemon())
        self.wait_until_gone(2)
        self.assertLess(self.blinkd.descriptors(), before, "descriptors were left open")

    def test_descriptors_that_nothing_asked_for(self):
        client = self.client()
        before = self.blinkd.descriptors()
        for _ in range(50):
            client.request(raw.QUERY, b"", [self.fd(os.memfd_create("unasked"))])
        self.assertLessEqual(self.blinkd.descriptors(), before)

    def test_watching_what_is_no_thread(self):
        """A folder of /proc is taken for a process by some calls, and cannot be watched."""
        client = self.client()
        before = self.blinkd.descriptors()
        for fd in (os.memfd_create("none"), os.open(f"/proc/{os.getpid()}", os.O_RDONLY), os.eventfd(0)):
            self.assertEqual(client.request(raw.WATCH_THREAD, b"", [self.fd(fd)]).code, raw.INVALID_ARGUMENT)
        self.assertEqual(client.request(raw.WATCH_THREAD).code, raw.INVALID_ARGUMENT)
        # Connections of tests before may close meanwhile.
        self.assertLessEqual(self.blinkd.descriptors(), before)
        client.socket.close()
        self.wait_until_gone(2)

    def test_a_watched_thread_ends(self):
        """The connection ends with it. No more than two are watched."""
        client = self.client()
        child = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        watched = self.fd(os.pidfd_open(child.pid))
        before = self.blinkd.descriptors()
        codes = [client.request(raw.WATCH_THREAD, b"", [watched]).code for _ in range(50)]
        self.assertEqual(codes, [0] * 2 + [raw.INVALID_ARGUMENT] * 48)
        # Connections of tests before may close meanwhile.
        self.assertLessEqual(self.blinkd.descriptors(), before + 2)
        child.kill()
        self.assertTrue(client.closed_by_daemon())

    def test_the_only_watched_thread_is_another_process_s_and_lives_on(self):
        """The client's own end counts all the same, also where its child has the socket."""
        command = [sys.executable, "-B", "-c", WATCHES_ANOTHER, self.blinkd.socket, str(os.getpid())]
        child = subprocess.Popen(command, cwd=pathlib.Path(__file__).parent, stdout=subprocess.PIPE,
                                 text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        grandchild, = child.stdout.readline().split()
        self.addCleanup(os.kill, int(grandchild), signal.SIGKILL)
        child.kill()
        self.wait_until_gone(2)

    def test_silence(self):
        self.client(hello=False)
        self.blinkd.check_serves()

    def test_closing_in_the_middle_of_a_frame(self):
        for part in [b"\x01", b"\x10\x00\x00\x00", b"\x10\x00\x00\x00abc"]:
            client = self.client(hello=False)
            client.send_bytes(part)
            client.close()

    def test_random_frames(self):
        """Requests with random bodies: any answer, or the end of the connection, but no harm."""
        chance = random.Random(1)
        for _ in range(300):
            client = self.client(hello=chance.random() < 0.8)
            for _ in range(5):
                try:
                    client.send(chance.randrange(12), chance.randbytes(chance.randrange(40)))
                except OSError:
                    break
            client.close()


class QuotaTest(HostileTest):
    """What one user takes of what all users share: descriptors, mappings, the log."""

    def test_connections_that_never_say_hello_are_counted(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=10))
        silent = [RawClient(daemon) for _ in range(100)]
        for client in silent:
            self.addCleanup(client.close)
        reply = silent[-1].receive()
        self.assertEqual(reply.code, raw.QUOTA)
        self.assertTrue(silent[-1].closed_by_daemon())
        refused = 0
        for client in silent[:-1]:
            client.socket.settimeout(0.05)
            try:
                refused += client.receive().code == raw.QUOTA
            except TimeoutError:
                pass
        self.assertGreater(refused, 30)
        for client in silent:
            client.close()
        daemon.check_serves()

    def pause(self, daemon, seconds):
        """Have time pass for the daemon all at once."""
        daemon.child.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        daemon.child.send_signal(signal.SIGCONT)

    def test_more_gatherings_run_out_of_time_at_once_than_fit_in_a_turn(self):
        daemon, count = self.daemon("--init-timeout", "1"), 300
        client = RawClient(daemon)
        self.addCleanup(client.close)
        self.assertEqual(client.hello().code, 0)
        for _ in range(count):
            client.send(raw.COMM_INIT, message(_1=unique_id(), _2=64, _3=0, _4=0))
        self.pause(daemon, 1.5)
        codes = {client.receive().code for _ in range(count)}
        self.assertEqual(codes, {raw.TIMEOUT})
        daemon.check_serves()

    def test_more_connections_run_out_of_time_at_once_than_fit_in_a_turn(self):
        daemon = self.daemon()
        silent = [RawClient(daemon) for _ in range(600)]
        for client in silent:
            self.addCleanup(client.close)
        self.until(lambda: daemon.descriptors() > len(silent))
        self.pause(daemon, 5.5)
        for client in silent:
            self.assertTrue(client.receive() is None or client.closed_by_daemon())
        daemon.check_serves()

    def test_regions_are_counted_however_small(self):
        daemon = self.daemon(*self.limits(regions_per_tenant=5))
        client, other = RawClient(daemon), RawClient(daemon)
        for each in [client, other]:
            self.addCleanup(each.close)
            self.assertEqual(each.hello().code, 0)
        fd = self.fd(sealed_memfd(PAGE))
        regions = [client.register(fd, 1).body(4)[1] for _ in range(5)]
        reply = other.register(fd, 1)
        self.assertEqual(reply.code, raw.QUOTA)
        self.assertRegex(reply.text, r"\b5\b")
        self.assertEqual(client.request(raw.MEM_DEREGISTER, message(_1=regions[0])).code, 0)
        self.assertEqual(other.register(fd, 1).code, 0)

    def test_a_program_name_cannot_write_lines_of_the_log(self):
        client = self.client(hello=False)
        client.request(raw.HELLO, message(_1=VERSION, _2=VERSION, _3=b"x\n<0>forged\x1b[2J", _4=1))
        self.blinkd.wait_for("the name", lambda blinkd: "forged" in blinkd.stderr())
        self.assertNotIn("\n<0>", self.blinkd.stderr())
        self.assertNotIn("\x1b", self.blinkd.stderr())


class RequestTest(HostileTest):
    def test_unknown_handles(self):
        client = self.client()
        for kind in [raw.MEM_DEREGISTER, raw.COMM_DESTROY, raw.COMM_ABORT, raw.COMM_SURVIVORS]:
            for handle in [0, 1, 12345, 0xFFFFFFFF]:
                self.assertNotEqual(client.request(kind, message(_1=handle)).code, 0, (kind, handle))

    def test_handles_of_another_client(self):
        owner, thief = self.client(), self.client()
        member, region = self.member(owner)
        for kind in [raw.COMM_DESTROY, raw.COMM_ABORT, raw.COMM_SURVIVORS]:
            self.assertNotEqual(thief.request(kind, message(_1=member)).code, 0)
        thief.submit(raw.ALLREDUCE, member, 10, region, region)
        self.assertNotEqual(thief.reap()[1], raw.OK)
        owner.submit(raw.ALLREDUCE, member, 10, region, region)
        self.assertEqual(owner.reap()[1:], (raw.OK, ""))

    def test_giving_up_what_is_no_join_of_the_client(self):
        joining, other = self.client(), self.client()
        identifier = new_id()
        joining.send(raw.COMM_INIT, message(_1=unique_id(identifier), _2=2, _3=0, _4=0))
        request = joining.last_id
        for number in [0, request, 12345, (1 << 64) - 1]:
            self.assertEqual(other.request(raw.COMM_GIVE_UP, message(_1=number)).code, 0)
        self.assertEqual(other.join(identifier, 2, 1).code, 0)
        self.assertEqual(joining.receive().code, 0)
        self.assertEqual(joining.request(raw.COMM_GIVE_UP, message(_1=request)).code, 0)
        states = [comm["state"] for comm in self.ctl_json(self.blinkd, "comms")["comms"]]
        self.assertEqual(states, ["ready"] * 2, "who has joined does not give up")

    def test_a_communicator_that_all_have_left_is_shown_while_its_children_fail(self):
        """They fail in slices; the engine has freed its side of the communicator by then."""
        client, many = self.client(), 3000
        parents = [reply.body(5)[1] for reply in join_all([client, client])]
        first = client.last_id + 1
        for _ in range(many):  # one rank of two of each child
            client.send(raw.COMM_INIT, message(_1=unique_id(), _2=2, _3=0, _4=0, _8=parents[0]))
        for parent in parents:
            client.send(raw.COMM_DESTROY, message(_1=parent))
        children, left = set(range(first, first + many)), {client.last_id - 1, client.last_id}
        while children or left:
            reply = client.receive()
            if reply.id in children:
                self.assertEqual(reply.code, raw.PEER_LOST, reply.text)
                children.remove(reply.id)
            elif reply.id in left:
                self.assertEqual(reply.code, 0, reply.text)
                left.remove(reply.id)
            if children and not left and client.last_id in client.received_by_id:
                client.send(raw.QUERY, message(_1=COMMS))

    def test_ids_of_the_wrong_length(self):
        client = self.client()
        for length in [0, 1, 16, 63, 65, 1000]:
            reply = client.request(raw.COMM_INIT, message(_1=b"\1" * length, _2=1))
            self.assertEqual(reply.code, raw.INVALID_ARGUMENT)
            self.assertIn(f"{length} bytes", reply.text)

    def test_ids_of_another_form(self):
        client = self.client()
        for place, value, named in [(0, 0, "version 0"), (0, 2, "version 2"), (1, 1, "flags 0x1"),
                                    (4, 7, "0x7")]:
            identifier = bytearray(unique_id())
            identifier[place] = value
            reply = client.request(raw.COMM_INIT, message(_1=bytes(identifier), _2=1))
            self.assertEqual(reply.code, raw.INVALID_ARGUMENT)
            self.assertIn(named, reply.text)

    def test_ids_that_differ_in_one_byte_are_two(self):
        client, places = self.client(), [8, 16, 47, 48, 63]
        for place in places:
            identifier = unique_id()
            other = bytearray(identifier)
            other[place] ^= 1
            for each in [identifier, bytes(other)]:
                client.send(raw.COMM_INIT, message(_1=each, _2=2, _3=0, _4=0))
        client.request(raw.QUERY)
        states = [comm["state"] for comm in self.ctl_json(self.blinkd, "comms")["comms"]]
        self.assertEqual(states.count("joining"), 2 * len(places))

    def test_impossible_communicators(self):
        client = self.client()
        for count, rank, device, algorithm in [(0, 0, 0, 0), (0xFFFFFFFF, 0, 0, 0), (2, 2, 0, 0),
                                               (2, 0xFFFFFFFF, 0, 0), (1, 0, 99, 0), (1, 0, -2, 0),
                                               (1, 0, -2**31, 0), (1, 0, 0, 77)]:
            reply = client.join(new_id(), count, rank, device, algorithm)
            self.assertNotEqual(reply.code, 0, (count, rank, device, algorithm))
            self.assertTrue(reply.text)

    def test_a_rank_that_has_not_joined_has_no_device(self):
        client = self.client()
        client.send(raw.COMM_INIT, message(_1=unique_id(), _2=3, _3=1, _4=1))
        client.request(raw.QUERY)
        comm, = [comm for comm in self.ctl_json(self.blinkd, "comms")["comms"] if comm["state"] == "joining"]
        self.assertEqual(comm["devices"], [None, 1, None])

    def test_unknown_query(self):
        self.assertNotEqual(self.client().request(raw.QUERY, message(_1=99)).code, 0)

    def check_registration(self, fds, size, offset=0):
        client = self.client()
        reply = client.request(raw.MEM_REGISTER, message(_1=offset, _2=size), fds)
        self.assertNotEqual(reply.code, 0)
        self.assertTrue(reply.text)
        self.assertEqual(client.request(raw.QUERY).code, 0)

    def test_unsealed_memory(self):
        self.check_registration([self.fd(sealed_memfd(PAGE, 0))], PAGE)

    def test_memory_sealed_against_writing(self):
        for seal in [fcntl.F_SEAL_WRITE, 0x10]:
            self.check_registration([self.fd(sealed_memfd(PAGE, fcntl.F_SEAL_SHRINK | seal))], PAGE)

    def test_things_that_are_no_memory(self):
        pipe = os.pipe()
        for fd in [self.fd(pipe[0]), self.fd(pipe[1]), self.fd(os.open("/dev/zero", os.O_RDWR)),
                   self.fd(os.open(self.write_file("file", "x" * PAGE), os.O_RDWR)),
                   self.fd(os.open("/", os.O_RDONLY))]:
            self.check_registration([fd], PAGE)

    def test_memory_shorter_than_told(self):
        fd = self.fd(sealed_memfd(PAGE))
        for size, offset in [(PAGE + 1, 0), (2 * PAGE, 0), (PAGE, PAGE), (1 << 63, 0),
                             ((1 << 64) - PAGE, PAGE), (PAGE, (1 << 64) - PAGE), (0, 0), (16, 8)]:
            self.check_registration([fd], size, offset)

    def test_read_only_memory(self):
        fd = self.fd(sealed_memfd(PAGE))
        self.check_registration([self.fd(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))], PAGE)

    def test_no_descriptor(self):
        self.check_registration([], PAGE)


class RingTest(HostileTest):
    def check_refused(self, client, *results, **entry):
        client.submit(user_data=42, **entry)
        user_data, result, text = client.reap()
        self.assertEqual(user_data, 42)
        self.assertIn(result, results, text)
        self.assertTrue(text)

    def test_slots_that_overlap(self):
        client = self.client()
        member, region = self.member(client)
        staging = client.request(raw.STAGING_CREATE, message(_1=9 << 20)).body(8)[1]
        for count, in_offset, out_offset in [(16, PAGE, PAGE), (16, PAGE, PAGE + 60),
                                             (1 << 20, PAGE, PAGE + (4 << 20) - 4)]:
            self.check_refused(client, raw.INVALID_ARGUMENT, opcode=raw.ALLREDUCE, member=member,
                               count=count, in_region=staging, out_region=staging, in_offset=in_offset,
                               out_offset=out_offset, flags=raw.IN_STAGED | raw.OUT_STAGED)
        self.check_refused(client, raw.INVALID_ARGUMENT, opcode=raw.ALLREDUCE, member=member, count=16,
                           in_region=staging, out_region=staging, in_offset=PAGE, out_offset=PAGE + 4,
                           flags=raw.IN_STAGED)
        client.submit(raw.ALLREDUCE, member, 16, region, region)
        self.assertEqual(client.reap(), (1, raw.OK, ""))

    def test_a_good_submission_works(self):
        """So that the refusals below mean something."""
        client = self.client()
        member, region = self.member(client)
        client.submit(raw.ALLREDUCE, member, 1000, region, region, 0, 4096)
        self.assertEqual(client.reap(), (1, raw.OK, ""))
        client.submit()
        self.assertEqual(client.reap(), (1, raw.OK, ""))

    def test_bad_entries(self):
        client = self.client()
        member, region = self.member(client)
        good = dict(opcode=raw.ALLREDUCE, member=member, count=10, in_region=region, out_region=region)
        size = 16 * PAGE
        for change in [dict(opcode=99), dict(datatype=12), dict(datatype=255), dict(redop=9), dict(flags=8),
                       dict(flags=2), dict(flags=4), dict(flags=6), dict(opcode=9, root=7),
                       dict(opcode=10, root=1), dict(reserved=1), dict(in_offset=1, out_offset=1),
                       dict(opcode=raw.BROADCAST, root=1), dict(opcode=raw.BROADCAST, root=0xFFFFFFFF),
                       dict(count=1 << 62), dict(count=(1 << 64) - 1)]:
            with self.subTest(change=change):
                self.check_refused(client, raw.INVALID_ARGUMENT, raw.OUT_OF_RANGE, **good | change)
        for change in [dict(in_region=0), dict(out_region=0), dict(in_region=77),
                       dict(out_region=0xFFFFFFFF)]:
            with self.subTest(change=change):
                self.check_refused(client, raw.NOT_REGISTERED, **good | change)
        for change in [dict(count=size // 4 + 1), dict(in_offset=size), dict(out_offset=size - 36),
                       dict(in_offset=(1 << 64) - 40), dict(out_offset=(1 << 64) - 4),
                       dict(in_offset=1 << 63), dict(count=1 << 61)]:
            with self.subTest(change=change):
                self.check_refused(client, raw.OUT_OF_RANGE, raw.INVALID_ARGUMENT, **good | change)
        client.submit(**good)
        self.assertEqual(client.reap()[1:], (raw.OK, ""), "a good one after all the bad ones")

    def test_unknown_member(self):
        client = self.client()
        member, region = self.member(client)
        for other in [0, member + 1, 0xFFFFFFFF]:
            self.check_refused(client, raw.NOT_FOUND, raw.INVALID_ARGUMENT, opcode=raw.ALLREDUCE,
                               member=other, count=10, in_region=region, out_region=region)

    def test_region_already_deregistered(self):
        client = self.client()
        member, region = self.member(client)
        self.assertEqual(client.request(raw.MEM_DEREGISTER, message(_1=region)).code, 0)
        self.check_refused(client, raw.NOT_REGISTERED, opcode=raw.ALLREDUCE, member=member, count=10,
                           in_region=region, out_region=region)
        self.assertNotEqual(client.request(raw.MEM_DEREGISTER, message(_1=region)).code, 0)

    def test_nonsense_indices(self):
        for offset in [raw.SQ_TAIL, raw.CQ_HEAD, raw.SQ_HEAD, raw.CQ_TAIL]:
            for value in [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 5000, 123456789]:
                with self.subTest(offset=offset, value=value):
                    client = self.client()
                    client.submit()
                    client.word(offset, value)
                    client.doorbell()
                    self.assertEqual(client.request(raw.QUERY).code, 0)
                    client.close()

    def test_a_header_full_of_noise(self):
        chance = random.Random(2)
        for _ in range(30):
            client = self.client()
            self.member(client)
            client.ring[0:PAGE] = chance.randbytes(PAGE)
            client.doorbell()
            client.request(raw.QUERY)
            client.close()

    def test_queues_full_of_noise(self):
        chance = random.Random(3)
        for _ in range(10):
            client = self.client()
            self.member(client)
            client.ring[PAGE:] = chance.randbytes(len(client.ring) - PAGE)
            client.word(raw.SQ_TAIL, client.sq_entries)
            client.doorbell()
            client.request(raw.QUERY)
            client.close()

    def test_a_client_that_never_reaps_stalls_only_itself(self):
        client = self.client()
        for _ in range(client.sq_entries):
            client.submit()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and client.word(raw.SQ_HEAD) == 0:
            time.sleep(0.01)
        self.blinkd.check_serves()

    def test_a_ring_cannot_be_shrunk_or_grown(self):
        client = self.client()
        for size in [0, PAGE, len(client.ring) * 2]:
            self.assertRaises(OSError, os.ftruncate, client.fds[0], size)
        self.assertRaises(OSError, fcntl.fcntl, client.fds[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)

    def test_holes_punched_into_registered_memory(self):
        client = self.client()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        fd = self.fd(sealed_memfd(64 * PAGE))
        region = client.register(fd, 64 * PAGE).body(4)[1]
        member, _ = self.member(client)
        for _ in range(50):
            client.submit(raw.ALLREDUCE, member, 16 * PAGE, region, region)
            self.assertEqual(libc.fallocate(fd, FALLOC_PUNCH_HOLE_KEEP_SIZE, 0, 64 * PAGE), 0)
            self.assertEqual(client.reap()[1], raw.OK)

    def test_holes_punched_into_the_ring(self):
        client = self.client()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        libc.fallocate(client.fds[0], FALLOC_PUNCH_HOLE_KEEP_SIZE, 0, len(client.ring))
        client.doorbell()
        self.assertEqual(client.request(raw.QUERY).code, 0)

    def test_the_doorbell_drained_by_its_client(self):
        client = self.client()
        for _ in range(100):
            client.submit()
            try:
                os.read(client.fds[1], 8)
            except BlockingIOError:
                pass
            client.doorbell()
            client.reap()

    def test_eventfds_made_to_block(self):
        """O_NONBLOCK belongs to the open file, which client and daemon share: the engine must not rely on
        it."""
        client = self.client()
        for fd in client.fds[1:3]:
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
            try:
                os.write(fd, struct.pack("<Q", (1 << 64) - 2))
            except OSError:
                pass
        client.word(raw.WANTS_EVENT, 1)
        client.submit(ring_doorbell=False)
        self.blinkd.check_serves()
        os.read(client.fds[1], 8)
        client.doorbell()
        self.assertEqual(client.reap()[1], raw.OK)

    def test_the_doorbell_drained_before_the_engine_sees_it(self):
        client = self.client()
        for fd in client.fds[1:3]:
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        for _ in range(2000):
            client.doorbell()
            os.read(client.fds[1], 8)
            time.sleep(0.0002)
        self.blinkd.check_serves()

    def test_bad_entries_without_end_do_not_pile_up(self):
        """What is refused completes at once but waits to be matched by the other ranks: only so much of it
        is kept."""
        client = self.client()
        identifier = new_id()
        client.send(raw.COMM_INIT, message(_1=unique_id(identifier), _2=2, _3=0))
        self.assertEqual(client.join(identifier, 2, 1).code, 0)
        member = client.received_by_id[client.last_id - 1].body(5)[1]
        for _ in range(200):
            self.push(client, 500, opcode=raw.ALLREDUCE, member=member, count=10, in_region=77, out_region=77)
            completions = [client.reap() for _ in range(500)]
            if any(result != raw.NOT_REGISTERED for _, result, _ in completions):
                break
        self.assertEqual(completions[-1][1], raw.QUOTA)
        self.assertRegex(completions[-1][2], "ops are not complete")
        self.assertEqual([comm["state"] for comm in self.ctl_json(self.blinkd, "comms")["comms"]],
                         ["aborted", "ready"])

    def test_leaving_ends_with_the_last_op_whatever_older_ops_wait_for(self):
        identifier = new_id()
        clients = [self.client() for _ in range(3)]
        for rank, client in enumerate(clients):
            client.send(raw.COMM_INIT, message(_1=unique_id(identifier), _2=3, _3=rank, _4=1))
        members = [client.receive().body(5)[1] for client in clients]
        regions = [self.region(client) for client in clients]

        def submit(rank, count, region=None):
            clients[rank].submit(raw.ALLREDUCE, members[rank], count, region or regions[rank], regions[rank])
        submit(0, 10, region=77)
        self.assertEqual(clients[0].reap()[1], raw.NOT_REGISTERED)
        submit(0, 10)
        clients[0].send(raw.COMM_DESTROY, message(_1=members[0]))
        submit(1, 10)
        self.assertEqual(clients[1].reap()[1], raw.NOT_REGISTERED)
        submit(1, 20)  # the second op fails, while the first one still waits for rank 2
        self.assertEqual(clients[1].reap()[1], raw.MISMATCH)
        self.assertEqual(clients[0].reap()[1], raw.MISMATCH)
        self.assertEqual(clients[0].receive().code, 0)

    def push(self, client, times, **entry):
        """So many entries of one kind, as fast as the ring takes them."""
        for _ in range(times):
            self.until(lambda: client.sq_tail - client.word(raw.SQ_HEAD) < client.sq_entries)
            client.submit(**entry)

    def test_a_group_that_meets_the_quota_while_another_op_runs_is_dropped_once(self):
        daemon = self.daemon("--pace", "0.0001", topology="dgx1v")
        client, size, members = RawClient(daemon), 8 << 20, []
        self.addCleanup(client.close)
        self.assertEqual(client.hello().code, 0)
        identifier = new_id()
        for rank in range(2):
            client.send(raw.COMM_INIT, message(_1=unique_id(identifier), _2=2, _3=rank, _4=2 * rank))
        for _ in range(2):
            members.append(client.receive().body(5)[1])
        region = self.region(client, 2 * size)
        for rank, member in enumerate(members):
            client.submit(raw.ALLREDUCE, member, size // 4, region, region, rank * size, rank * size)
        self.push(client, 65600, opcode=raw.BARRIER, member=members[0], flags=raw.MORE)
        self.push(client, 1, opcode=raw.BARRIER, member=members[0], user_data=2)
        results = {user_data: result
                   for user_data, result, _ in (client.reap(), client.reap(), client.reap())}
        self.assertEqual(results[2], raw.QUOTA)
        for member in members:
            self.assertEqual(client.request(raw.COMM_DESTROY, message(_1=member)).code, 0,
                             "the ranks can still leave")

    def test_a_client_that_goes_while_it_leaves_frees_the_others(self):
        """It has asked to leave, but never copied what its staged op needs."""
        clients, members, identifier = [self.client(), self.client()], [], new_id()
        for rank, client in enumerate(clients):
            client.send(raw.COMM_INIT, message(_1=unique_id(identifier), _2=2, _3=rank, _4=2 * rank))
        for client in clients:
            members.append(client.receive().body(5)[1])
        count, size = 1 << 20, 9 << 20
        staging = clients[0].request(raw.STAGING_CREATE, message(_1=size)).body(8)[1]
        region = self.region(clients[1], 8 << 20)
        clients[0].submit(raw.ALLREDUCE, members[0], count, staging, staging, PAGE, PAGE + (4 << 20),
                          flags=raw.IN_STAGED | raw.OUT_STAGED)
        clients[1].submit(raw.ALLREDUCE, members[1], count, region, region, 0, 4 << 20)
        self.until(lambda: clients[1].word(raw.SQ_HEAD) >= 1 and clients[0].word(raw.SQ_HEAD) >= 1)
        time.sleep(0.05)  # the op is planned and awaits the copies
        clients[0].send(raw.COMM_DESTROY, message(_1=members[0]))
        time.sleep(0.05)
        clients[0].close()
        self.assertEqual(clients[1].reap()[1], raw.PEER_LOST)

    def test_closing_with_everything_under_way(self):
        for _ in range(20):
            client = self.client()
            member, region = self.member(client)
            for _ in range(16):
                client.submit(raw.ALLREDUCE, member, 8 * PAGE // 4, region, region, 0, 8 * PAGE)
            client.send(raw.MEM_DEREGISTER, message(_1=region))
            client.send(raw.COMM_DESTROY, message(_1=member))
            client.send(raw.COMM_INIT, message(_1=unique_id(), _2=3, _3=1))
            client.close()
        self.wait_until_gone(2)
        self.assertEqual([comm["state"] for comm in self.ctl_json(self.blinkd, "comms")["comms"]], ["ready"])

    def test_many_connections_come_and_go_without_a_trace(self):
        self.client().close()
        self.wait_until_gone(2)
        before = self.blinkd.descriptors()
        for _ in range(100):
            client = self.client()
            self.member(client)
            client.close()
        self.wait_until_gone(2)
        self.until(lambda: self.blinkd.descriptors() <= before)


if __name__ == "__main__":
    unittest.main()

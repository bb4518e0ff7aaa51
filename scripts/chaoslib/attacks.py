"""What a hostile user may try. Each attack is a function that goes on until its process is ended, whatever
the daemon answers; a connection that the daemon ends is made again."""
import os
import pathlib
import random
import select
import signal
import socket
import struct
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import raw  # noqa: E402
from raw import RawClient, message, sealed_memfd  # noqa: E402

PAGE = 4096
STAGING_BYTES = 9 << 20
#: No answer to an attacker is awaited for longer.
ANSWER_LIMIT_S = 600


class Refused(Exception):
    """The daemon said no, or ended the connection."""


def body(reply, number):
    if reply is None or reply.code:
        raise Refused(reply.text if reply else "the connection ended")
    return reply.body(number)


class Attacker:
    """A raw client, and the handful of things that attacks are made of."""

    def __init__(self, daemon, want_ring=True):
        self.client = RawClient(daemon)
        self.client.socket.settimeout(ANSWER_LIMIT_S)
        self.completed = 0
        reply = self.client.hello(want_ring=want_ring)
        if reply is None or reply.code:
            self.client.close()
            raise Refused("hello")

    def close(self):
        self.client.close()

    def request(self, kind, content, number, fds=()):
        return body(self.client.request(kind, content, fds), number)

    def memory(self, size):
        fd = sealed_memfd(size)
        try:
            return self.request(raw.MEM_REGISTER, message(_1=0, _2=size), 4, [fd])[1]
        finally:
            os.close(fd)

    def staging(self):
        return self.request(raw.STAGING_CREATE, message(_1=STAGING_BYTES), 8)[1]

    def join_all(self, devices):
        """One communicator, all of whose ranks are this client's: its members."""
        replies = raw.join_all([self.client] * len(devices), devices)
        return [body(reply, 5)[1] for reply in replies]

    def push(self, member, count, region, flags=0, opcode=raw.ALLREDUCE, out_offset=0, in_offset=0):
        """Submit; the doorbell is the caller's."""
        client = self.client
        while client.sq_tail - client.word(raw.SQ_HEAD) & 0xFFFFFFFF >= client.sq_entries:
            self.drain()
            client.doorbell()
            time.sleep(0.0005)
            self.check_connected()
        client.submit(opcode, member, count, region, region, in_offset, out_offset, flags=flags,
                      ring_doorbell=False)

    def drain(self):
        """Take all completions, unread."""
        new = self.client.word(raw.CQ_TAIL) - self.client.cq_head & 0xFFFFFFFF
        self.client.cq_head += new
        self.completed += new
        self.client.word(raw.CQ_HEAD, self.client.cq_head)

    def wait(self, completions, limit_s=60):
        """Ring the doorbell, and wait until so many completions have come, or for so long."""
        self.client.doorbell()
        deadline = time.monotonic() + limit_s
        while self.completed < completions and time.monotonic() < deadline:
            self.check_connected()
            self.drain()
            time.sleep(0.0005)

    def check_connected(self):
        readable, _, _ = select.select([self.client.socket], [], [], 0)
        if readable and self.client.socket.recv(1, socket.MSG_PEEK) == b"":
            raise Refused("the connection ended")


# ---- the attacks ----

def connections(daemon, _random):
    """connect(); close(), as fast as it goes."""
    while True:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(daemon.socket)


def gatherings(daemon, _random):
    """4,096 communicators of 1,024 ranks that only one joins, and 60 KB of queries in one write."""
    attacker = Attacker(daemon)
    for _ in range(4096):
        attacker.client.send(raw.COMM_INIT, message(_1=raw.unique_id(), _2=1024, _3=0, _4=0))
    tool = Attacker(daemon, want_ring=False)
    query = message(_1=1) + raw.field(raw.QUERY, message(_1=1))
    queries = (struct.pack("<I", len(query)) + query) * (60000 // (4 + len(query)))
    try:
        while True:
            tool.client.send_bytes(queries)
            for _ in range(queries.count(query)):
                if tool.client.receive() is None:
                    raise Refused("the connection ended")
            attacker.check_connected()
    finally:
        tool.close()
        attacker.close()


def _staged_group(attacker, ops):
    member, region = attacker.join_all([0])[0], attacker.staging()
    for i in range(ops):
        last = i == ops - 1
        attacker.push(member, 2, region, raw.IN_STAGED | raw.OUT_STAGED | (0 if last else raw.MORE),
                      in_offset=PAGE, out_offset=PAGE + (4 << 20))
    attacker.client.doorbell()
    deadline = time.monotonic() + 10
    while attacker.client.word(raw.SQ_HEAD) != attacker.client.sq_tail & 0xFFFFFFFF:
        attacker.check_connected()
        if time.monotonic() > deadline:
            return
        time.sleep(0.001)


def staged_exits(daemon, _random):
    """A group of 65,000 staged ops whose copies never come, then an exit, again and again."""
    while True:
        attacker = Attacker(daemon)
        try:
            _staged_group(attacker, 65000)
            time.sleep(0.5)
        finally:
            attacker.close()


def staged_waits(daemon, _random):
    """The same group, held."""
    attacker = Attacker(daemon)
    try:
        _staged_group(attacker, 65000)
        while True:
            attacker.check_connected()
            time.sleep(0.1)
    finally:
        attacker.close()


def scratch(daemon, _random):
    """Groups of 40 AllReduces of 1 MiB on 8 devices, each of which wants scratch for its run."""
    attacker = Attacker(daemon)
    try:
        members, region, wanted = attacker.join_all(range(8)), attacker.memory(2 << 20), 0
        while True:
            for i in range(40):
                for member in members:
                    attacker.push(member, 1 << 18, region, raw.MORE if i < 39 else 0, out_offset=1 << 20)
            wanted += len(members)
            attacker.wait(wanted)
    finally:
        attacker.close()


def replies(daemon, _random):
    """Twenty connections that ask for the topology and read nothing."""
    tools = [Attacker(daemon, want_ring=False) for _ in range(20)]
    query = message(_1=1) + raw.field(raw.QUERY, message(_1=2))
    queries = (struct.pack("<I", len(query)) + query) * 500
    try:
        while True:
            for tool in tools:
                tool.client.socket.setblocking(False)
                try:
                    tool.client.send_bytes(queries)
                except BlockingIOError:
                    pass
            time.sleep(0.01)
    finally:
        for tool in tools:
            tool.close()


def plans(daemon, source):
    """AllReduces on one order of the devices after the other, so that each needs a plan of its own."""
    attacker = Attacker(daemon)
    try:
        region, wanted = attacker.memory(2 << 20), 0
        while True:
            open_members = []
            for _ in range(16):
                members = attacker.join_all(source.sample(range(8), 8))
                open_members += members
                for member in members:
                    attacker.push(member, 1 << 18, region, out_offset=1 << 20)
                attacker.client.doorbell()
            wanted += len(open_members)
            attacker.wait(wanted)
            for member in open_members:
                attacker.client.send(raw.COMM_DESTROY, message(_1=member))
    finally:
        attacker.close()


def hogs(daemon, _random):
    """64 communicators on devices 0 and 1, each with an AllReduce of 1 MiB always under way."""
    attacker = Attacker(daemon)
    try:
        region = attacker.memory(4 << 20)
        comms, wanted = [attacker.join_all([0, 1]) for _ in range(64)], 0
        while True:
            for members in comms:
                for rank, member in enumerate(members):
                    attacker.push(member, 1 << 18, region, in_offset=rank << 21,
                                  out_offset=(rank << 21) + (1 << 20))
            wanted += 2 * len(comms)
            attacker.wait(wanted)
    finally:
        attacker.close()


def regions(daemon, _random):
    """As many regions as the daemon takes, held a while, and again."""
    while True:
        attacker, fd = Attacker(daemon), sealed_memfd(PAGE)
        try:
            for _ in range(17000):
                attacker.request(raw.MEM_REGISTER, message(_1=0, _2=PAGE), 4, [fd])
        except Refused:
            time.sleep(1)
        finally:
            os.close(fd)
            attacker.close()


def joins(daemon, _random):
    """Thousands of communicators of one's own at once, then all left by one exit."""
    while True:
        attacker = Attacker(daemon)
        try:
            for _ in range(2000):
                attacker.client.send(raw.COMM_INIT, message(_1=raw.unique_id(), _2=1, _3=0, _4=0))
            for _ in range(2000):
                if attacker.client.receive() is None:
                    break
        finally:
            attacker.close()


def nonsense(daemon, source):
    """Frames, submissions and words of the ring that mean nothing."""
    while True:
        attacker = Attacker(daemon)
        client = attacker.client
        try:
            member, region = attacker.join_all([0])[0], attacker.memory(16 * PAGE)
            for _ in range(200):
                attacker.push(source.choice([member, source.getrandbits(32)]), source.getrandbits(40),
                              source.choice([region, 0, 77]), source.getrandbits(8), source.getrandbits(4),
                              source.getrandbits(16), source.getrandbits(16))
                client.doorbell()
            struct.pack_into("<I", client.ring, source.choice([64, 128, 192, 196]), source.getrandbits(32))
            client.doorbell()
            client.send_frame(source.randbytes(source.randrange(64)))
            client.socket.settimeout(1)
            client.receive()
        finally:
            attacker.close()


ATTACKS = {function.__name__.replace("_", "-"): function for function in
           (connections, gatherings, staged_exits, staged_waits, scratch, replies, plans, hogs, regions,
            joins, nonsense)}


# ---- processes ----

def _go_on(attack, daemon, source):
    while True:
        try:
            attack(daemon, source)
        except (Refused, OSError, AttributeError, AssertionError, KeyError, ValueError):
            time.sleep(0.01)


def start(name, daemon, uid, seed):
    """A process of that user that attacks until stop(); uid None: of this user."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        _go_on(ATTACKS[name], daemon, random.Random(seed))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def stop(pid):
    """False: the attack had ended by itself, which none should."""
    os.kill(pid, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

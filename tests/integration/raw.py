"""A client that speaks frames and rings itself, well or badly: what libblinkclient never sends.

The few protobuf messages are encoded here by hand (field numbers of proto/blink.proto) and ring offsets
are those of proto/ring.h, so that the tests also notice when either changes by accident.
"""
import array
import ctypes
import fcntl
import mmap
import os
import socket
import struct
import time

from limit import LIMIT_S

HELLO, MEM_REGISTER, MEM_DEREGISTER, COMM_INIT, COMM_DESTROY, COMM_ABORT, QUERY, STAGING_CREATE = range(2, 10)
COMM_GIVE_UP = 17
COMM_SURVIVORS = 16
WATCH_THREAD = 18
NOP, ALLREDUCE, BROADCAST = range(3)
BARRIER, FORGET = 11, 12
MORE, IN_STAGED, OUT_STAGED, STREAM, STORED = 1, 2, 4, 8, 16
OK, INVALID_ARGUMENT, PROTOCOL, NOT_REGISTERED, OUT_OF_RANGE, MISMATCH = 0, 1, 5, 6, 7, 8
SYSTEM, NOT_FOUND, QUOTA, TIMEOUT, ABORTED, PEER_LOST, DAEMON_LOST = 3, 9, 12, 13, 14, 15, 16
FLOAT32, SUM = 7, 0
VERSION = 2  # of the protocol

SQ_TAIL, CQ_HEAD, SLEEPERS, WANTS_EVENT, SQ_HEAD, CQ_TAIL = 64, 128, 192, 196, 256, 320


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(**fields):
    """message(_1=…, _3=…)"""
    return b"".join(field(int(name[1:]), value) for name, value in fields.items())


def parse(data):
    """{field number: value}; the last one wins."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = number()
        if key & 7 == 0:
            fields[key >> 3] = number()
        elif key & 7 == 1:
            fields[key >> 3] = data[at:at + 8]
            at += 8
        else:
            length = number()
            fields[key >> 3] = data[at:at + length]
            at += length
    return fields


class Reply:
    def __init__(self, data):
        self.fields = parse(data)
        error = parse(self.fields.get(2, b""))
        self.id = self.fields.get(1, 0)
        self.code = error.get(1, 0)
        self.text = error.get(2, b"").decode()

    def body(self, number):
        return parse(self.fields.get(number, b""))


def unique_id(nonce=None):
    """As proto/unique_id.h: version 1, no home, and a nonce of 32 hexadecimal digits, or a random one."""
    return b"\1" + bytes(47) + (bytes.fromhex(nonce) if nonce else os.urandom(16))


class RawClient:
    """A connection; with hello() also a ring."""

    def __init__(self, daemon):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(daemon.socket)
        self.socket.settimeout(LIMIT_S)
        self.received, self.fds, self.last_id = b"", [], 0
        self.received_by_id = {}
        self.ring = None

    def close(self):
        self.socket.close()
        if self.ring:
            self.ring.close()
            self.ring = None
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    # ---- frames ----

    def send_bytes(self, data, fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], ancillary)

    def send_frame(self, payload, fds=()):
        self.send_bytes(struct.pack("<I", len(payload)) + payload, fds)

    def send(self, kind, body=b"", fds=()):
        self.last_id += 1
        self.send_frame(message(_1=self.last_id) + field(kind, body), fds)

    def receive(self):
        """The next reply, or None once the daemon has closed the connection."""
        while len(self.received) < 4 or len(self.received) < 4 + struct.unpack("<I", self.received[:4])[0]:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(64))
            except ConnectionResetError:
                return None
            for _, _, fds in ancillary:
                self.fds += array.array("i", fds[:len(fds) - len(fds) % 4])
            if not data:
                return None
            self.received += data
        length = struct.unpack("<I", self.received[:4])[0]
        payload, self.received = self.received[4:4 + length], self.received[4 + length:]
        reply = Reply(payload)
        self.received_by_id[reply.id] = reply
        return reply

    def request(self, kind, body=b"", fds=()):
        self.send(kind, body, fds)
        while (reply := self.receive()) and reply.id != self.last_id:
            pass
        return reply

    # ---- what a client does ----

    def hello(self, version_min=VERSION, version_max=VERSION, want_ring=True):
        reply = self.request(HELLO, message(_1=version_min, _2=version_max, _3=b"raw", _4=int(want_ring)))
        if reply and not reply.code and want_ring:
            self.ring = mmap.mmap(self.fds[0], os.fstat(self.fds[0]).st_size)
            (self.sq_entries, self.cq_entries, self.sq_offset,
             self.cq_offset) = struct.unpack_from("<4I", self.ring, 8)
            self.sq_tail = self.cq_head = 0
        return reply

    def register(self, fd, size, offset=0):
        return self.request(MEM_REGISTER, message(_1=offset, _2=size), [fd])

    def join(self, identifier, rank_count, rank, device=-1, algorithm=0):
        body = message(_1=unique_id(identifier), _2=rank_count, _3=rank, _4=device << 1 ^ device >> 63,
                       _5=algorithm)
        return self.request(COMM_INIT, body)

    def word(self, offset, value=None):
        # Read and written at once; struct goes byte by byte.
        word = ctypes.c_uint32.from_buffer(self.ring, offset)
        if value is not None:
            word.value = value & 0xFFFFFFFF
        return word.value

    def doorbell(self):
        os.write(self.fds[1], struct.pack("<Q", 1))

    def submit(self, opcode=NOP, member=0, count=0, in_region=0, out_region=0, in_offset=0, out_offset=0,
               datatype=FLOAT32, redop=SUM, flags=0, root=0, reserved=0, user_data=1, ring_doorbell=True):
        entry = struct.pack("<4B5I5Q", opcode, datatype, redop, flags, member, root, in_region, out_region,
                            reserved, count, in_offset, out_offset, user_data, 0)
        struct.pack_into("64s", self.ring, self.sq_offset + self.sq_tail % self.sq_entries * 64, entry)
        self.sq_tail += 1
        self.word(SQ_TAIL, self.sq_tail)
        if ring_doorbell:
            self.doorbell()

    def reap(self):
        """(user_data, result, text) of the next completion."""
        deadline = time.monotonic() + LIMIT_S
        while self.word(CQ_TAIL) == self.cq_head & 0xFFFFFFFF:
            if time.monotonic() > deadline:
                raise AssertionError("no completion came")
            time.sleep(0.001)
        user_data, result, _, text = struct.unpack_from("<QII192s", self.ring,
                                                        self.cq_offset + self.cq_head % self.cq_entries * 256)
        self.cq_head += 1
        self.word(CQ_HEAD, self.cq_head)
        return user_data, result, text.split(b"\0")[0].decode()

    def closed_by_daemon(self):
        while True:
            if self.receive() is None:
                return True


# ---- what tests and attacks begin with ----

def sealed_memfd(size, seals=fcntl.F_SEAL_SHRINK, populated=True):
    fd = os.memfd_create("raw", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    if populated:
        os.posix_fallocate(fd, 0, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def open_client(case, daemon, want_ring=True):
    """A client that the daemon has accepted, closed when the test ends."""
    client = RawClient(daemon)
    case.addCleanup(client.close)
    case.assertEqual(client.hello(want_ring=want_ring).code, 0)
    return client


def join_all(clients, devices=None):
    """A communicator with a rank of each of these clients, of which one may stand there often: the replies.
    devices: by rank; None: the rank's number."""
    identifier, requests = unique_id(), []
    for rank, client in enumerate(clients):
        device = devices[rank] if devices else rank
        client.send(COMM_INIT, message(_1=identifier, _2=len(clients), _3=rank, _4=2 * device))
        requests.append(client.last_id)
    for client, request in zip(clients, requests):
        while request not in client.received_by_id:
            if client.receive() is None:
                raise ConnectionError("the daemon has ended the connection")
    return [client.received_by_id.pop(request) for client, request in zip(clients, requests)]

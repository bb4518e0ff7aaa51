"""Pages of memory that clients share are the clients' to pay: whoever touches a page first is charged for it,
and the daemon touches none that is not there."""
import ctypes
import os
import struct
import unittest

import raw
from harness import IntegrationTest
from raw import message, open_client, sealed_memfd

MB = 1 << 20
PAGE = 4096
FALLOC_PUNCH_HOLE_KEEP_SIZE = 3
SYSTEM = 3

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def punch(fd, size, offset=0):
    if libc.fallocate(fd, FALLOC_PUNCH_HOLE_KEEP_SIZE, offset, size) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def populated_bytes(fd):
    return os.fstat(fd).st_blocks * 512


class MemoryCgroup:
    """A cgroup beneath the test's own, which counts memory; where there may be one."""

    def __init__(self, name):
        self.path = None
        with open("/proc/self/cgroup", encoding="utf-8") as cgroups:
            for line in cgroups:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if controllers == "memory":
                    self._make(f"/sys/fs/cgroup/memory{path}/{name}", "memory.usage_in_bytes")
                elif not controllers and not self.path:
                    self._make(f"/sys/fs/cgroup{path}/{name}", "memory.current")

    def _make(self, path, counter):
        try:
            os.mkdir(path)
        except OSError:
            return
        if not os.path.exists(os.path.join(path, counter)):
            os.rmdir(path)
            return
        self.path, self.counter = path, os.path.join(path, counter)

    def add(self, pid):
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as members:
            members.write(str(pid))

    def used(self):
        with open(self.counter, encoding="ascii") as counter:
            return int(counter.read())


class FirstTouchTest(IntegrationTest):
    def members(self, client):
        """Both ranks of a communicator are the client's."""
        return [reply.body(5)[1] for reply in raw.join_all([client, client])]

    def register(self, client, fd, size, offset=0):
        reply = client.register(fd, size, offset)
        self.assertEqual(reply.code, 0, reply.text)
        return reply.body(4)[1]

    def reduce(self, client, members, region, size):
        """In place on all of the region, by both ranks: how each of them ended."""
        for member in members:
            client.submit(raw.ALLREDUCE, member, size // 4, region, region)
        return [client.reap()[1:] for _ in members]

    def assert_refused(self, ended):
        for result, text in ended:
            self.assertEqual(result, SYSTEM, text)
            self.assertRegex(text, r"rank \d: pages of region \d+ are not there")


class HolesTest(FirstTouchTest):
    def setUp(self):
        super().setUp()
        self.blinkd = self.daemon()

    def memfd(self, size, **options):
        fd = sealed_memfd(size, **options)
        self.addCleanup(os.close, fd)
        return fd

    def test_memory_without_pages_is_refused_with_what_to_do(self):
        client = open_client(self, self.blinkd)
        reply = client.register(self.memfd(4 * MB, populated=False), 4 * MB)
        self.assertEqual(reply.code, raw.INVALID_ARGUMENT)
        self.assertRegex(reply.text, r"pages for 0 of the region's 4194304 bytes: .* MADV_POPULATE_WRITE")

    def test_no_hole_is_filled_for_whom_has_pages_elsewhere_in_the_file(self):
        client, fd = open_client(self, self.blinkd), self.memfd(8 * MB)
        punch(fd, 4 * MB)
        region = self.register(client, fd, 4 * MB)
        self.assert_refused(self.reduce(client, self.members(client), region, 4 * MB))
        self.assertEqual(populated_bytes(fd), 4 * MB)
        self.blinkd.check_serves()

    def test_no_page_comes_back_that_was_punched_out(self):
        """With short ops, which the engine runs itself, with those of workers, and with every other page."""
        client = open_client(self, self.blinkd)
        members = self.members(client)
        for size in [PAGE, 64 * PAGE, 8 * MB]:
            for first in [0, PAGE]:
                if first == size:
                    continue
                fd = self.memfd(size)
                region = self.register(client, fd, size)
                self.assertEqual(self.reduce(client, members, region, size), [(raw.OK, "")] * 2)
                for offset in range(first, size, 2 * PAGE):
                    punch(fd, PAGE, offset)
                left = populated_bytes(fd)
                for _ in range(3):
                    self.assert_refused(self.reduce(client, members, region, size))
                self.assertEqual(populated_bytes(fd), left)
        self.blinkd.check_serves()

    def test_a_staging_region_gets_its_pages_from_its_client(self):
        client = open_client(self, self.blinkd)
        members = self.members(client)
        region = client.request(raw.STAGING_CREATE, message(_1=9 * MB)).body(8)[1]
        staging = client.fds[-1]
        window = struct.pack("<QQ", 1, 0)
        self.assertEqual(os.pwrite(staging, window, 0), len(window))
        for member in members:
            client.submit(raw.ALLREDUCE, member, MB // 4, region, region, PAGE, PAGE + 4 * MB,
                          flags=raw.IN_STAGED | raw.OUT_STAGED)
        self.assert_refused([client.reap()[1:] for _ in members])
        self.assertEqual(populated_bytes(staging), PAGE)

    def test_windows_without_a_page_stop_nobody_else(self):
        client = open_client(self, self.blinkd)
        members = self.members(client)
        region = client.request(raw.STAGING_CREATE, message(_1=9 * MB)).body(8)[1]
        for member in members:
            client.submit(raw.ALLREDUCE, member, MB // 4, region, region, PAGE, PAGE + 4 * MB,
                          flags=raw.IN_STAGED | raw.OUT_STAGED)
        self.blinkd.check_serves()
        self.assertEqual(populated_bytes(client.fds[-1]), 0)


class PacedTest(HolesTest):
    """The same by lanes, over emulated links."""

    def setUp(self):
        super(HolesTest, self).setUp()
        self.blinkd = self.daemon("--pace", "1", topology="dgx1v_hybrid")


class CgroupTest(FirstTouchTest):
    def test_what_a_client_has_punched_out_is_not_charged_to_the_daemon(self):
        cgroup = MemoryCgroup(f"blink-test-{os.getpid()}")
        if not cgroup.path:
            self.skipTest("no cgroup that counts memory can be made here")
        self.addCleanup(self.until, lambda: not self.removed(cgroup))
        daemon = self.daemon()
        self.addCleanup(daemon.stop)
        cgroup.add(daemon.pid)
        client = open_client(self, daemon)
        members = self.members(client)
        before = cgroup.used()
        for _ in range(8):
            fd = sealed_memfd(32 * MB)
            region = self.register(client, fd, 32 * MB)
            punch(fd, 32 * MB)
            os.close(fd)
            self.assert_refused(self.reduce(client, members, region, 32 * MB))
        self.assertLess(cgroup.used() - before, 4 * MB)

    def removed(self, cgroup):
        try:
            os.rmdir(cgroup.path)
        except OSError:
            return True
        return False


if __name__ == "__main__":
    unittest.main()

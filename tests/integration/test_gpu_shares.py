"""GPUs are shared by weight: two users who always have runs waiting, over the stand-in for the driver. What
is counted is what they have moved, and no time is measured."""
import collections
import os
import unittest

from harness import BLINK_PERF, Process
from test_gpu import GpuTest, gpu_environment

HEAVY, LIGHT = 65533, 65534
WEIGHT = 3
BYTES = 4 << 20  # so large that few of all ops are at the GPU at a time
PROGRAMS = 8  # of each user: always with one op under way or waiting


@unittest.skipUnless(os.getuid() == 0, "only root can be several users")
class SharesTest(GpuTest):
    def shared_daemon(self, devices):
        config = self.write_file("blinkd.conf", f"[weights]\n{HEAVY} = {WEIGHT}\n")
        daemon = self.daemon("--devices", devices, "--config", config, env=gpu_environment())
        os.chmod(daemon.directory, 0o755)
        return daemon

    def start_hog(self, daemon, user):
        """Ops without end, one after the other, on a communicator of two ranks."""
        hog = Process([BLINK_PERF, "--socket", daemon.socket, "allreduce", "--ranks", 2, "--threads",
                       "--device-memory", "--check=0", "--in-place=no", "-b", BYTES, "-e", BYTES,
                       "-n", 1000000],
                      env=gpu_environment(), user=user, group=user, extra_groups=[])
        self.children.append(hog)

    def moved(self, daemon):
        """By user."""
        total = collections.Counter()
        for comm in self.ctl_json(daemon, "comms")["comms"]:
            total[comm["uid"]] += comm["bytes"]
        return total

    def wait_until_moved(self, daemon, user, nbytes):
        self.until(lambda: self.moved(daemon)[user] >= nbytes)

    def test_two_users_share_a_gpu_by_their_weights(self):
        daemon = self.shared_daemon("cuda:0x2")
        for user in [HEAVY, LIGHT] * PROGRAMS:
            self.start_hog(daemon, user)
        self.wait_until_moved(daemon, LIGHT, PROGRAMS * BYTES)  # all have begun
        before = self.moved(daemon)

        def is_shared():
            """A program that comes late with its next op leaves its user's turn to the other: what both have
            moved comes to the ratio of their weights all the same, if it is the weights that decide."""
            moved = self.moved(daemon) - before
            return moved[LIGHT] >= 24 * BYTES and \
                0.85 * WEIGHT * moved[LIGHT] < moved[HEAVY] < 1.15 * WEIGHT * moved[LIGHT]
        self.until(is_shared)

"""A daemon under attack: who attacks, who is a bystander, and how to see that the daemon's heartbeat goes on."""
import os
import socket
import sys
import threading

import harness
from harness import IntegrationTest

ATTACKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacks.py")
NOBODY = 65534


class FloodTest(IntegrationTest):
    """The attacks run as another user, if the tests run as root."""

    def setUp(self):
        super().setUp()
        self.pings = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.pings.bind(os.path.join(self.directory(), "notify"))
        self.heartbeats = threading.Semaphore(0)
        threading.Thread(target=self._collect_heartbeats, daemon=True).start()
        self.addCleanup(self._end_pings)

    def _end_pings(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"end", self.pings.getsockname())

    def _collect_heartbeats(self):
        while (message := self.pings.recv(4096)) != b"end":
            if b"WATCHDOG=1" in message:
                self.heartbeats.release()

    def watched_daemon(self, *flags, **options):
        """A daemon that tells its heartbeat twice a second."""
        environment = os.environ | {"NOTIFY_SOCKET": self.pings.getsockname(), "WATCHDOG_USEC": "1000000"}
        return self.daemon(*flags, env=environment, **options)

    def await_heartbeats(self, count):
        """Until so many more have come: those that lie there already do not count."""
        while self.heartbeats.acquire(blocking=False):
            pass
        for _ in range(count):
            self.assertTrue(self.heartbeats.acquire(timeout=harness.LIMIT_S), "the daemon's heartbeat has stopped")

    def attack(self, daemon, name, user=NOBODY):
        os.chmod(daemon.directory, 0o755)
        attacker = self.start([sys.executable, "-B", ATTACKS, name, daemon.socket, user])
        attacker.wait_for("ready", lambda process: "ready\n" in process.stdout())
        return attacker

    def end_attack(self, attacker):
        attacker.kill()
        attacker.wait()

    def descriptors(self, daemon):
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))

    def mappings(self, daemon):
        with open(f"/proc/{daemon.pid}/maps", encoding="utf-8") as maps:
            return sum(1 for _ in maps)

    def check_turns(self, daemon):
        """No turn of the loop was longer than daemon/control/turn.h allows: the steps of a turn, and one more
        thing that cannot be divided, for which the largest communicator counts."""
        steps = self.ctl_json(daemon, "status")["turn_steps_most"]
        self.assertGreater(steps, 0)
        self.assertLessEqual(steps, 256 + 2 * 1024)

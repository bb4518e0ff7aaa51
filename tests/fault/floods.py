"""A daemon under attack: who attacks, who is a bystander, and how to see that its heartbeat goes on."""
import json
import os
import socket
import sys
import threading

import harness
from harness import IntegrationTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
from chaoslib import attacks  # noqa: E402

NOBODY = 65534

#: A turn of the control thread's loop ends after TURN_STEPS (daemon/control/turn.h), and with something that
#: cannot be divided, of which the ranks of the largest communicator are the most.
TURN_STEPS_MOST = 256 + 2 * 1024


class FloodTest(IntegrationTest):
    """The attacks run as another user, if the tests run as root."""

    def setUp(self):
        super().setUp()
        self.pings = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.pings.close)
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
        daemon = self.daemon(*flags, env=environment, **options)
        os.chmod(daemon.directory, 0o755)
        return daemon

    def await_heartbeats(self, count):
        """Until so many more have come: those that lie there already do not count."""
        while self.heartbeats.acquire(blocking=False):
            pass
        for _ in range(count):
            self.assertTrue(self.heartbeats.acquire(timeout=harness.LIMIT_S), "no heartbeat comes")

    def attack(self, daemon, name, user=NOBODY):
        """An attack of scripts/chaoslib/attacks.py, until the test ends or end_attack() is called."""
        pid = attacks.start(name, daemon, user if os.getuid() == 0 else None, 1)
        self.addCleanup(self.end_attack, pid)
        return pid

    def end_attack(self, pid):
        try:
            attacks.stop(pid)
        except (ChildProcessError, ProcessLookupError):
            pass  # it is called again at the end of the test

    def as_user(self, function, user=NOBODY, groups=()):
        """What the function returns in a process of that user, in groups of no account besides these."""
        if os.getuid() != 0:
            self.skipTest("only root can be several users")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups(list(groups))
                os.setgid(user)
                os.setuid(user)
                os.write(writing, json.dumps(function()).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        os.waitpid(pid, 0)
        self.assertTrue(text, "the other user's process failed")
        return json.loads(text)

    def descriptors(self, daemon):
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))

    def mappings(self, daemon):
        with open(f"/proc/{daemon.pid}/maps", encoding="utf-8") as maps:
            return sum(1 for _ in maps)

    def check_goes_on(self, daemon):
        """Others are served, and the heartbeat comes."""
        daemon.check_serves()
        self.await_heartbeats(2)

    def check_turns(self, daemon):
        steps = self.ctl_json(daemon, "status")["turn_steps_most"]
        self.assertGreater(steps, 0)
        self.assertLessEqual(steps, TURN_STEPS_MOST)

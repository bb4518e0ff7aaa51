"""A daemon under attack: who attacks, who is a bystander, and how to see that its heartbeat goes on."""
import json
import os
import signal
import sys

from watched import WatchedTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
from chaoslib import attacks  # noqa: E402

NOBODY = 65534

#: A turn of the control thread's loop ends after TURN_STEPS (daemon/control/turn.h), and with something that
#: cannot be divided, of which the ranks of the largest communicator are the most.
TURN_STEPS_MOST = 256 + 2 * 1024


class FloodTest(WatchedTest):
    """The attacks run as another user, if the tests run as root."""

    def watched_daemon(self, *flags, **options):
        """Others may reach it, too."""
        daemon = super().watched_daemon(*flags, **options)
        os.chmod(daemon.directory, 0o755)
        return daemon

    def attack(self, daemon, name, user=NOBODY):
        """An attack of scripts/chaoslib/attacks.py, until the test ends."""
        pid = attacks.start(name, daemon, user if os.getuid() == 0 else None, 1)
        self.addCleanup(lambda: self.assertTrue(attacks.stop(pid), f"{name} ended by itself"))

    def start_as_user(self, function, user=NOBODY, groups=(), stays=False):
        """A process of that user, in groups of no account besides these, which runs the function. Returns
        what gives its result; with `stays` the process keeps what it has until the test ends."""
        if os.getuid() != 0:
            self.skipTest("only root can be several users")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups(list(groups))
                os.setgid(user)
                os.setuid(user)
                os.write(writing, json.dumps(function()).encode() + b"\n")
                while stays:
                    signal.pause()
            finally:
                os._exit(0)
        os.close(writing)
        self.addCleanup(os.waitpid, pid, 0)
        if stays:
            self.addCleanup(os.kill, pid, signal.SIGKILL)

        def result():
            with os.fdopen(reading) as answer:
                text = answer.readline()
            self.assertTrue(text, "the other user's process failed")
            return json.loads(text)
        return result

    def as_user(self, function, user=NOBODY, groups=()):
        """What the function returns in a process of that user."""
        return self.start_as_user(function, user, groups)()

    def check_goes_on(self, daemon):
        """Others are served, and the heartbeat comes."""
        daemon.check_serves()
        self.await_heartbeats(2)

    def check_turns(self, daemon):
        steps = self.ctl_json(daemon, "status")["turn_steps_most"]
        self.assertGreater(steps, 0)
        self.assertLessEqual(steps, TURN_STEPS_MOST)

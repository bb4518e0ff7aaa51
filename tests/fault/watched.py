"""A daemon and the service manager that it tells its heartbeat: the test reads always, and counts."""
import os
import socket
import threading

from harness import LIMIT_S, IntegrationTest


class WatchedTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.heartbeats, self.changed = 0, threading.Condition()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(os.path.join(self.directory(), "notify"))
        reader = threading.Thread(target=self._read)
        reader.start()
        self.addCleanup(reader.join)
        self.addCleanup(self._stop_reading)

    def _read(self):
        while (message := self.manager.recv(4096)) != b"end":
            with self.changed:
                self.heartbeats += b"WATCHDOG=1" in message
                self.changed.notify_all()
        self.manager.close()

    def _stop_reading(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"end", self.manager.getsockname())

    def watched_daemon(self, *flags, watchdog_s=1, **options):
        """A daemon that tells its heartbeat twice in the watchdog's time."""
        environment = os.environ | {"NOTIFY_SOCKET": self.manager.getsockname(),
                                    "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}
        return self.daemon(*flags, env=environment, **options)

    def await_heartbeats(self, count):
        """Until so many more have come: those before do not count."""
        with self.changed:
            wanted = self.heartbeats + count
            self.assertTrue(self.changed.wait_for(lambda: self.heartbeats >= wanted, LIMIT_S),
                            "no heartbeat comes")

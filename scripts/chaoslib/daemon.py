"""A blinkd of one's own in a directory of its own, and what it uses of the machine."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

START_LIMIT_S = 30
STOP_LIMIT_S = 60


class Heartbeats(threading.Thread):
    """The service manager's end of the watchdog: when the daemon last said that it is alive."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.lock = threading.Lock()
        self.last = time.monotonic()
        self.longest_s = 0.0
        self.late = 0
        self.limit_s = float("inf")
        self.start()

    def run(self):
        while True:
            try:
                data = self.socket.recv(4096)
            except OSError:
                return
            if b"WATCHDOG=1" in data or b"READY=1" in data:
                self._note(time.monotonic())

    def _note(self, now):
        with self.lock:
            gap = now - self.last
            self.longest_s = max(self.longest_s, gap)
            self.late += gap > self.limit_s
            self.last = now

    def begin(self, limit_s=float("inf")):
        """Forget the gaps so far. Gaps beyond the limit count as missed from now on."""
        with self.lock:
            self.last, self.longest_s, self.late, self.limit_s = time.monotonic(), 0.0, 0, limit_s

    def gap_s(self):
        """The longest silence, one that still lasts included."""
        with self.lock:
            return max(self.longest_s, time.monotonic() - self.last)

    def missed(self):
        with self.lock:
            return self.late + (time.monotonic() - self.last > self.limit_s)


def status_kib(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return 0


class Daemon:
    """blinkd of a build directory. Every user may reach its socket, and the programs copied beside it.
    `config` is the text of its configuration file."""

    def __init__(self, build, flags, programs=(), watchdog_s=2.0, config=""):
        self.build = pathlib.Path(build)
        self.directory = tempfile.mkdtemp(prefix="blink-chaos-")
        os.chmod(self.directory, 0o755)
        self.socket = os.path.join(self.directory, "blinkd.sock")
        self.programs = {name: self._copy(path) for name, path in programs}
        for library in (self.build / "lib").glob("libblinkclient.so*"):
            shutil.copy(library, self.directory, follow_symlinks=True)
        notify = os.path.join(self.directory, "notify")
        self.heartbeats = Heartbeats(notify)
        environment = dict(os.environ, NOTIFY_SOCKET=notify, WATCHDOG_USEC=str(int(watchdog_s * 1e6)))
        environment.pop("WATCHDOG_PID", None)
        self.log = open(os.path.join(self.directory, "log"), "wb")
        config_path = pathlib.Path(self.directory, "blinkd.conf")
        config_path.write_text(config, encoding="ascii")
        self.child = subprocess.Popen([self.build / "bin/blinkd", "--socket", self.socket, "--config",
                                       config_path, *flags],
                                      env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                      stderr=subprocess.STDOUT)
        self._await_start()

    def _copy(self, path):
        copy = shutil.copy(path, self.directory)
        os.chmod(copy, 0o755)
        return copy

    def _await_start(self):
        deadline = time.monotonic() + START_LIMIT_S
        while not self._accepts():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"blinkd does not start:\n{self.log_text()}")
            time.sleep(0.02)

    def _accepts(self):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.socket)
            except OSError:
                return False
        return True

    @property
    def pid(self):
        return self.child.pid

    def client_environment(self):
        """For programs of the build: the library that fits the daemon."""
        return dict(os.environ, BLINK_SOCKET=self.socket, LD_LIBRARY_PATH=self.directory)

    def lives(self):
        return self.child.poll() is None

    def anonymous_kib(self):
        return status_kib(self.pid, "RssAnon") if self.lives() else 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd")) if self.lives() else 0

    def mappings(self):
        if not self.lives():
            return 0
        with open(f"/proc/{self.pid}/maps", "rb") as file:
            return sum(1 for _ in file)

    def log_text(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self):
        """End it as an administrator would. Returns what was wrong with its end; None: nothing."""
        wrong = None
        if self.lives():
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                wrong = f"blinkd did not end within {STOP_LIMIT_S} s of SIGTERM"
                self.child.kill()
                self.child.wait()
        if not wrong and self.child.returncode != 0:
            wrong = f"blinkd ended with status {self.child.returncode}"
        self.heartbeats.socket.close()
        self.log.close()
        return wrong

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

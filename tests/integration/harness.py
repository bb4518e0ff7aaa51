"""What every integration test uses: a real daemon in a directory of its own, real client processes, time
limits.

Every child is ended by its process id when a test fails. Sanitizer reports in what any child prints fail
the test.
"""
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from limit import LIMIT_S

BLINKD = os.environ["BLINKD"]
BLINKCTL = os.environ["BLINKCTL"]
BLINK_PERF = os.environ["BLINK_PERF"]
BLINK_RANK = os.environ["BLINK_RANK"]

SANITIZER_REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:", re.ASCII)

LAST_LINES = 200
#: A child's own children may hold its output open.
READER_LIMIT_S = 1

ALL = [0, 1, 2, 3, 4, 5, 6, 7]
NOBODY = 65534  # a user


def needs(what, found, package):
    """Skip the test, and say so, if what it is with is not on this machine."""
    if not found:
        print(f"SKIPPED: no {what} here: it is in Debian's package {package}", file=sys.stderr)
        raise unittest.SkipTest(f"no {what}")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, or before it is read
        return False


class Living:
    """A process, whoever started it, and what it has."""

    def __init__(self, pid):
        self.pid = pid

    def descriptors(self):
        """How many it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def watched(self):
        """The numbers of the processes and threads that it has pidfds of."""
        folder, numbers = f"/proc/{self.pid}/fdinfo", set()
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError), open(f"{folder}/{fd}", encoding="ascii") as about:
                numbers |= {line.split()[1] for line in about if line.startswith("Pid:")}
        return numbers

    def mappings(self):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps:
            return sum(1 for _ in maps)

    def anonymous_bytes(self):
        """Of memory that is its alone."""
        return self._resident("RssAnon")

    def shared_bytes(self):
        """Of memory that others may have mapped, too, and that is no file's."""
        return self._resident("RssShmem")

    def _resident(self, kind):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(re.search(kind + r":\s+(\d+) kB", status.read())[1]) * 1024


class Process(Living):
    """A child whose output is collected while it runs."""

    def __init__(self, arguments, **options):
        self.arguments = [str(argument) for argument in arguments]
        self.out, self.err = [], []
        self.changed = threading.Condition()
        self.child = subprocess.Popen(self.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, errors="replace", **options)
        super().__init__(self.child.pid)
        self.readers = [threading.Thread(target=self._collect, args=pair, daemon=True)
                        for pair in ((self.child.stdout, self.out), (self.child.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def _collect(self, stream, lines):
        for line in stream:
            with self.changed:
                lines.append(line)
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def stdout(self):
        with self.changed:
            return "".join(self.out)

    def stderr(self):
        with self.changed:
            return "".join(self.err)

    def wait_for(self, what, condition):
        """Until condition(self) is true of what it has printed; an error if it ends or hangs first."""
        deadline = time.monotonic() + LIMIT_S
        while not condition(self):
            if self.child.poll() is not None:
                for reader in self.readers:
                    reader.join(LIMIT_S)
                if condition(self):
                    return
                raise AssertionError(f"{self.describe()} ended before {what}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.describe()} hangs before {what}")
            with self.changed:
                self.changed.wait(0.05)

    def wait(self):
        """Exit status; an error if the process hangs."""
        try:
            status = self.child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.describe()} hangs") from None
        for reader in self.readers:
            reader.join(LIMIT_S)
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.stderr.close()
        if SANITIZER_REPORT.search(self.stderr()):
            raise AssertionError(f"{self.describe()} was caught by a sanitizer")
        return status

    def say(self, line="\n"):
        self.child.stdin.write(line)
        self.child.stdin.flush()

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def last_words(self):
        """What it said, for a test that failed: of many lines the last ones."""
        for reader in self.readers:
            reader.join(READER_LIMIT_S)
        status = self.child.poll()
        parts = [f"{' '.join(self.arguments)} (pid {self.pid}, exit status {status})\n"]
        for name, lines in (("stdout", self.out), ("stderr", self.err)):
            with self.changed:
                left_out = max(0, len(lines) - LAST_LINES)
                parts += [f"--- {name}\n", f"... {left_out} lines ...\n" if left_out else "",
                          *lines[left_out:]]
        return "".join(parts) + "---"

    def describe(self):
        return f"{' '.join(self.arguments)}\n--- stdout\n{self.stdout()}--- stderr\n{self.stderr()}---"


class Rank(Process):
    """One blink-rank process."""

    def steps(self):
        """What it reported so far, parsed."""
        text = self.stdout()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def wait_for_step(self, step):
        self.wait_for(f"step {step}", lambda rank: any(line["step"] == step for line in rank.steps()))

    def finish(self):
        status = self.wait()
        if status not in (0, -signal.SIGKILL):
            raise AssertionError(f"exit status {status} of {self.describe()}")
        return self.steps()


class Daemon(Process):
    """blinkd on a socket of its own; `flags` are added to its command line, and `prefix` stands before it."""

    def __init__(self, case, *flags, topology=None, devices=8, directory=None, wait=True, prefix=(),
                 program=BLINKD, **options):
        self.case = case
        self.directory = directory or case.directory()
        self.socket = os.path.join(self.directory, "blinkd.sock")
        arguments = [*prefix, program, "--socket", self.socket, "--devices", f"host:{devices}"]
        if topology:
            arguments += ["--topology", topology]
        super().__init__(arguments + list(flags), **options)
        case.children.append(self)
        self.ended = False
        if wait:
            self.wait_for("listening", lambda daemon: accepts(daemon.socket))

    def stop(self, signal_number=signal.SIGTERM):
        """End it as an administrator would; it must leave cleanly and take its socket along."""
        self.ended = True
        self.child.send_signal(signal_number)
        status = self.wait()
        self.case.assertEqual(status, 0, self.describe())
        self.case.assertFalse(os.path.exists(self.socket), "the socket is still there")

    def kill(self):
        self.ended = True
        super().kill()

    def check_serves(self):
        """Two new processes can use it: whatever happened before did not harm it."""
        for steps in self.case.run_ranks(self, [0, 1], ["allreduce:1000:float32:sum"]):
            self.case.assert_all_ok(steps)


def accepts(path):
    import socket
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def new_id():
    return secrets.token_hex(16)


def unshared(*flags):
    """The beginning of a command that has namespaces of its own, as unshare(1) calls them. Where nobody may
    make them the test is skipped."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *user, *flags]
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"SKIPPED: no namespaces here: {done.stderr.strip()}", file=sys.stderr)
        raise unittest.SkipTest(done.stderr.strip())
    return command


class IntegrationTest(unittest.TestCase):
    """A test that starts processes. Nothing outlives it."""

    maxDiff = None

    def setUp(self):
        self.children = []
        self.addCleanup(self._end_children)

    def _end_children(self):
        for child in self.children:
            child.kill()
        result = self._outcome.result  # its `success` is of this cleanup alone
        if any(test is self for test, _ in result.failures + result.errors):
            for child in self.children:
                print(f"--- of the failed test {self.id()}: {child.last_words()}", file=sys.stderr)

    def directory(self):
        path = tempfile.mkdtemp(prefix="blink-test-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def write_file(self, name, text):
        path = os.path.join(self.directory(), name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def limits(self, **values):
        """Flags for a daemon with these values in the section [limits] of its configuration."""
        lines = [f"{key} = {value}\n" for key, value in values.items()]
        return ["--config", self.write_file("blinkd.conf", "[limits]\n" + "".join(lines))]

    def daemon(self, *flags, **options):
        """A daemon that must also end cleanly at the end of the test."""
        daemon = Daemon(self, *flags, **options)
        self.addCleanup(self._stop_if_running, daemon)
        return daemon

    def _stop_if_running(self, daemon):
        if daemon.ended:
            return
        if daemon.child.poll() is not None:
            raise AssertionError(f"blinkd ended by itself with status {daemon.wait()}: {daemon.describe()}")
        daemon.stop()

    def start(self, arguments, **options):
        process = Process(arguments, **options)
        self.children.append(process)
        return process

    def start_client(self, daemon, steps):
        """A client without a communicator."""
        rank = Rank([BLINK_RANK, "--socket", daemon.socket, *steps])
        self.children.append(rank)
        return rank

    def start_rank(self, daemon, identifier, rank_count, rank, steps, device=None, algorithm=None, name=None,
                   **options):
        """rank, device: a number, or a list for several ranks (threads) in one process."""
        def numbers(value):
            return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        arguments = [BLINK_RANK, "--socket", daemon.socket, "--id", identifier, "--ranks", rank_count,
                     "--rank", numbers(rank)]
        if device is not None:
            arguments += ["--device", numbers(device)]
        if algorithm:
            arguments += ["--algorithm", algorithm]
        if name is not None:
            arguments += ["--name", name]
        process = Rank(arguments + list(steps), **options)
        self.children.append(process)
        return process

    def start_ranks(self, daemon, devices, steps, algorithm=None):
        """A process per device that joins one communicator. steps: for all ranks, or a dict by rank with
        the others' under None."""
        identifier = new_id()
        own = steps if isinstance(steps, dict) else {None: steps}
        return [self.start_rank(daemon, identifier, len(devices), rank, own.get(rank, own.get(None)), device,
                                algorithm)
                for rank, device in enumerate(devices)]

    def run_ranks(self, daemon, devices, steps, algorithm=None):
        """The same, to the end: what each rank reported."""
        return [rank.finish() for rank in self.start_ranks(daemon, devices, steps, algorithm)]

    def run_command(self, arguments, **options):
        """Exit status, standard output, standard error."""
        process = self.start(arguments, **options)
        status = process.wait()
        return status, process.stdout(), process.stderr()

    def ctl(self, daemon, *arguments):
        status, out, err = self.run_command([BLINKCTL, "--socket", daemon.socket, *arguments])
        self.assertEqual(status, 0, err)
        return out

    def ctl_of_nobody(self, daemon, *arguments):
        """Status and both outputs of blinkctl, run by another user. Only root may become one."""
        os.chmod(daemon.directory, 0o755)
        os.chmod(daemon.socket, 0o777)
        # A copy that the other user can run wherever the build directory lies.
        tool = shutil.copy(BLINKCTL, os.path.join(daemon.directory, "blinkctl"))
        return self.run_command([tool, "--socket", daemon.socket, *arguments],
                                user=NOBODY, group=NOBODY, extra_groups=[])

    def ctl_json(self, daemon, *arguments):
        return json.loads(self.ctl(daemon, *arguments, "--json"))

    # ---- assertions ----

    def until(self, condition):
        """Look again and again until it is so; an error if that never comes."""
        deadline, pause_s = time.monotonic() + LIMIT_S, 0.0005
        while not condition():
            self.assertLess(time.monotonic(), deadline, "what is waited for does not come")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.01)

    def find(self, steps, name):
        found = [step for step in steps if step["step"] == name]
        self.assertTrue(found, f"no step {name} in {steps}")
        return found[-1]

    def assert_all_ok(self, steps):
        for step in steps:
            self.assertEqual((step["result"], step["wrong"]), ("BLINK_OK", 0), step)
        self.assertEqual(steps[-1]["step"], "close", steps)

    def assert_step(self, steps, name, result, *texts):
        """The step ended with this result and its sentence contains these texts."""
        step = self.find(steps, name)
        self.assertEqual(step["result"], "BLINK_OK" if result == "OK" else f"BLINK_ERR_{result}", step)
        self.assertEqual(step["wrong"], 0, step)
        for text in texts:
            self.assertRegex(step["text"], text, step)

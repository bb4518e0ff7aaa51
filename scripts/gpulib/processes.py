"""Programs with a time limit, and blinkd in a directory of its own. Nothing outlives what started it."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

START_S = 60
STOP_S = 30
SHOWN = 400  # characters of what a program said, in a reason


class Failure(Exception):
    """What was asked for did not happen; the text says what did."""


class Done:
    """A program that has ended, or was ended as it took too long."""

    def __init__(self, command, status, out, err):
        self.command, self.status, self.out, self.err = command, status, out, err

    def reason(self):
        said = " ".join((self.err.strip() or self.out.strip())[-SHOWN:].split())
        return f"status {self.status}: {said}" if said else f"status {self.status}"

    def must_succeed(self):
        if self.status != 0:
            raise Failure(self.reason())
        return self


def end_group(child):
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def begin(command, environment, **options):
    """In a process group of its own, with what it says in pipes."""
    return subprocess.Popen([str(word) for word in command], env=environment, text=True, errors="replace",
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True, **options)


def finish(child, limit_s):
    """Failure if it hangs."""
    try:
        out, err = child.communicate(timeout=max(1, limit_s))
    except subprocess.TimeoutExpired:
        end_group(child)
        child.communicate()
        raise Failure(f"hangs: it was ended after {limit_s:.0f} s") from None
    finally:
        end_group(child)
    return Done(child.args, child.returncode, out, err)


def run(command, environment, limit_s, **options):
    return finish(begin(command, environment, **options), limit_s)


def answers(path):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


class Daemon:
    """blinkd on `devices`. `wrapper`: a command line that runs it."""

    def __init__(self, programs, devices, environment, *flags, wrapper=(), start_s=START_S):
        self.programs, self.environment, self.wrapper = programs, environment, list(wrapper)
        self.flags, self.devices, self.start_s = flags, devices, start_s
        self.child, self.stack = None, contextlib.ExitStack()
        self.said = ""  # all of it, once it has ended

    def command(self):
        return [*self.wrapper, str(self.programs / "blinkd"), "--config", "/dev/null", "--socket",
                self.socket, "--devices",
                self.devices, *self.flags]

    def __enter__(self):
        directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="blink-gpu-"))
        self.socket = os.path.join(directory, "blinkd.sock")
        self.log_path = pathlib.Path(directory, "log")
        with self.log_path.open("w") as log:
            self.child = subprocess.Popen(self.command(), env=self.environment, stdin=subprocess.DEVNULL,
                                          stdout=log,
                                          stderr=log, start_new_session=True)
        deadline = time.monotonic() + self.start_s
        while not answers(self.socket):
            if self.child.poll() is not None or time.monotonic() > deadline:
                reason = f"{shown(self.command())} does not start: {self.log()[-SHOWN:]}"
                self.__exit__()
                raise Failure(" ".join(reason.split()))
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.end()
        self.said = self.log()
        self.stack.close()

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def end(self, limit_s=STOP_S):
        """Ask it to end. Its status; None if it had to be killed."""
        if self.child.poll() is None:
            self.child.terminate()
        try:
            return self.child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_group(self.child)
            self.child.wait()

    def status(self):
        asked = run([self.programs / "blinkctl", "--socket", self.socket, "status", "--json"],
                    self.environment, 20)
        return json.loads(asked.must_succeed().out)


def shown(command):
    """A command as a reader can repeat it: the program by its name."""
    return " ".join([os.path.basename(command[0]), *map(str, command[1:])])

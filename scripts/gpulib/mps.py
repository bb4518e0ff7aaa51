"""An MPS daemon of one's own, in a temporary directory: no setting of the GPU is touched."""
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from . import machine

ANSWER_S = 20


def end_process(pid):
    """Asks it to end, and makes it after two seconds. Only for processes named as MPS names its own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(20):
            try:
                name = pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
                if not name.startswith("nvidia-cuda-mps"):
                    return
                os.kill(pid, sign)
            except OSError:
                return
            time.sleep(0.1)


def tell(control, environment, word):
    try:
        return subprocess.run([control], input=word + "\n", env=environment, capture_output=True, text=True,
                              timeout=ANSWER_S, check=False).stdout
    except subprocess.TimeoutExpired:
        return None


def find_control():
    return machine.find_tool("nvidia-cuda-mps-control")


@contextlib.contextmanager
def daemon(control=None):
    """Yields (pipe directory, None) of a daemon that is stopped at the end, or (None, why there is none)."""
    control = control or find_control()
    if not control:
        yield None, "there is no nvidia-cuda-mps-control on this machine"
        return
    with tempfile.TemporaryDirectory(prefix="blink-mps-") as directory:
        place = pathlib.Path(directory)
        pipe, log = place / "pipe", place / "log"
        pipe.mkdir()
        log.mkdir()
        environment = os.environ | {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}
        try:
            error = start(control, environment, place / "said")
            yield (None, f"MPS does not start: {error}"[:200]) if error else (str(pipe), None)
        finally:
            stop(control, environment, pipe)


def start(control, environment, said):
    """What went wrong, or None. The daemon keeps standard error, so that is a file and no pipe that never
    ends."""
    with said.open("w") as file:
        try:
            done = subprocess.run([control, "-d"], env=environment, stdin=subprocess.DEVNULL, stdout=file,
                                  stderr=file,
                                  timeout=ANSWER_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.returncode == 0:
        return None
    return " ".join(said.read_text().split()) or f"exit status {done.returncode}"


def stop(control, environment, pipe):
    try:
        pid = int((pipe / "nvidia-cuda-mps-control.pid").read_text())
    except (OSError, ValueError):
        return
    servers = [int(word) for word in (tell(control, environment, "get_server_list") or "").split()
               if word.isdigit()]
    tell(control, environment, "quit")
    for process in [*servers, pid]:  # what did not leave by itself
        end_process(process)

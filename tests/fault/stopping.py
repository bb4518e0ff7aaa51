"""Stopping a process for sure, and single threads of one, which no signal can: by ptrace."""
import contextlib
import ctypes
import os
import signal
import time

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_ulong, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def all_threads(pid):
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def state_of(pid, thread):
    with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def stop(pid):
    """Returns when every thread of the process has stopped: a moment after the signal."""
    os.kill(pid, signal.SIGSTOP)
    while any(state_of(pid, thread) != "T" for thread in all_threads(pid)):
        time.sleep(0.001)


def name_of(pid, thread):
    with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
        return file.read().strip()


def named(pid, name):
    found = [thread for thread in all_threads(pid) if name_of(pid, thread) == name]
    assert found, f"process {pid} has no thread {name}: {[name_of(pid, t) for t in all_threads(pid)]}"
    return found


def ask(request, thread):
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


@contextlib.contextmanager
def threads(pid, stopped):
    """These threads of the process stand still inside the with statement."""
    for thread in stopped:
        ask(PTRACE_SEIZE, thread)
        ask(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
    try:
        yield
    finally:
        for thread in stopped:
            with contextlib.suppress(OSError):  # the process may have ended meanwhile
                ask(PTRACE_DETACH, thread)

"""A program in namespaces of its own: network, host name, processes. What it starts in there ends with it,
however it ends, and what it makes of the network is gone then, too. It needs root, or a kernel that gives
users namespaces of their own."""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

INSIDE = "BLINK_HOSTS_DIRECTORY"
STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
PR_SET_CHILD_SUBREAPER = 36
# The root folder may be no mount, in a chroot for instance, and then its mounts cannot be made private.
NAMESPACES = ["unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation",
              "unchanged"]


class Stopped(Exception):
    """By a signal, whose number is the argument."""


def stop(number, _):
    raise Stopped(number)


def as_user():
    return [] if os.geteuid() == 0 else ["--map-root-user"]


def why_not():
    """Why there are no namespaces for this user here; empty if there are."""
    try:
        done = subprocess.run([*NAMESPACES, *as_user(), "true"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
    except OSError as error:
        return f"unshare: {error.strerror}"
    return done.stderr.strip() or "unshare failed" if done.returncode else ""


def end(child):
    """And all that it has started: the kernel ends what lives in its namespace of processes before that
    namespace's first process, which this process inherits from `child`, can be waited for."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    child.kill()
    child.wait()
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def run_inside():
    """This program once more, in there. Returns its exit status."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    directory = tempfile.mkdtemp(prefix="blink-hosts-")
    child = None
    try:
        for number in STOPPING:
            signal.signal(number, stop)
        child = subprocess.Popen([*NAMESPACES, *as_user(), sys.executable, "-B", *sys.argv],
                                 env={**os.environ, INSIDE: directory}, start_new_session=True)
        return child.wait()
    except Stopped as stopped:
        return 128 + stopped.args[0]
    finally:
        if child:
            end(child)
        shutil.rmtree(directory)


def enter():
    """Outside this does not return: the program runs in there, and its exit status is this one's. Inside it
    returns a directory, which goes with the namespaces."""
    directory = os.environ.pop(INSIDE, None)
    if directory is None:
        sys.exit(run_inside())
    return pathlib.Path(directory)

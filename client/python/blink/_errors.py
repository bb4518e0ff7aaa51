"""Exceptions, by class, with the library's sentence."""
from typing import Any

from ._abi import Result, library


class Error(Exception):
    """A call or an op has failed; `code` says how, and the text why."""
    code: Result = Result.INTERNAL


class InvalidArgument(Error, ValueError):
    """An argument is out of its domain."""


class Unsupported(Error, NotImplementedError):
    """Not provided by this version, this device, or this memory."""


class NotConnected(Error, ConnectionError):
    """No daemon answers."""


class DaemonLost(Error, ConnectionError):
    """The daemon ended, or the connection to it broke."""


class PeerLost(Error):
    """Another rank's process ended or disconnected."""


class Aborted(Error):
    """A rank aborted the communicator."""


class Timeout(Error, TimeoutError):
    """Ranks did not come in time: the communicator has ended."""


class Mismatch(Error):
    """The ranks disagree."""


class NotFound(Error, LookupError):
    """The device, or the launcher, does not exist."""


class Exists(Error):
    """A rank or its device is taken already."""


class Quota(Error):
    """A limit of this user was reached."""


class Refused(Error, PermissionError):
    """Not allowed to this user."""


_CLASSES = {Result.INVALID_ARGUMENT: InvalidArgument, Result.OUT_OF_RANGE: InvalidArgument,
            Result.UNSUPPORTED: Unsupported, Result.CONNECT: NotConnected, Result.DAEMON_LOST: DaemonLost,
            Result.PEER_LOST: PeerLost, Result.ABORTED: Aborted, Result.TIMEOUT: Timeout,
            Result.MISMATCH: Mismatch, Result.NOT_FOUND: NotFound, Result.EXISTS: Exists,
            Result.QUOTA: Quota, Result.PERMISSION: Refused}


def failure(code: int) -> Error:
    """The exception for the last call of this thread, which has failed."""
    text = library.blink_last_error().decode(errors="replace")
    try:
        known = Result(code)
    except ValueError:  # of a newer library
        known = Result.INTERNAL
    error = _CLASSES.get(known, Error)(text)
    error.code = known
    return error


def call(name: str, *arguments: Any) -> None:
    """Call the library, and raise what it says."""
    result = getattr(library, name)(*arguments)
    if result != Result.OK:
        raise failure(result)

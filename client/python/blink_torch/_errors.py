"""Failures in torch's classes and words. The daemon's own exception is the cause."""
from contextlib import contextmanager
from typing import Iterator

import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

import blink

START_ONE = ("start one (`systemctl start blinkd`, or by hand `blinkd --socket PATH --devices host:8`), and "
             "set BLINK_SOCKET if it is not at its usual place")


class Closed(dist.DistBackendError):
    """A process group is used after it was shut down."""

    def __init__(self, group: str) -> None:
        super().__init__(f"blink: process group {group} was shut down")


def translate(error: blink.Error, doing: str) -> Exception:
    """`doing`: what has failed, as "all_reduce on rank 1"."""
    if isinstance(error, blink.Timeout):
        text = f"{doing} timed out: {error}, the timeout of the group"
    elif isinstance(error, blink.NotConnected):
        text = f"{doing}: {error}. Is blinkd running? Else {START_ONE}"
    else:
        text = f"{doing}: {error}"
    return dist.DistBackendError("blink: " + text)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    try:
        yield
    except blink.Error as error:
        raise translate(error, doing) from error


def late(doing: str, seconds: float) -> Exception:
    """For a limit that only this rank knows of."""
    return dist.DistBackendError(f"blink: {doing} timed out after {seconds * 1000:.0f} ms, a limit of this "
                                 "call: it is still under way, and its tensors must not be used")


def error_type(comm: blink.Communicator) -> ErrorType:
    try:
        comm.check()
    except blink.Timeout:
        return ErrorType.TIMEOUT
    except blink.PeerLost:
        return ErrorType.REMOTE_ERROR
    except (blink.Error, ValueError):
        return ErrorType.COMM_ERROR
    return ErrorType.SUCCESS

"""Collectives through the blinkd daemon of this host.

    import blink

    with blink.init() as comm:
        x = blink.empty(1000, "float32")
        x[:] = [comm.rank] * 1000
        comm.all_reduce(x)

docs/python.md of blinkd says more, and blink/blink.h, the header for C, what each call does.
"""
from ._abi import Algorithm, Datatype, Op as ReduceOp, Result
from ._comm import Communicator, Group, group, init
from ._context import Context, Pending, empty, launched, version
from ._errors import (Aborted, DaemonLost, Error, Exists, InvalidArgument, Mismatch, NotConnected, NotFound,
                      PeerLost, Quota, Refused, Timeout, Unsupported)

__version__ = version()

__all__ = ["Aborted", "Algorithm", "Communicator", "Context", "DaemonLost", "Datatype", "Error", "Exists",
           "Group", "InvalidArgument", "Mismatch", "NotConnected", "NotFound", "PeerLost", "Pending", "Quota",
           "ReduceOp", "Refused", "Result", "Timeout", "Unsupported", "empty", "group", "init", "launched",
           "version"]

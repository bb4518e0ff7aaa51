"""Sends and receives. Those of a communicator of the daemon keep the order of their rank's ops, while torch's
go on in any order. So each pair of ranks has a communicator of its own for each direction and tag, in which
one rank only sends and the other only receives. It is made when both come to use it, in a thread, for neither
may wait for the other."""
import threading
import time
from collections import deque
from typing import Any, Deque, NamedTuple, Optional

import torch.distributed as dist

import blink

from ._errors import Closed
from ._types import Elements
from ._work import EXIT_S, Completer

#: Between two looks whether the other rank has come.
SHORTEST_S, LONGEST_S = 0.0005, 0.02


class Transfer:
    """A send or a receive, which begins when its channel is open."""

    def __init__(self, function: str, elements: Elements) -> None:
        self._function, self._elements = function, elements
        self._is_begun = threading.Event()
        self._pending: Optional[blink.Pending] = None
        self._failure: Optional[Exception] = None

    def begin(self, comm: blink.Communicator, peer: int) -> None:
        _, address, count, datatype = self._elements
        try:
            self._pending = comm.submit(self._function, [address, count, datatype, peer], self._elements,
                                        None, False, None)
        except (blink.Error, ValueError) as error:
            self._failure = error
        self._is_begun.set()

    def fail(self, failure: Exception) -> None:
        self._failure = failure
        self._is_begun.set()

    def wait(self, seconds: Optional[float]) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        if not self._is_begun.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX)):
            raise TimeoutError
        if self._failure:
            raise self._failure
        self._pending.wait(None if until is None else max(until - time.monotonic(), 0))

    def done(self) -> bool:
        return self._is_begun.is_set() and (self._failure is not None or self._pending.done())


class Route(NamedTuple):
    source: int
    destination: int
    tag: int


class Channel:
    """One end of a route."""

    def __init__(self, group: Any, route: Route, sends: bool) -> None:
        """`group`: the backend, which has the store, makes communicators, and knows when to give up."""
        self._group, self._route, self._sends = group, route, sends
        self.completer = Completer()
        self._lock = threading.Lock()
        self._waiting: Deque[Transfer] = deque()
        self._latest: Optional[Transfer] = None  # which ends last
        self._comm: Optional[blink.Communicator] = None
        self._failure: Optional[Exception] = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._open, name=f"blink {route}", daemon=True)
        self._thread.start()

    def submit(self, elements: Elements) -> Transfer:
        transfer = Transfer("blink_send" if self._sends else "blink_recv", elements)
        with self._lock:
            if self._failure:
                raise self._failure
            if self._comm:
                transfer.begin(self._comm, int(self._sends))
            else:
                self._waiting.append(transfer)
            self._latest = transfer
        return transfer

    def _open(self) -> None:
        comm, failure = None, None
        try:
            comm = self._meet()
        except Exception as error:
            failure = error
        with self._lock:
            self._comm, self._failure = comm, failure
            for transfer in self._waiting:
                transfer.fail(failure) if failure else transfer.begin(comm, int(self._sends))
            self._waiting.clear()

    def _meet(self) -> blink.Communicator:
        """The sender makes the id. Both join when both are there, so that joining takes no time."""
        store = dist.PrefixStore("blink {0.source} to {0.destination}, tag {0.tag}".format(self._route),
                                 self._group.store.clone())
        own, other = ("id", "receiver") if self._sends else ("receiver", "id")
        store.set(own, self._group.context.unique_id() if self._sends else b"is here")
        self._await(store, other)
        return self._group.join(bytes(store.get("id")), 2, int(not self._sends))

    def _await(self, store: dist.Store, key: str) -> None:
        until, pause_s = time.monotonic() + self._group.limit_s, SHORTEST_S
        while not store.check([key]):
            if self._is_closed:
                raise Closed(self._group.options.group_name)
            self._group.check()
            if time.monotonic() > until:
                doing = "receive" if self._sends else "send"
                peer = self._route.destination if self._sends else self._route.source
                raise blink.Timeout(f"rank {peer} has not come to {doing} with tag {self._route.tag} within "
                                    f"{self._group.limit_s:.0f} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_S)

    def set_timeout(self, seconds: float) -> None:
        with self._lock:
            if self._comm:
                self._comm.set_timeout(seconds)

    def abort(self) -> None:
        self._is_closed = True
        with self._lock:
            if self._comm:
                self._comm.abort()

    def stop(self) -> None:
        """At exit, as Completer.stop()."""
        self._is_closed = True
        self._thread.join(EXIT_S)
        self.completer.stop()

    def close(self) -> None:
        """What the other rank has not come to is given up: nobody waits for it any more."""
        self._is_closed = True
        self._thread.join()
        if self._comm:
            if self._latest and not self._latest.done():
                self._comm.abort()
            self._comm.close()

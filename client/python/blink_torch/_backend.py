"""The backend: how a group begins and ends, sends, receives and monitored barriers."""
import atexit
import os
import threading
import time
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, ErrorType

import blink

from . import _context
from ._channel import Channel, Route
from ._collectives import Collectives
from ._errors import Closed, error_type, translated
from ._work import Work

#: Backends that C++ has: it calls the Python objects, but does not keep all of them alive.
_alive: set = set()


@atexit.register
def _stop_threads() -> None:
    """Of groups that the program has not destroyed."""
    for group in list(_alive):
        group.stop()


class Options(Backend.Options):
    """For init_process_group(pg_options=…) and new_group(pg_options=…): what blink.Communicator takes."""

    def __init__(self, algorithm: str = "auto", device: Optional[int] = None,
                 timeout: timedelta = timedelta(minutes=30)) -> None:
        super().__init__("blink", timeout)
        self.algorithm, self.device = algorithm, device


def create(opts: Any, options: Any) -> Backend:
    """What torch calls for a new group."""
    if opts.enable_reconfigure:
        raise NotImplementedError("blink does not change the ranks of a group: make a new group")
    given = options if isinstance(options, Options) else Options()
    options = Options(given.algorithm, given.device, opts.timeout)
    options.group_name = opts.group_id
    options.global_ranks_in_group = opts.global_ranks_in_group or list(range(opts.group_size))
    if opts.split_from:
        return opts.split_from.split(opts.store, opts.global_ranks_in_group, options)
    return BlinkBackend(opts.store, opts.group_rank, opts.group_size, options)


class BlinkBackend(Collectives):
    """One rank of a process group."""

    def __init__(self, store: dist.Store, rank: int, size: int, options: Options,
                 comm: Optional[blink.Communicator] = None, attempt: str = "") -> None:
        """`comm`: the communicator, if it is made of another group's; `attempt`: that group's."""
        super().__init__(rank, size, options.group_name)
        self.store, self._options = store, options
        self.limit_s = options._timeout.total_seconds()
        self.attempt = attempt
        self._barriers = 0
        self._channels: Dict[Route, Channel] = {}
        self._channels_lock = threading.Lock()
        self._comm: Optional[blink.Communicator] = None
        with translated(f"rank {rank} cannot join process group {options.group_name}"):
            try:
                self.context = _context.acquire()
            except blink.Error as error:
                self._refuse(error)
                raise
            try:
                self._comm = comm or self._rendezvous()
            except Exception:
                _context.release(self.context)
                raise
        _alive.add(self)

    def _refuse(self, error: Exception) -> None:
        """Let the other ranks not wait for an id."""
        if self.rank() == 0:
            self.store.set("blink", b"-" + str(error).encode())

    def _rendezvous(self) -> blink.Communicator:
        """torchrun starts ranks anew with the store that they had. So the id does not stay there, and what is
        said there later has the id in front."""
        store = self.store
        if self.rank() == 0:
            identifier = self.context.unique_id()
            store.set("blink", b"+" + identifier)
        else:
            store.wait(["blink"], timedelta(seconds=self.limit_s))
            told = bytes(store.get("blink"))
            if told[:1] == b"-":
                raise blink.Aborted(f"rank 0 has failed: {told[1:].decode()}")
            identifier = told[1:]
        self.attempt = identifier.hex()
        self.store = dist.PrefixStore(self.attempt, store)
        comm = self.join(identifier, self.size(), self.rank(), getattr(self._options, "algorithm", "auto"))
        if self.rank() == 0:  # all have read it; of a join that has failed the daemon tells who comes late
            store.delete_key("blink")
        return comm

    def join(self, identifier: bytes, size: int, rank: int, algorithm: str = "auto") -> blink.Communicator:
        """This rank's device is the same in all groups. Not all algorithms do sends."""
        device = getattr(self._options, "device", None)
        if device is None:
            fallback = os.environ.get("BLINK_LOCAL_RANK", self._options.global_ranks_in_group[self.rank()])
            device = dist.get_node_local_rank(fallback_rank=int(fallback))
        return blink.Communicator(self.context, identifier, size, rank, device=device,
                                  algorithm=algorithm, op_timeout=self.limit_s, init_timeout=self.limit_s,
                                  name=f"torch {self._options.group_name}"[:63])

    # ---- what torch asks ----

    @property
    def options(self) -> Backend.Options:
        return self._options

    @property
    def supports_splitting(self) -> bool:
        return True

    def getBackendName(self) -> str:
        return "blink"

    def get_error(self) -> ErrorType:
        return error_type(self._comm) if self._comm else ErrorType.SUCCESS

    def check(self) -> None:
        """Raise what has ended the group."""
        self.comm.check()

    @property
    def comm(self) -> blink.Communicator:
        if not self._comm:
            raise Closed(self._options.group_name)
        return self._comm

    # ---- life ----

    def set_timeout(self, timeout: timedelta) -> None:
        self.limit_s = timeout.total_seconds()
        self._options._timeout = timeout
        with translated("set_timeout"):
            self.comm.set_timeout(self.limit_s)
            for channel in self._channels.values():
                channel.set_timeout(self.limit_s)

    def split(self, store: dist.Store, ranks: Sequence[int], opts: Any) -> Optional[Backend]:
        """Of all ranks of this group; returns None to those that are not among `ranks`."""
        ranks = list(ranks)
        is_member = self.rank() in ranks
        with translated(f"rank {self.rank()} cannot split process group {self._options.group_name}"):
            comm = self.comm.split(min(ranks) if is_member else None,
                                   ranks.index(self.rank()) if is_member else 0)
        if not comm:
            return None
        options = Options(getattr(self._options, "algorithm", "auto"), comm.device,
                          opts._timeout if opts else self._options._timeout)
        options.group_name = opts.group_name if opts else self._options.group_name
        options.global_ranks_in_group = [self._options.global_ranks_in_group[rank] for rank in ranks]
        with translated("split"):
            comm.set_timeout(options._timeout.total_seconds())
        return BlinkBackend(dist.PrefixStore(self.attempt, store), comm.rank, comm.size, options, comm,
                            self.attempt)

    def perform_nocolor_split(self, _: Any) -> None:
        with translated("split"):
            self.comm.split(None)

    def abort(self) -> None:
        """End what is under way, on all ranks, and leave."""
        if self._comm and not self.context.is_inherited:
            try:
                self._comm.abort()
                for channel in self._channels.values():
                    channel.abort()
            except blink.Error:
                pass  # the daemon is lost, which has ended everything
        self.shutdown()

    def shutdown(self) -> None:
        """In a process that was forked this leaves the group alone, which is the parent's."""
        comm, self._comm = self._comm, None
        if not comm or self.context.is_inherited:
            return
        try:
            for channel in self._channels.values():
                channel.close()
            comm.close()
        except blink.Error:
            pass  # the daemon is lost
        _alive.discard(self)
        _context.release(self.context)

    def stop(self) -> None:
        self._completer.stop()
        for channel in self._channels.values():
            channel.stop()

    # ---- sends and receives ----

    def send(self, tensors: List[torch.Tensor], destination: int, tag: int = 0) -> Work:
        return self._transfer("send", tensors, Route(self.rank(), destination, tag))

    def recv(self, tensors: List[torch.Tensor], source: int, tag: int = 0) -> Work:
        return self._transfer("recv", tensors, Route(source, self.rank(), tag))

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Work:
        raise NotImplementedError("blink receives from a rank that is named: give recv() a source, or "
                                  "take the backend gloo for a group that receives from any rank")

    def _transfer(self, name: str, tensors: List[torch.Tensor], route: Route) -> Work:
        if route.source == route.destination:
            raise ValueError(f"rank {route.source} cannot {name} to itself: copy the tensor")
        sends = name == "send"
        job = self._job(name)
        elements = [job.read(tensor) if sends else job.write(tensor) for tensor in tensors]
        with translated(job.doing):
            self.check()
            with self._channels_lock:
                channel = self._channels.get(route)
                if not channel:
                    channel = self._channels[route] = Channel(self, route, sends)
            for each in elements:
                job.add(channel.submit(each))
        return self._work(job, [] if sends else tensors, channel.completer)

    # ---- monitored barrier ----

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """By the store, so that rank 0 can say who is missing and the group lives on."""
        limit_s = opts.timeout.total_seconds() if opts.timeout >= timedelta(0) else self.limit_s
        self._barriers += 1
        store = dist.PrefixStore(f"monitored barrier {self._barriers}", self.store)
        if self.rank() != 0:
            self._answer_monitor(store, limit_s)
            return
        until, missing = time.monotonic() + limit_s, []
        for rank in range(1, self.size()):
            if (wait_all_ranks or not missing) and not _comes(store, f"{rank}", until):
                missing.append(rank)
        store.set("over", "failed" if missing else "passed")
        if missing and limit_s == 0:
            raise dist.DistBackendError("[Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms")
        if missing:
            ranks = ("Ranks " if len(missing) > 1 else "Rank ") + ", ".join(map(str, missing))
            raise dist.DistBackendError(f"[Rank 0]: {ranks} failed to pass monitoredBarrier in "
                                        f"{limit_s * 1000:.0f} ms")

    def _answer_monitor(self, store: dist.Store, limit_s: float) -> None:
        store.set(f"{self.rank()}", "is here")
        if not _comes(store, "over", time.monotonic() + limit_s) or store.get("over") != b"passed":
            raise dist.DistBackendError(f"Rank {self.rank()} successfully reached monitoredBarrier, but "
                                        "received errors while waiting for send/recv from rank 0. Please "
                                        "check rank 0 logs for faulty rank.")


def _comes(store: dist.Store, key: str, until: float) -> bool:
    """Whether it comes in time. What the store raises if not has no class of its own."""
    try:
        store.wait([key], timedelta(seconds=max(until - time.monotonic(), 0.001)))
    except dist.DistNetworkError:
        raise
    except RuntimeError:
        return store.check([key])
    return True

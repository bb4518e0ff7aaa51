"""What one call of torch has under way, and how torch waits for it."""
import queue
import threading
import time
from datetime import timedelta
from math import inf
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work as C10dWork

import blink

from ._errors import late, translate
from ._types import Elements, check, elements_of, flat_view, is_plain


#: How long a thread stays that has nothing to do.
IDLE_S = 5
#: How long the end of the program waits for a thread, which may itself wait for an op.
EXIT_S = 1


def begin_span(name: str) -> Any:
    """A range for torch's profiler, if one is at work. It ends in the same thread: one that ended in another
    might outlive the profiler."""
    if not torch.autograd._profiler_enabled():
        return None
    span = torch.profiler.record_function(name)
    span.__enter__()
    return span


def end_span(span: Any) -> None:
    if span:
        span.__exit__(None, None, None)


def _lie_in_a_row(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether each begins where the one before ends, in one piece of memory."""
    first = tensors[0]
    place = first.data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != place or tensor.dtype != first.dtype or not is_plain(tensor):
            return False
        place += tensor.nbytes
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1


class Job:
    """The ops of one call of torch, what has to be copied when they have ended, and how that went.

    The methods that take tensors make memory of them that the daemon can use: the tensors' own where that is
    possible, else a copy, which is copied back in the end if the daemon writes it."""

    def __init__(self, doing: str, limit: float = inf) -> None:
        self.doing = doing
        self.span: Any = None  # of the profiler, while the job is being made
        self._limit = limit
        self._until = time.monotonic() + limit
        self._pending: List[Any] = []  # with wait(seconds)
        self._copies: List[Callable[[], None]] = []
        self._lock = threading.Lock()  # of the thread that copies
        self._is_over = False

    # ---- memory ----

    def read(self, tensor: torch.Tensor) -> Elements:
        check(tensor)
        plain = tensor if is_plain(tensor) else tensor.resolve_conj().resolve_neg().contiguous()
        return elements_of(flat_view(plain))

    def write(self, tensor: torch.Tensor, reads: bool = False) -> Elements:
        """`reads`: and takes what is there before."""
        check(tensor)
        if is_plain(tensor):
            return elements_of(flat_view(tensor))
        target = tensor.detach()
        made = torch.empty(tensor.shape, dtype=tensor.dtype)
        if reads:
            made.copy_(target)
        self._copies.append(lambda: target.copy_(made))
        return elements_of(flat_view(made))

    def read_all(self, tensors: Sequence[torch.Tensor]) -> Elements:
        """One behind the other."""
        for tensor in tensors:
            check(tensor)
        if _lie_in_a_row(tensors):
            first = flat_view(tensors[0])
            whole = sum(tensor.nbytes for tensor in tensors) // first.itemsize
            return elements_of(first.as_strided((whole,), (1,)))
        return elements_of(torch.cat([self.read(tensor).tensor for tensor in tensors]))

    def write_all(self, tensors: Sequence[torch.Tensor]) -> Elements:
        for tensor in tensors:
            check(tensor)
        if _lie_in_a_row(tensors):
            return self.read_all(tensors)
        parts = [self.write(tensor).tensor for tensor in tensors]
        made = torch.empty(sum(part.numel() for part in parts), dtype=parts[0].dtype)

        def copy() -> None:
            for part, source in zip(parts, made.split([part.numel() for part in parts])):
                part.copy_(source)
        self._copies.insert(0, copy)  # before those of the parts, which may be copies themselves
        return elements_of(made)

    # ---- ops ----

    def add(self, pending: Any) -> None:
        self._pending.append(pending)

    def submit(self, comm: blink.Communicator, function: str, arguments: Sequence[Any],
               *held: Elements) -> None:
        try:
            pending = comm.submit(function, arguments, held, None, False, None)
        except blink.Error as error:
            raise translate(error, self.doing) from error
        if pending:  # else it is in a group, whose end has the op
            self.add(pending)

    def wait(self, seconds: float = inf) -> None:
        """Until all has ended, or raise."""
        until = min(self._until, time.monotonic() + seconds)
        for pending in self._pending:
            try:
                pending.wait(None if until == inf else max(until - time.monotonic(), 0))
            except blink.Error as error:
                raise translate(error, self.doing) from error
            except TimeoutError:
                raise late(self.doing, min(seconds, self._limit)) from None
        with self._lock:
            if not self._is_over:
                for copy in self._copies:
                    copy()
                self._copies, self._is_over = [], True

    def is_over(self) -> bool:
        return self._is_over or all(pending.done() for pending in self._pending)


class Completer:
    """A thread that waits for works in their order, for those who have asked for futures."""

    def __init__(self) -> None:
        self._works: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()

    def follow(self, work: "Work", future: torch.futures.Future) -> None:
        with self._lock:
            self._works.put((work, future))
            if not self._thread:
                self._thread = threading.Thread(target=self._run, name="blink futures", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Until there was nothing to do for a while."""
        while True:
            try:
                entry = self._works.get(timeout=IDLE_S)
            except queue.Empty:
                entry = None
            if not entry:
                with self._lock:
                    if self._works.empty():
                        self._thread = None
                        return
                continue
            work, future = entry
            try:
                work.wait()
            except Exception:  # which the callback's own look at the work raises again
                pass
            future.set_result(None)
            del entry, work, future

    def stop(self) -> None:
        """At exit: Python ends the process if it finds a thread of its own in torch's C++ later."""
        thread = self._thread
        if thread:
            self._works.put(None)
            thread.join(EXIT_S)


class Work(C10dWork):
    """torch's handle of one job, or of several that were coalesced."""

    def __init__(self, jobs: Sequence[Job], results: Sequence[torch.Tensor], completer: Completer) -> None:
        super().__init__()
        self._jobs, self._results, self._completer = jobs, list(results), completer
        self._future: Optional[torch.futures.Future] = None
        self._lock = threading.Lock()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """timedelta(0): as long as the time-out of the group lets it."""
        until = time.monotonic() + (timeout.total_seconds() or inf)
        span = begin_span("blink:wait")
        try:
            for job in self._jobs:
                job.wait(until - time.monotonic())
        finally:
            end_span(span)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(job.is_over() for job in self._jobs)

    def exception(self) -> Optional[Exception]:
        try:
            if self.is_completed():
                self.wait()
        except Exception as error:
            return error
        return None

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def result(self) -> List[torch.Tensor]:
        return self._results

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        self.wait()
        return self._results

    def get_future(self) -> torch.futures.Future:
        """Of the results. It is the future of a callback, whose exceptions C++ sees as its own."""
        with self._lock:
            if not self._future:
                ended: torch.futures.Future = torch.futures.Future()
                self._future = ended.then(self._outcome)
                self._completer.follow(self, ended)
            return self._future

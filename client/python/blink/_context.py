"""The connection to the daemon, its memory, and ops that have not ended."""
import asyncio
import ctypes
import os
import threading
import time
import weakref
from collections import deque
from math import ceil, inf, prod
from typing import Any, Callable, Generator, NamedTuple, Optional, Sequence, Union

from ._abi import Result, UniqueId, library
from ._buffers import datatype_of, element_bytes
from ._errors import call, failure

#: Python runs its handlers of signals, that of Ctrl-C for one, between calls of the library.
SIGNALS_MS = 200

Shape = Union[int, Sequence[int]]

_FORMATS: Any = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
            "float32": "f", "float64": "d"}


def version() -> str:
    """Of libblinkclient."""
    return library.blink_version().decode()


class Launched(NamedTuple):
    rank: int
    size: int
    local_rank: Optional[int]


def launched() -> Launched:
    """Which rank this process is of how many, as its launcher says. Needs no daemon."""
    rank, size, local = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    call("blink_launched", ctypes.byref(rank), ctypes.byref(size), ctypes.byref(local))
    return Launched(rank.value, size.value, None if local.value < 0 else local.value)


class _Held:
    """with context.held: the connection stays, also if another thread closes it meanwhile."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.hold()

    def __exit__(self, *_: Any) -> None:
        self._context.release()


class Context:
    """A connection to the daemon, at BLINK_SOCKET or where it is by default. In a process that was forked it
    is as if it was closed, and what is left of it there does nothing to the parent's."""

    def __init__(self, socket: Optional[str] = None) -> None:
        self._handle = ctypes.c_void_p()
        self._lock = threading.RLock()  # in which the collector of garbage may free memory, in this thread
        self._holders = 1  # this object, each piece of memory, each call under way and each group
        self.held = _Held(self)
        self.is_closed = self.is_inherited = False
        self.ops: set = set()  # that have not ended: their buffers stay
        call("blink_open", os.fsencode(socket) if socket else None, ctypes.byref(self._handle))
        _contexts.add(self)

    def check_open(self) -> None:
        if self.is_inherited:
            raise ValueError("the context is of the process that has forked this one, which needs its own")
        if self.is_closed:
            raise ValueError("the context is closed")

    @property
    def handle(self) -> ctypes.c_void_p:
        self.check_open()
        return self._handle

    def hold(self) -> None:
        """Until release(). ValueError if it is closed."""
        if self.is_inherited:
            self.check_open()
        with self._lock:
            self.check_open()
            self._holders += 1

    @property
    def device_count(self) -> int:
        count = ctypes.c_int()
        with self.held:
            call("blink_device_count", self.handle, ctypes.byref(count))
        return count.value

    @property
    def daemon_version(self) -> str:
        text = ctypes.c_char_p()
        with self.held:
            call("blink_daemon_version", self.handle, ctypes.byref(text))
            return (text.value or b"").decode()

    def unique_id(self) -> bytes:
        """An id for a communicator, to be handed to its other ranks by whatever means."""
        made = UniqueId()
        with self.held:
            call("blink_get_unique_id", self.handle, ctypes.byref(made))
        return bytes(made)

    def empty(self, shape: Shape, dtype: Any = "float32") -> Any:
        """Memory that the daemon reads and writes in place: a NumPy array where NumPy is, else a memoryview,
        of zeros. It lives as long as its last user, also after close()."""
        extents = [shape] if isinstance(shape, int) else list(shape)
        datatype = datatype_of(dtype)
        size = max(prod(extents), 1) * element_bytes(datatype)
        address = ctypes.c_void_p()
        self.hold()
        try:
            call("blink_mem_alloc", self._handle, size, ctypes.byref(address))
        except BaseException:
            self.release()
            raise
        # Of a class of its own, for arrays of ctypes have no finalizers.
        kind: Any = type("Memory", (ctypes.c_byte * size,), {})
        memory = kind.from_address(address.value)
        # Not at the interpreter's exit: _free() waits for ops, and the end of the process frees the memory.
        weakref.finalize(memory, self._free, address).atexit = False
        return _shaped(memory, extents, dtype, datatype.name)

    def _free(self, address: ctypes.c_void_p) -> None:
        if not self.is_inherited:
            library.blink_mem_free(self._handle, address)
            self.release()

    def release(self) -> None:
        """The last one disconnects."""
        if self.is_inherited:
            return
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last:
            library.blink_close(self._handle)
            self.ops.clear()  # whose buffers nobody uses any more

    def forget_ended(self) -> None:
        """Let go of the buffers of ops that nobody has waited for."""
        for op in list(self.ops):
            if op.is_submitted:
                op.done()

    def close(self) -> None:
        """Disconnect, when the last memory of this connection is not used any more, and no other thread is in
        a call. The communicators must be closed before: else their other ranks see this one as lost.
        Afterwards communicators and ops of this connection raise ValueError."""
        if self.is_inherited:
            return
        with self._lock:
            was_closed, self.is_closed = self.is_closed, True
        if not was_closed:
            self.release()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _shaped(memory: Any, shape: Sequence[int], dtype: Any, name: str) -> Any:
    try:
        import numpy
    except ImportError:
        if name not in _FORMATS:
            raise TypeError(f"without NumPy there are no elements of {name}") from None
        flat: Any = memoryview(memory).cast("B").cast(_FORMATS[name])[:prod(shape)]
        return flat.cast("B").cast(_FORMATS[name], shape) if flat and len(shape) != 1 else flat
    flat = numpy.frombuffer(memory, numpy.dtype(name if isinstance(dtype, str) else dtype))
    return flat[:prod(shape)].reshape(shape)


_contexts: weakref.WeakSet = weakref.WeakSet()
_shared: Optional[Context] = None
_shared_lock = threading.Lock()


def _leave_to_parent() -> None:
    """In a child. The locks may have been held by threads that it does not have."""
    global _shared, _shared_lock
    for context in list(_contexts):
        context.is_inherited = context.is_closed = True
    _shared, _shared_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)


def shared() -> Context:
    """The connection of this process that init() and empty() use, made when it is needed."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Context()
        return _shared


def empty(shape: Shape, dtype: Any = "float32") -> Any:
    """As Context.empty(), of the process's own connection."""
    return shared().empty(shape, dtype)


def keep(outcome: deque, function: Callable, *arguments: Any) -> None:
    """Call a function that is not Python's, and append what it returns. A KeyboardInterrupt comes before or
    after both: on return from a plain call it can come before the assignment, and the value is lost."""
    outcome.extend(map(function, *((argument,) for argument in arguments)))


class Pending:
    """An op that was submitted with wait=False. Its buffers stay until it has ended; one that nobody waits
    for is waited for when its communicator is closed. It is made before the call that submits the op and
    writes the handle, so that no signal comes between the two and takes the buffers away."""

    def __init__(self, context: Context, handle: ctypes.c_void_p, held: Any, result: Any) -> None:
        self._context, self._handle, self._held, self._result = context, handle, held, result
        self._failed: Optional[Exception] = None
        self._lock = threading.Lock()  # of the thread that waits in the library
        self._codes: deque = deque(maxlen=1)  # what the library's latest wait has returned
        self._is_over = False
        context.ops.add(self)

    @property
    def is_submitted(self) -> bool:
        return bool(self._handle) or self._is_over

    def submit(self, function: Callable, *arguments: Any) -> None:
        """Call what submits the op."""
        try:
            function(*arguments)
        finally:
            if not self._handle:  # it has failed, or was interrupted before
                self._context.ops.discard(self)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Until the op has ended: the array with the result, or the op's failure. After `timeout` seconds
        TimeoutError: the op is then still under way. May be called again and by several threads."""
        if not self._await_end(inf if timeout is None else max(timeout, 0)):
            raise TimeoutError(f"the op has not ended within {timeout} s")
        if self._failed:
            raise self._failed
        return self._result

    def done(self) -> bool:
        """Whether the op has ended, be it by a failure, which wait() raises. Does not wait, not even for
        another thread that is in wait()."""
        return self._await_end(0)

    def _await_end(self, seconds: float) -> bool:
        if self._is_over:
            return True
        until = time.monotonic() + seconds
        locked: deque = deque(maxlen=1)
        try:
            keep(locked, self._lock.acquire, True, min(seconds, threading.TIMEOUT_MAX))
            while locked[0] and not self._ends_within(until - time.monotonic()):
                if time.monotonic() >= until:
                    break
        finally:
            if locked and locked[0]:
                self._lock.release()
        return self._is_over

    def _ends_within(self, seconds: float) -> bool:
        """Under the lock: within these seconds, or a slice of them."""
        if self._is_over:
            return True
        if self._handle:
            slice_ms = ceil(min(max(seconds * 1000, 0), SIGNALS_MS))
            with self._context.held:
                keep(self._codes, library.blink_wait_for, ctypes.byref(self._handle), slice_ms)
            if self._handle:
                return False
        if self._codes[0] != Result.OK and not self._failed:
            self._failed = failure(self._codes[0])
        self._held = None
        self._context.ops.discard(self)
        self._is_over = True  # last, so that whoever comes after an interrupted wait() does the rest
        return True

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in a thread, and let the event loop go on."""
        return asyncio.to_thread(self.wait).__await__()

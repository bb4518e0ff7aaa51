"""Communicators and their collectives."""
import ctypes
import threading
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional, Sequence, Union

from ._abi import Algorithm, CommConfig, Datatype, NO_COLOR, Op, UniqueId
from ._buffers import Buffer, buffer_of
from ._context import Context, Pending, shared
from ._errors import call, failure

_thread = threading.local()

#: How long closing a communicator waits for the calls of other threads.
CLOSE_S = 5


class _Calls:
    """with calls: a call of the communicator is under way. ValueError if it is closed."""

    def __init__(self, comm: "Communicator") -> None:
        self._comm = comm
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._comm.check_open()
            self._comm.context.hold()
            self._count += 1

    def __exit__(self, *_: Any) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()
        self._comm.context.release()

    def end(self) -> Optional[ctypes.c_void_p]:
        """Take the handle away and wait, but not for ever, until there is no call: the handle then."""
        with self._changed:
            handle, self._comm._handle = self._comm._handle, None
            return handle if self._changed.wait_for(lambda: self._count == 0, CLOSE_S) else None


class Group:
    """Submissions of this thread between entering and leaving are one op, in which any order of sends and
    receives works. Leaving waits for the op, unless wait=False; `op` has it then."""

    def __init__(self, wait: bool = True) -> None:
        self._wait = wait
        self._held: List[Any] = []
        self._has_streams = False
        self._contexts: List[Context] = []  # which stay until the group has been left
        self.op: Optional[Pending] = None

    def keep(self, context: Context, held: Any, on_stream: bool) -> None:
        if context not in self._contexts:
            context.hold()
            self._contexts.append(context)
        self._held.append(held)
        self._has_streams |= on_stream

    def __enter__(self) -> "Group":
        self._outer = getattr(_thread, "group", None)
        call("blink_group_start")
        _thread.group = self
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        _thread.group = self._outer
        try:
            if kind:
                _fail_group()
            elif any(context.is_closed for context in self._contexts):
                _fail_group()
                raise ValueError("the context is closed")
            elif self._outer or not self._contexts or self._has_streams:
                self._leave()
            else:
                self._submit(self._contexts[0])
        finally:
            for context in self._contexts:
                context.release()

    def _leave(self) -> None:
        """Without an op of its own: it is in the group around it, on streams, or empty."""
        call("blink_group_end", None if self._has_streams else ctypes.byref(ctypes.c_void_p()))
        for context in self._contexts if self._outer else []:
            self._outer.keep(context, self._held, self._has_streams)

    def _submit(self, context: Context) -> None:
        handle = ctypes.c_void_p()
        op = Pending(context, handle, self._held, None)
        op.submit(call, "blink_group_end", ctypes.byref(handle))
        if handle:
            self.op = op
            if self._wait:
                op.wait()


def _fail_group() -> None:
    """A call that fails in a group fails it, so that nothing of it is submitted."""
    try:
        call("blink_barrier", None, None)
    except ValueError:
        pass
    try:
        call("blink_group_end", ctypes.byref(ctypes.c_void_p()))
    except ValueError:
        pass


def group(wait: bool = True) -> Group:
    """`with blink.group():`"""
    return Group(wait)


def _milliseconds(seconds: Optional[float]) -> int:
    """None: the daemon's setting, which is 0 in C. A time beyond C's 32 bits is the longest within them."""
    return 0 if seconds is None else int(min(max(seconds * 1000, 1), 0xFFFFFFFF))


def _config(device: int, algorithm: Union[str, Algorithm], op_timeout: Optional[float],
            init_timeout: Optional[float], name: Optional[str]) -> CommConfig:
    return CommConfig(ctypes.sizeof(CommConfig), device, _named(Algorithm, algorithm),
                      _milliseconds(op_timeout), _milliseconds(init_timeout),
                      name.encode() if name is not None else None)


def _named(kind: Any, value: Any) -> int:
    if isinstance(value, str) and value not in kind.__members__:
        raise ValueError(f"{value!r} is none of {', '.join(kind.__members__)}")
    return kind[value] if isinstance(value, str) else value


def _op(op: Union[str, Op]) -> int:
    return _named(Op, op)


class Communicator:
    """One rank of a communicator. Waits until all ranks have joined.

    Times are seconds; None: the daemon's setting. Collectives take arrays that lie in one piece: NumPy's, and
    all that has the buffer protocol, DLPack or __cuda_array_interface__. All ranks make the same calls in the
    same order. A call waits until the op has ended and returns the array with the result; with wait=False it
    returns a Pending, in a group None, and with stream=S, a CUDA stream as a number, the array, whose
    elements are there when the stream has come to them."""

    def __init__(self, context: Context, id: bytes, size: int, rank: int, *, device: int = -1,
                 algorithm: Union[str, Algorithm] = "auto", op_timeout: Optional[float] = None,
                 init_timeout: Optional[float] = None, name: Optional[str] = None) -> None:
        handle = ctypes.c_void_p()
        config = _config(device, algorithm, op_timeout, init_timeout, name)
        if len(id) != ctypes.sizeof(UniqueId):
            raise ValueError(f"an id has {ctypes.sizeof(UniqueId)} bytes, not {len(id)}")
        with context.held:
            call("blink_comm_init_rank", context.handle, ctypes.byref(UniqueId.from_buffer_copy(id)), size,
                 rank, ctypes.byref(config), ctypes.byref(handle))
        self._adopt(context, handle, name)

    def _adopt(self, context: Context, handle: ctypes.c_void_p, name: Optional[str]) -> None:
        self.context, self.name = context, name
        self._handle: Optional[ctypes.c_void_p] = handle
        self._calls = _Calls(self)
        self.rank = self._ask("blink_comm_rank")
        self.size = self._ask("blink_comm_size")
        self.device = self._ask("blink_comm_device")

    @classmethod
    def _made(cls, context: Context, handle: ctypes.c_void_p, name: Optional[str]) -> "Communicator":
        made = cls.__new__(cls)
        made._adopt(context, handle, name)
        return made

    def check_open(self) -> None:
        if not self._handle:
            raise ValueError("the communicator is closed")
        self.context.check_open()  # which has freed the handle

    @property
    def handle(self) -> ctypes.c_void_p:
        self.check_open()
        return self._handle

    def _call(self, function: str, *arguments: Any) -> None:
        """What takes the communicator first."""
        with self._calls:
            call(function, self.handle, *arguments)

    def _ask(self, function: str) -> int:
        number = ctypes.c_int()
        self._call(function, ctypes.byref(number))
        return number.value

    # ---- life ----

    def split(self, color: Optional[int], key: int = 0) -> Optional["Communicator"]:
        """A communicator of the ranks that give the same color, ordered by key; None: take no part."""
        handle = ctypes.c_void_p()
        self._call("blink_comm_split", NO_COLOR if color is None else color, key, None, ctypes.byref(handle))
        return Communicator._made(self.context, handle, self.name) if handle else None

    def shrink(self) -> "Communicator":
        """A communicator of the ranks that are still there, after others were lost, or this one was aborted.
        Only those that are there call; this one remains to be closed."""
        handle = ctypes.c_void_p()
        self._call("blink_comm_shrink", None, ctypes.byref(handle))
        return Communicator._made(self.context, handle, self.name)

    def set_timeout(self, op_timeout: Optional[float]) -> None:
        """How long ops may wait for ranks from now on. All ranks call it."""
        self._call("blink_comm_set_timeout", _milliseconds(op_timeout))

    def abort(self) -> None:
        """End the communicator for all ranks: their ops fail with Aborted."""
        self._call("blink_comm_abort")

    def check(self) -> None:
        """Raise what has ended the communicator, if something has."""
        result = ctypes.c_int()
        self._call("blink_comm_async_error", ctypes.byref(result))
        if result.value:
            raise failure(result.value)

    def close(self) -> None:
        """Leave. Waits for this rank's ops, and for calls of other threads. Does nothing after the context's
        close(), nor while a call of another thread does not return."""
        handle = None if self.context.is_inherited else self._calls.end()
        if handle and not self.context.is_closed:
            with self.context.held:
                call("blink_comm_destroy", handle)
                self.context.forget_ended()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind and self._handle and not self.context.is_closed:
            self.abort()  # the other ranks need not find out by waiting
        self.close()

    # ---- collectives ----

    def submit(self, function: str, arguments: Sequence[Any], held: Any, result: Any, wait: bool,
               stream: Optional[int]) -> Any:
        """Call a collective of C by its name, with all its arguments up to the communicator. What the
        methods below do with arrays; packages for other arrays have this. `held` keeps the memory alive."""
        inside = getattr(_thread, "group", None)
        if inside:
            inside.keep(self.context, held, stream is not None)
        with self._calls:
            if stream is not None:
                call(function + "_on", *arguments, self.handle, stream)
                return None if inside else result
            if inside:
                call(function, *arguments, self.handle, None)
                return None
            handle = ctypes.c_void_p()
            pending = Pending(self.context, handle, held, result)
            pending.submit(call, function, *arguments, self.handle, ctypes.byref(handle))
        return pending.wait() if wait else pending

    @contextmanager
    def weighted_sum(self, scalar: bytes, datatype: Datatype) -> Iterator[int]:
        """An operator for submit(): multiplies by the scalar, one element's bytes, and adds. It is there
        until `with` is left; ops that were submitted before keep it."""
        redop = ctypes.c_int()
        self._call("blink_redop_create_pre_mul_sum", scalar, datatype, ctypes.byref(redop))
        try:
            yield redop.value
        finally:
            self._call("blink_redop_destroy", redop)

    def _exchange(self, function: str, x: Any, out: Any, more: Sequence[int], blocks: Sequence[int],
                  wait: bool, stream: Optional[int]) -> Any:
        """From x to out; `blocks`: how many blocks of a rank's elements each has. None: it has none here."""
        recv = buffer_of(out, True)
        send = recv if x is out else buffer_of(x, False)
        count = _block(function, send, recv, blocks)
        datatype = (send if x is not None else recv).datatype
        return self.submit(function, [send.address, recv.address, count, datatype, *more],
                            (send.held, recv.held), out if out is not None else x, wait, stream)

    def all_reduce(self, x: Any, out: Any = None, op: Union[str, Op] = "sum", *, wait: bool = True,
                   stream: Optional[int] = None) -> Any:
        """out = x of rank 0 + x of rank 1 + …, on every rank; without `out` in place."""
        return self._exchange("blink_all_reduce", x, x if out is None else out, [_op(op)], (1, 1), wait,
                              stream)

    def broadcast(self, x: Any, root: int = 0, *, wait: bool = True, stream: Optional[int] = None) -> Any:
        """x of the root, on every rank."""
        return self._exchange("blink_broadcast", x if self.rank == root else None, x, [root], (1, 1), wait,
                              stream)

    def reduce(self, x: Any, out: Any = None, root: int = 0, op: Union[str, Op] = "sum", *, wait: bool = True,
               stream: Optional[int] = None) -> Any:
        """As all_reduce(), on the root alone."""
        recv = None if self.rank != root else x if out is None else out
        return self._exchange("blink_reduce", x, recv, [_op(op), root], (1, 1), wait, stream)

    def all_gather(self, x: Any, out: Any, *, wait: bool = True, stream: Optional[int] = None) -> Any:
        """out = x of rank 0, x of rank 1, …, on every rank."""
        return self._exchange("blink_all_gather", x, out, [], (1, self.size), wait, stream)

    def reduce_scatter(self, x: Any, out: Any, op: Union[str, Op] = "sum", *, wait: bool = True,
                       stream: Optional[int] = None) -> Any:
        """out = this rank's block of the sum of all ranks' x."""
        return self._exchange("blink_reduce_scatter", x, out, [_op(op)], (self.size, 1), wait, stream)

    def gather(self, x: Any, out: Any = None, root: int = 0, *, wait: bool = True,
               stream: Optional[int] = None) -> Any:
        """As all_gather(), on the root alone; the others need no `out`."""
        return self._exchange("blink_gather", x, out if self.rank == root else None, [root], (1, self.size),
                              wait, stream)

    def scatter(self, x: Any, out: Any, root: int = 0, *, wait: bool = True,
                stream: Optional[int] = None) -> Any:
        """out = this rank's block of the root's x; the others need no x."""
        return self._exchange("blink_scatter", x if self.rank == root else None, out, [root], (self.size, 1),
                              wait, stream)

    def all_to_all(self, x: Any, out: Any, *, wait: bool = True, stream: Optional[int] = None) -> Any:
        """Block i of out = this rank's block of x of rank i."""
        return self._exchange("blink_all_to_all", x, out, [], (self.size, self.size), wait, stream)

    def _exchange_blocks(self, function: str, x: Any, send_counts: Optional[Sequence[int]], out: Any,
                         recv_counts: Optional[Sequence[int]], more: Sequence[int], wait: bool,
                         stream: Optional[int]) -> Any:
        """From x to out, either of which has a block of every rank, one behind the other, if counts say how
        long they are, else one block."""
        recv = buffer_of(out, True)
        send = recv if x is out else buffer_of(x, False)
        _check_types(function, send, recv)
        return self.submit(function, [*self._blocks(send, send_counts), *self._blocks(recv, recv_counts),
                                       (send if x is not None else recv).datatype, *more],
                            (send.held, recv.held), out if out is not None else x, wait, stream)

    def _blocks(self, buffer: Buffer, counts: Optional[Sequence[int]]) -> Sequence[Any]:
        """How C is told."""
        if counts is None:
            return buffer.address, buffer.elements
        if len(counts) != self.size or sum(counts) > buffer.elements or min(counts) < 0:
            raise ValueError(f"{counts} are not {self.size} counts of together at most {buffer.elements}")
        sizes = ctypes.c_size_t * self.size
        return buffer.address, sizes(*counts), sizes(*_places(counts))

    def _only_at(self, root: int, x: Any, counts: Optional[Sequence[int]]) -> Any:
        """Of the other ranks C reads neither."""
        if self.rank == root and counts is None:
            raise ValueError("counts are needed on the root")
        return (x, counts) if self.rank == root else (None, [0] * self.size)

    def all_to_all_v(self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], *,
                     wait: bool = True, stream: Optional[int] = None) -> Any:
        """As all_to_all() with blocks of any length, one behind the other: send_counts[i] elements to rank i,
        recv_counts[i] from it."""
        return self._exchange_blocks("blink_all_to_all_v", x, send_counts, out, recv_counts, [], wait, stream)

    def all_gather_v(self, x: Any, out: Any, counts: Sequence[int], *, wait: bool = True,
                     stream: Optional[int] = None) -> Any:
        """As all_gather(), with counts[i] elements of rank i; all ranks give the same counts."""
        return self._exchange_blocks("blink_all_gather_v", x, None, out, counts, [], wait, stream)

    def reduce_scatter_v(self, x: Any, counts: Sequence[int], out: Any, op: Union[str, Op] = "sum", *,
                         wait: bool = True, stream: Optional[int] = None) -> Any:
        """As reduce_scatter(), with counts[i] elements for rank i; all ranks give the same counts."""
        return self._exchange_blocks("blink_reduce_scatter_v", x, counts, out, None, [_op(op)], wait, stream)

    def gather_v(self, x: Any, out: Any = None, counts: Optional[Sequence[int]] = None, root: int = 0, *,
                 wait: bool = True, stream: Optional[int] = None) -> Any:
        """As gather(), with counts[i] elements of rank i; `out` and counts are needed on the root alone."""
        recv, recv_counts = self._only_at(root, out, counts)
        return self._exchange_blocks("blink_gather_v", x, None, recv, recv_counts, [root], wait, stream)

    def scatter_v(self, x: Any, counts: Optional[Sequence[int]], out: Any, root: int = 0, *,
                  wait: bool = True, stream: Optional[int] = None) -> Any:
        """As scatter(), with counts[i] elements for rank i; x and counts are needed on the root alone."""
        send, send_counts = self._only_at(root, x, counts)
        return self._exchange_blocks("blink_scatter_v", send, send_counts, out, None, [root], wait, stream)

    def send(self, x: Any, peer: int, *, wait: bool = True, stream: Optional[int] = None) -> Any:
        """To another rank, which receives it."""
        buffer = buffer_of(x, False)
        return self.submit("blink_send", [buffer.address, buffer.elements, buffer.datatype, peer],
                            buffer.held, x, wait, stream)

    def recv(self, out: Any, peer: int, *, wait: bool = True, stream: Optional[int] = None) -> Any:
        """From another rank, which sends it."""
        buffer = buffer_of(out, True)
        return self.submit("blink_recv", [buffer.address, buffer.elements, buffer.datatype, peer],
                            buffer.held, out, wait, stream)

    def barrier(self, *, wait: bool = True, stream: Optional[int] = None) -> Any:
        """Until all ranks have come here."""
        return self.submit("blink_barrier", [], None, None, wait, stream)


def _places(counts: Sequence[int]) -> Any:
    place = 0
    for count in counts:
        yield place
        place += count


def _check_types(function: str, send: Buffer, recv: Buffer) -> None:
    """C is told one type."""
    if send.held is not None and recv.held is not None and send.datatype != recv.datatype:
        raise TypeError(f"{function}: x has {send.datatype.name}, out {recv.datatype.name}")


def _fitting(send: Buffer, blocks: Sequence[int]) -> str:
    """What out should have, in words."""
    if send.held is None or send.elements % blocks[0]:
        return f"{blocks[1]} equal blocks, and x {blocks[0]} as long as those"
    return str(send.elements // blocks[0] * blocks[1])


def _block(function: str, send: Buffer, recv: Buffer, blocks: Sequence[int]) -> int:
    """Elements of one block. C is told one count, so it cannot see what is checked here."""
    _check_types(function, send, recv)
    counts = {divmod(buffer.elements, of) for buffer, of in zip((send, recv), blocks)
              if buffer.held is not None}
    if len(counts) != 1 or (result := counts.pop())[1]:
        raise ValueError(f"{function}: x has {send.elements} elements and out {recv.elements}, where out "
                         f"should have {_fitting(send, blocks)}")
    return result[0]


def init(*, device: int = -1, algorithm: Union[str, Algorithm] = "auto", op_timeout: Optional[float] = None,
         init_timeout: Optional[float] = None, name: Optional[str] = None,
         context: Optional[Context] = None) -> Communicator:
    """A communicator of all ranks that blinkrun, torchrun, srun, mpirun or mpiexec has started."""
    handle = ctypes.c_void_p()
    used = context or shared()
    config = _config(device, algorithm, op_timeout, init_timeout, name)
    with used.held:
        call("blink_comm_init_launched", used.handle, ctypes.byref(config), ctypes.byref(handle))
    return Communicator._made(used, handle, name)

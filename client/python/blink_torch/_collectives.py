"""torch's collectives as those of a communicator of the daemon."""
import ctypes
from contextlib import contextmanager
from datetime import timedelta
from itertools import accumulate
from math import inf
from typing import Any, Iterator, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Backend

import blink

from ._errors import translated
from ._types import Elements, check, check_reduces, elements_in, operator
from ._work import Completer, Job, Work, begin_span, end_span

Tensors = List[torch.Tensor]


def _c_sizes(numbers: Sequence[int]) -> Any:
    return (ctypes.c_size_t * len(numbers))(*numbers)


def _blocks(counts: Sequence[int]) -> Sequence[Any]:
    """Blocks that lie one behind the other, as C wants them told: their lengths and places."""
    return _c_sizes(counts), _c_sizes([0, *accumulate(counts)][:-1])


class Collectives(Backend):
    """What needs only a communicator, which the class below this one has."""

    comm: blink.Communicator
    limit_s: float

    def __init__(self, rank: int, size: int, name: str) -> None:
        super().__init__(rank, size)
        self._where = f"on rank {rank} of process group {name}"
        self._sequence = 0
        self._batch: Optional[List[Job]] = None
        self._completer = Completer()

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        pass

    # ---- jobs ----

    def _job(self, name: str, timeout: timedelta = timedelta(0)) -> Job:
        """`timeout`: this call's own; not positive: it has none."""
        self._sequence += 1
        limit = timeout.total_seconds()
        job = Job(f"{name} {self._where}", limit if 0 < limit < self.limit_s else inf)
        job.span = begin_span(f"blink:{name}")
        return job

    def _work(self, job: Job, results: Tensors, completer: Optional[Completer] = None) -> Work:
        """torch's handle of a job to which nothing is added any more."""
        if self._batch is not None:
            self._batch.append(job)
        end_span(job.span)
        return Work([job], results, completer or self._completer)

    @property
    def supports_coalescing(self) -> bool:
        return True

    def start_coalescing(self) -> None:
        self._batch = []

    def end_coalescing(self) -> Work:
        jobs, self._batch = self._batch or [], None
        return Work(jobs, [], Completer())

    @contextmanager
    def _as_one_op(self, job: Job) -> Iterator[None]:
        with translated(job.doing), blink.group(wait=False) as group:
            yield
        if group.op:
            job.add(group.op)

    # ---- of whole tensors ----

    def _reduce(self, job: Job, op: Any, dtype: torch.dtype, function: str, arguments: Sequence[Any],
                root: Sequence[int], *held: Elements) -> None:
        with operator(self.comm, op, dtype) as redop:
            job.submit(self.comm, function, [*arguments, redop, *root], *held)

    def _all_reduce(self, job: Job, tensors: Tensors, opts: Any) -> None:
        for tensor in tensors:
            check(tensor)
            check_reduces(opts.reduceOp.op, tensor.dtype)
        for tensor in tensors:
            x = job.write(tensor, reads=True)
            self._reduce(job, opts.reduceOp, tensor.dtype, "blink_all_reduce",
                         [x.address, x.address, x.count, x.datatype], (), x)

    def allreduce(self, tensors: Tensors, opts: Any) -> Work:
        job = self._job("all_reduce", opts.timeout)
        self._all_reduce(job, tensors, opts)
        return self._work(job, tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        job = self._job("all_reduce_coalesced", opts.timeout)
        with self._as_one_op(job):
            self._all_reduce(job, tensors, opts)
        return self._work(job, tensors)

    def allreduce_sparse(self, tensors: Tensors, opts: Any) -> Work:
        return self.allreduce(tensors, opts)  # which says what to do instead

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        job = self._job("reduce", opts.timeout)
        is_root = self.rank() == opts.rootRank
        for tensor in tensors:
            check(tensor)
            check_reduces(opts.reduceOp.op, tensor.dtype)
            x = job.write(tensor, reads=True) if is_root else job.read(tensor)
            self._reduce(job, opts.reduceOp, tensor.dtype, "blink_reduce",
                         [x.address, x.address if is_root else None, x.count, x.datatype], [opts.rootRank], x)
        return self._work(job, tensors)

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        job = self._job("broadcast", opts.timeout)
        is_root = self.rank() == opts.rootRank
        for tensor in tensors:
            x = job.read(tensor) if is_root else job.write(tensor)
            job.submit(self.comm, "blink_broadcast",
                       [x.address if is_root else None, x.address, x.count, x.datatype, opts.rootRank], x)
        return self._work(job, tensors)

    def barrier(self, opts: Any) -> Work:
        job = self._job("barrier", opts.timeout)
        job.submit(self.comm, "blink_barrier", [])
        return self._work(job, [])

    # ---- of blocks: one tensor for each rank, or one for all ----

    def _check_types(self, what: str, *tensors: torch.Tensor) -> None:
        types = sorted({str(tensor.dtype) for tensor in tensors})
        if len(types) > 1:
            raise TypeError(f"{what}: tensors of {' and '.join(types)}, which must be one type")

    def _counts(self, what: str, tensors: Tensors, like: torch.Tensor) -> List[int]:
        """Of a list of one tensor for each rank: elements as the daemon counts them."""
        if len(tensors) != self.size():
            raise ValueError(f"{what}: {len(tensors)} tensors for {self.size()} ranks")
        self._check_types(what, like, *tensors)
        return [tensor.numel() * elements_in(like.dtype) for tensor in tensors]

    def _check_whole(self, what: str, whole: torch.Tensor, block: torch.Tensor) -> None:
        self._check_types(what, whole, block)
        if whole.numel() != self.size() * block.numel():
            raise ValueError(f"{what}: of the two tensors one must have {self.size()} times the elements of "
                             f"the other, for {self.size()} ranks, but they have {whole.numel()} and "
                             f"{block.numel()}")

    def _check_own(self, what: str, counts: Sequence[int], own: Elements) -> None:
        if counts[self.rank()] != own.count:
            raise ValueError(f"{what}: rank {self.rank()}'s own block has {own.count} elements on one side "
                             f"and {counts[self.rank()]} on the other")

    def _gather(self, job: Job, name: str, own: torch.Tensor, parts: Optional[Tensors],
                root: Sequence[int]) -> None:
        """From each rank's own tensor to `parts`, which are None where this rank is not the root."""
        send = job.read(own)
        if parts is None:
            arguments = [send.address, None, send.count, send.datatype]
            job.submit(self.comm, f"blink_{name}", [*arguments, *root], send)
            return
        counts = self._counts(name, parts, own)
        self._check_own(name, counts, send)
        recv = job.write_all(parts)
        if min(counts) == max(counts):
            arguments = [send.address, recv.address, send.count, send.datatype]
            job.submit(self.comm, f"blink_{name}", [*arguments, *root], send, recv)
        elif root:
            raise ValueError(f"{name}: the tensors for the ranks have different lengths, {counts}")
        else:
            arguments = [send.address, send.count, recv.address, *_blocks(counts), send.datatype]
            job.submit(self.comm, f"blink_{name}_v", arguments, send, recv)

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> Work:
        job = self._job("all_gather", opts.timeout)
        for own, parts in zip(inputs, outputs):
            self._gather(job, "all_gather", own, parts, ())
        return self._work(job, [part for parts in outputs for part in parts])

    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> Work:
        """`outputs`: a list for each rank."""
        job = self._job("all_gather_coalesced", opts.timeout)
        with self._as_one_op(job):
            for own, *parts in zip(inputs, *outputs):
                self._gather(job, "all_gather", own, parts, ())
        return self._work(job, [part for parts in outputs for part in parts])

    def _all_gather_single(self, job: Job, output: torch.Tensor, own: torch.Tensor) -> None:
        self._check_whole("all_gather_single", output, own)
        send, recv = job.read(own), job.write(output)
        job.submit(self.comm, "blink_all_gather", [send.address, recv.address, send.count, send.datatype],
                   send, recv)

    def all_gather_single(self, output: torch.Tensor, own: torch.Tensor, opts: Any) -> Work:
        job = self._job("all_gather_single", opts.timeout)
        self._all_gather_single(job, output, own)
        return self._work(job, [output])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        job = self._job("all_gather_single_coalesced", opts.timeout)
        with self._as_one_op(job):
            for output, own in zip(outputs, inputs):
                self._all_gather_single(job, output, own)
        return self._work(job, outputs)

    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> Work:
        job = self._job("gather", opts.timeout)
        is_root = self.rank() == opts.rootRank
        self._gather(job, "gather", inputs[0], outputs[0] if is_root else None, [opts.rootRank])
        return self._work(job, outputs[0] if is_root else [])

    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Work:
        job = self._job("scatter", opts.timeout)
        recv = job.write(outputs[0])
        if self.rank() != opts.rootRank:
            job.submit(self.comm, "blink_scatter",
                       [None, recv.address, recv.count, recv.datatype, opts.rootRank], recv)
            return self._work(job, outputs)
        counts = self._counts("scatter", inputs[0], outputs[0])
        self._check_own("scatter", counts, recv)
        if min(counts) != max(counts):
            raise ValueError(f"scatter: the tensors for the ranks have different lengths, {counts}")
        send = job.read_all(inputs[0])
        job.submit(self.comm, "blink_scatter",
                   [send.address, recv.address, recv.count, recv.datatype, opts.rootRank], send, recv)
        return self._work(job, outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Work:
        job = self._job("reduce_scatter", opts.timeout)
        for output, parts in zip(outputs, inputs):
            check_reduces(opts.reduceOp.op, output.dtype)
            counts = self._counts("reduce_scatter", parts, output)
            send, recv = job.read_all(parts), job.write(output)
            self._check_own("reduce_scatter", counts, recv)
            if min(counts) == max(counts):
                self._reduce(job, opts.reduceOp, output.dtype, "blink_reduce_scatter",
                             [send.address, recv.address, recv.count, recv.datatype], (), send, recv)
            else:
                self._reduce(job, opts.reduceOp, output.dtype, "blink_reduce_scatter_v",
                             [send.address, *_blocks(counts), recv.address, recv.count, recv.datatype], (),
                             send, recv)
        return self._work(job, outputs)

    def _reduce_scatter_single(self, job: Job, output: torch.Tensor, whole: torch.Tensor, op: Any) -> None:
        self._check_whole("reduce_scatter_single", whole, output)
        check_reduces(op.op, output.dtype)
        send, recv = job.read(whole), job.write(output)
        self._reduce(job, op, output.dtype, "blink_reduce_scatter",
                     [send.address, recv.address, recv.count, recv.datatype], (), send, recv)

    def reduce_scatter_single(self, output: torch.Tensor, whole: torch.Tensor, opts: Any) -> Work:
        job = self._job("reduce_scatter_single", opts.timeout)
        self._reduce_scatter_single(job, output, whole, opts.reduceOp)
        return self._work(job, [output])

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        job = self._job("reduce_scatter_single_coalesced", opts.timeout)
        with self._as_one_op(job):
            for output, whole in zip(outputs, inputs):
                self._reduce_scatter_single(job, output, whole, opts.reduceOp)
        return self._work(job, outputs)

    # ---- all to all ----

    def _all_to_all(self, job: Job, recv: Elements, recv_counts: Sequence[int], send: Elements,
                    send_counts: Sequence[int]) -> None:
        """Told block by block, for one rank does not know whether the blocks of all others are equal."""
        job.submit(self.comm, "blink_all_to_all_v",
                   [send.address, *_blocks(send_counts), recv.address, *_blocks(recv_counts), send.datatype],
                   send, recv)

    def _split(self, what: str, tensor: torch.Tensor, rows: Sequence[int]) -> List[int]:
        """How many elements each rank's rows have."""
        if not rows:
            if tensor.dim() == 0 or tensor.shape[0] % self.size():
                raise ValueError(f"all_to_all_single: the {what} has the shape {tuple(tensor.shape)}, whose "
                                 f"first dimension is no multiple of {self.size()} ranks: give "
                                 f"{what}_split_sizes")
            rows = [tensor.shape[0] // self.size()] * self.size()
        if len(rows) != self.size() or sum(rows) != tensor.shape[0] or min(rows) < 0:
            raise ValueError(f"all_to_all_single: {what}_split_sizes {list(rows)} are not {self.size()} "
                             f"numbers of together {tensor.shape[0]} rows")
        row = tensor[0].numel() if tensor.shape[0] else 0
        return [count * row * elements_in(tensor.dtype) for count in rows]

    def all_to_all_single(self, output: torch.Tensor, whole: torch.Tensor, output_rows: Sequence[int],
                          input_rows: Sequence[int], opts: Any) -> Work:
        job = self._job("all_to_all_single", opts.timeout)
        self._check_types("all_to_all_single", output, whole)
        send, recv = job.read(whole), job.write(output)
        if not output_rows and not input_rows and send.count == recv.count:
            count = self._split("input", whole, ())[0]
            job.submit(self.comm, "blink_all_to_all", [send.address, recv.address, count, send.datatype],
                       send, recv)
        else:
            self._all_to_all(job, recv, self._split("output", output, output_rows), send,
                             self._split("input", whole, input_rows))
        return self._work(job, [output])

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        job = self._job("all_to_all", opts.timeout)
        recv_counts = self._counts("all_to_all", outputs, inputs[0])
        send_counts = self._counts("all_to_all", inputs, inputs[0])
        self._all_to_all(job, job.write_all(outputs), recv_counts, job.read_all(inputs), send_counts)
        return self._work(job, outputs)

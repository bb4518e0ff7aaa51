"""What programs of nccl4py do, NVIDIA's own package of NCCL for Python: scenarios that ranks play against a
running daemon, as processes or, all in one, as threads. A rank whose expectation fails ends its process with
status 1.

    nccl4py_ranks.py SCENARIO RANKS [threads]    (the daemon's socket is in BLINK_SOCKET)
"""
import os
import signal
import sys
import threading
import time
import traceback

import ml_dtypes
import nccl.core as nccl
import numpy as np
from cuda.bindings import driver
from cuda.core import Device
from nccl.bindings import nccl as calls

#: Elements of a block. A collective has up to one block for each rank.
COUNT = 96
LOOK_S = 0.001

TYPES = {nccl.INT8: np.int8, nccl.UINT8: np.uint8, nccl.INT32: np.int32, nccl.UINT32: np.uint32,
         nccl.INT64: np.int64, nccl.UINT64: np.uint64, nccl.FLOAT16: np.float16, nccl.FLOAT32: np.float32,
         nccl.FLOAT64: np.float64, nccl.BFLOAT16: ml_dtypes.bfloat16,
         nccl.FLOAT8E4M3: ml_dtypes.float8_e4m3fn, nccl.FLOAT8E5M2: ml_dtypes.float8_e5m2}

OPERATORS = {nccl.SUM: np.sum, nccl.PROD: np.prod, nccl.MAX: np.max, nccl.MIN: np.min, nccl.AVG: np.mean}


def must(result, *values):
    """The values of a call of the driver."""
    assert result == driver.CUresult.CUDA_SUCCESS, result
    return values


class Array:
    """Elements in a GPU's memory, shown as CuPy and others show theirs."""

    def __init__(self, address, count, dtype=np.int32):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": np.dtype(dtype).str, "strides": None,
                                         "data": (address, False), "version": 3}


class Rank:
    """One rank, its GPU, and memory on it: some of ncclMemAlloc() and some of CUDA's pool."""

    def __init__(self, rank, size, ids, comm=None):
        self.rank, self.size, self.ids = rank, size, ids
        self.device = Device(rank)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.comm = comm or nccl.Communicator.init(size, rank, ids[0])
        self.buffers = [nccl.mem_alloc(8 * size * COUNT),
                        self.device.allocate(8 * size * COUNT, stream=self.stream)]
        self.stream.sync()
        self.memory = [int(buffer.handle) for buffer in self.buffers]

    def write(self, address, values):
        must(*driver.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes))

    def read(self, address, count, dtype):
        """What is there once the stream has come to its end."""
        self.stream.sync()
        values = np.empty(count, dtype)
        must(*driver.cuMemcpyDtoH(values.ctypes.data, address, values.nbytes))
        return values

    def submit_sum(self, comm, address):
        self.write(address, np.full(COUNT, comm.rank + 1, np.int32))
        comm.allreduce(Array(address, COUNT), Array(address, COUNT), nccl.SUM, stream=self.stream)

    def check_sum(self, comm, address):
        expected = comm.nranks * (comm.nranks + 1) // 2
        assert (self.read(address, COUNT, np.int32) == expected).all()
        assert comm.get_async_error() == calls.Result.Success

    def sum_works(self, comm):
        self.submit_sum(comm, self.memory[0])
        self.check_sum(comm, self.memory[0])


# ---- collectives: all calls of the library, for all types and operators ----

class Round:
    """All collectives of one type, from `source` to `target`, which are the same in place."""

    def __init__(self, rank, kind, source, target):
        self.r, self.kind, self.source, self.target = rank, kind, source, target
        self.root = kind % rank.size
        self.dtype = np.dtype(TYPES[kind])
        self.block = COUNT * self.dtype.itemsize
        self.tail = rank.comm.ptr, int(rank.stream.handle)
        # By rank: what it gives. Of ones and twos all results are exact even in 8 bits.
        elements = np.arange(rank.size * COUNT)
        self.given = np.array([1 + (elements >> each & 1) for each in range(rank.size)], np.float64)
        self.own = slice(rank.rank * COUNT, (rank.rank + 1) * COUNT)

    def own_block(self, address):
        return address + self.r.rank * self.block

    def give(self, address, part=slice(None)):
        self.r.write(address, self.given[self.r.rank, part].astype(self.dtype))

    def expect(self, what, address, values):
        found = self.r.read(address, len(values), self.dtype)
        assert (found == values.astype(self.dtype)).all(), (what, self.kind.name, found, values)

    def reduce(self, redop, results):
        operator = COUNT, self.kind, redop
        self.give(self.source)
        calls.all_reduce(self.source, self.target, *operator, *self.tail)
        self.expect("all_reduce", self.target, results[:COUNT])
        self.give(self.source)
        calls.reduce(self.source, self.target, *operator, self.root, *self.tail)
        self.expect("reduce", self.target, results[:COUNT if self.r.rank == self.root else 0])
        target = self.own_block(self.source) if self.source == self.target else self.target
        self.give(self.source)
        calls.reduce_scatter(self.source, target, *operator, *self.tail)
        self.expect("reduce_scatter", target, results[self.own])

    def play_reductions(self):
        for redop, operator in OPERATORS.items():
            self.reduce(redop, operator(self.given, axis=0))
        two = np.array([2], self.dtype)
        redop = calls.red_op_create_pre_mul_sum(two.ctypes.data, self.kind, 1, self.r.comm.ptr)
        self.reduce(redop, 2 * self.given.sum(axis=0))
        calls.red_op_destroy(redop, self.r.comm.ptr)

    def play_gathering(self):
        everything = self.given[:, :COUNT].ravel()
        in_place = self.source == self.target
        for gather, root in (calls.all_gather, ()), (calls.gather, (self.root,)):
            source = self.own_block(self.target) if in_place else self.source
            self.give(source, slice(COUNT))
            gather(source, self.target, COUNT, self.kind, *root, *self.tail)
            self.expect(gather.__name__, self.target,
                        everything if self.r.rank in (root or [self.r.rank]) else everything[:0])

    def play_moves(self):
        rest = COUNT, self.kind, self.root, *self.tail
        self.give(self.source)
        calls.broadcast(self.source, self.target, *rest)
        self.expect("broadcast", self.target, self.given[self.root, :COUNT])
        self.give(self.source)
        calls.bcast(self.source, *rest)
        self.expect("bcast", self.source, self.given[self.root, :COUNT])
        self.give(self.source)
        at_root = self.source == self.target and self.r.rank == self.root
        target = self.own_block(self.source) if at_root else self.target
        calls.scatter(self.source, target, *rest)
        self.expect("scatter", target, self.given[self.root, self.own])

    def play_exchanges(self):
        """These are not in place in NCCL, either."""
        following, previous = (self.r.rank + 1) % self.r.size, self.r.rank - 1
        self.give(self.source)
        calls.allto_all(self.source, self.target, COUNT, self.kind, *self.tail)
        self.expect("allto_all", self.target, self.given[:, self.own].ravel())
        with nccl.group():
            calls.send(self.source, COUNT, self.kind, following, *self.tail)
            calls.recv(self.target, COUNT, self.kind, previous % self.r.size, *self.tail)
        self.expect("send and recv", self.target, self.given[previous, :COUNT])


def collectives(r):
    for kind in TYPES:
        source, target = r.memory if kind % 2 else reversed(r.memory)
        for to in target, source:
            round_ = Round(r, kind, source, to)
            round_.play_reductions()
            round_.play_gathering()
            round_.play_moves()
        Round(r, kind, source, target).play_exchanges()


# ---- communicators ----

def fails(call, *arguments, result, text):
    try:
        call(*arguments)
    except calls.NCCLError as error:
        assert error.status == result, error
        assert text in calls.get_last_error(0), calls.get_last_error(0)
        return
    raise AssertionError(f"{call} did not fail")


def until(comm, passing):
    """What the communicator has come to, when it is no longer that."""
    while comm.get_async_error() == passing:
        time.sleep(LOOK_S)
    return comm.get_async_error()


def properties(r):
    comm = r.comm
    assert (comm.rank, comm.nranks, comm.device.device_id) == (r.rank, r.size, r.rank)
    assert (comm.cuda_dev, comm.n_lsa_teams, comm.device_api_support) == (r.rank, r.size, False)
    assert comm.multimem_support is False and comm.gin_type == nccl.NcclGinType.NONE
    fails(comm.suspend, result=calls.Result.InvalidUsage, text="ncclCommSuspend")
    fails(comm.split, -5, result=calls.Result.InvalidArgument, text="color -5")
    fails(comm.register_window, r.buffers[0], result=calls.Result.InvalidUsage, text="windows")


def resources(r):
    """An operator by a scalar of the host, and by one in the GPU's memory."""
    weight = np.array([3], np.int32)
    r.write(r.memory[1], weight)
    for scalar in weight, Array(r.memory[1], 1):
        redop = r.comm.create_pre_mul_sum(scalar, nccl.INT32)
        r.write(r.memory[0], np.full(COUNT, r.rank, np.int32))
        r.comm.allreduce(Array(r.memory[0], COUNT), Array(r.memory[0], COUNT), redop, stream=r.stream)
        assert (r.read(r.memory[0], COUNT, np.int32) == 3 * r.size * (r.size - 1) // 2).all()
        redop.close()
    handle = r.comm.register_buffer(r.buffers[0])
    r.sum_works(r.comm)
    handle.close()


def split_and_shrunk(r):
    last = r.size - 1
    half = r.comm.split(r.rank % 2, -r.rank)
    assert half.rank == (r.rank < 2), half
    none = r.comm.split(None if r.rank == 0 else 0)
    assert none.is_valid == (r.rank != 0)
    with nccl.group():
        r.submit_sum(r.comm, r.memory[0])
        r.submit_sum(half, r.memory[1])
    r.check_sum(r.comm, r.memory[0])
    r.check_sum(half, r.memory[1])
    if r.rank != last:
        shrunk = r.comm.shrink([last])
        r.sum_works(shrunk)
        shrunk.destroy()
    half.finalize()
    fails(half.finalize, result=calls.Result.InvalidArgument, text="finalized")
    half.destroy()
    none.destroy()


def grown(r):
    """The last rank is new to a communicator of the others, whose first rank makes the id."""
    last = r.size - 1
    old = r.comm.split(None if r.rank == last else 0)
    if r.rank == 0:
        r.write(r.memory[0], np.frombuffer(bytes(old.get_unique_id()), np.uint8))
    calls.bcast(r.memory[0], 128, nccl.UINT8, 0, r.comm.ptr, int(r.stream.handle))
    told = nccl.UniqueId.from_bytes(r.read(r.memory[0], 128, np.uint8).tobytes())
    comm = old.grow(r.size, told if r.rank in (0, last) else None, last if r.rank == last else None)
    old.destroy()
    assert comm.rank == r.rank
    r.sum_works(comm)
    comm.destroy()


def revoked(r):
    comm = r.comm.split(0, r.rank)
    if r.rank == 0:
        comm.revoke()
    else:
        assert until(comm, calls.Result.Success) == calls.Result.RemoteError
    if r.rank != 1:
        shrunk = comm.shrink([1])
        r.sum_works(shrunk)
        shrunk.destroy()
    comm.abort()


def nonblocking(r):
    comm = nccl.Communicator.init(r.size, r.rank, r.ids[1], nccl.NCCLConfig(blocking=False))
    assert until(comm, calls.Result.InProgress) == calls.Result.Success
    r.sum_works(comm)
    half = comm.split(r.rank % 2)
    assert until(comm, calls.Result.InProgress) == calls.Result.Success
    r.sum_works(half)
    with nccl.group():
        comm.finalize()
        half.finalize()
    for each in comm, half:
        assert until(each, calls.Result.InProgress) == calls.Result.Success
        each.destroy()


def aborted(r):
    """Rank 0 submits nothing: a thread of rank 1 ends the waiting of all others."""
    comm = r.comm.split(0, r.rank)
    try:
        if r.rank != 0:
            comm.allreduce(Array(r.memory[0], COUNT), Array(r.memory[0], COUNT), nccl.SUM, stream=r.stream)
    except calls.NCCLError as error:
        assert error.status == calls.Result.RemoteError and r.rank > 1, error  # it may come after the abort
    if r.rank == 1:
        thread = threading.Timer(10 * LOOK_S, comm.abort)
        thread.start()
    r.stream.sync()
    if r.rank == 1:
        thread.join()
    else:
        assert until(comm, calls.Result.Success) == calls.Result.RemoteError
        comm.abort()


def communicators(r):
    for part in properties, resources, split_and_shrunk, grown, revoked, nonblocking, aborted:
        part(r)
        r.sum_works(r.comm)


# ---- the ranks ----

def play(scenario, *arguments):
    """Ends the process if something is not as expected: other ranks would wait for this one."""
    try:
        r = Rank(*arguments)
        scenario(r)
        for buffer in r.buffers:
            buffer.close()
        r.stream.sync()
        r.comm.destroy()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def play_in_processes(scenario, size, ids):
    for rank in range(size):
        if os.fork() == 0:
            play(scenario, rank, size, ids)
            return 0
    return max(os.waitstatus_to_exitcode(os.wait()[1]) != 0 for _ in range(size))


def play_in_threads(scenario, size, ids):
    threads = [threading.Thread(target=play, args=(scenario, rank, size, ids, comm))
               for rank, comm in enumerate(nccl.Communicator.init_all(size))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def main(name, size, *threads):
    signal.alarm(round(120 * float(os.environ.get("BLINK_TEST_TIMEOUT_SCALE", "1"))))  # then it hangs
    ids = [nccl.get_unique_id() for _ in range(2)]
    scenario = {"collectives": collectives, "communicators": communicators}[name]
    return (play_in_threads if threads else play_in_processes)(scenario, int(size), ids)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

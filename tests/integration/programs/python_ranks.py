"""python_ranks.py SCENARIO: the scenarios of test_python.py, each played by all ranks that blinkrun has
started. A rank whose expectation fails ends with status 1."""
import array
import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
import types

import blink


def expect(seen, expected):
    if seen != expected:
        raise AssertionError(f"{seen!r} instead of {expected!r}")


def expect_failure(kind, text, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"{error} does not say {text}") from error
        return error
    raise AssertionError(f"no {kind.__name__}")


def ints(*values):
    return array.array("i", values)


def play_collectives(comm):
    """Plain memory of the standard library. With three ranks."""
    rank, ranks = comm.rank, range(3)
    expect(list(comm.all_reduce(ints(rank, 10))), [3, 30])
    x, out = ints(rank, 10), ints(0, 0)
    if comm.all_reduce(x, out, op="max") is not out:
        raise AssertionError("the result is another array")
    expect((list(x), list(out)), ([rank, 10], [2, 10]))
    expect(list(comm.broadcast(ints(rank + 5), root=1)), [6])
    expect(list(comm.reduce(ints(rank), root=2)), [3 if rank == 2 else rank])
    expect(list(comm.all_gather(ints(rank, -rank), ints(*[7] * 6))), [0, 0, 1, -1, 2, -2])
    expect(list(comm.reduce_scatter(ints(*ranks), ints(0))), [3 * rank])
    gathered = comm.gather(ints(rank), ints(0, 0, 0) if rank == 0 else None)
    expect(list(gathered), [0, 1, 2] if rank == 0 else [rank])
    expect(list(comm.scatter(ints(4, 5, 6) if rank == 1 else None, ints(0), root=1)), [4 + rank])
    expect(list(comm.all_to_all(ints(*[10 * rank + i for i in ranks]), ints(0, 0, 0))),
           [10 * i + rank for i in ranks])
    expect(list(comm.all_to_all_v(ints(*[rank] * 6), [1, 2, 3], ints(*[9] * 3 * (rank + 1)), [rank + 1] * 3)),
           [i for i in ranks for _ in range(rank + 1)])
    play_blocks(comm)
    expect(comm.barrier(), None)
    floats = array.array("d", [rank + 0.5])
    expect(list(comm.all_reduce(floats, op="avg")), [1.5])


def play_blocks(comm):
    """Blocks of different lengths, that of rank 1 empty."""
    rank, counts, everything = comm.rank, [2, 0, 1], [0, 0, 2]
    own = ints(*[rank] * counts[rank])
    expect(list(comm.all_gather_v(own, ints(7, 7, 7), counts)), everything)
    expect(list(comm.reduce_scatter_v(ints(1, rank, 10), counts, own, op="max")), [[1, 2], [], [10]][rank])
    own = ints(*[rank] * counts[rank])
    if rank == 2:
        expect(list(comm.gather_v(own, ints(7, 7, 7), counts, root=2)), everything)
        expect(list(comm.scatter_v(ints(5, 6, 7), counts, own, root=2)), [7])
    else:
        expect(list(comm.gather_v(own, root=2)), list(own))
        expect(list(comm.scatter_v(None, None, own, root=2)), [[5, 6], []][rank])
    expect_failure(ValueError, "are not 3 counts of together at most 3", comm.all_gather_v, own,
                   ints(7, 7, 7), [2, 1, 1])
    expect_failure(ValueError, "counts are needed on the root", comm.gather_v, own, ints(7), root=rank)
    expect_failure(TypeError, "x has int32, out float32", comm.all_gather_v, own, array.array("f", [0] * 3),
                   counts)


class Collecting(blink.Context):
    """Whose memory the collector of garbage frees at the worst moment, which is under its lock."""

    def check_open(self):
        gc.collect()
        super().check_open()


def play_memory(comm):
    """Registered memory outlives the connection, and is given back with its last user."""
    with blink.Context() as context:
        x = context.empty((2, 3), "int32")
        kept = context.empty(4, "uint8")
    kept[3] = 7
    expect(kept[3], 7)
    with Collecting() as context:
        garbage = [context.empty(4)]
        garbage.append(garbage)
        del garbage
        expect(context.device_count > 0, True)
    expect_failure(ValueError, "closed", context.empty, 1)
    expect(memoryview(x).shape, (2, 3))
    mine = blink.empty(5, "float32")
    mine[:] = array.array("f", [comm.rank] * 5) if isinstance(mine, memoryview) else comm.rank
    expect(list(comm.all_reduce(mine)), [3.0] * 5)
    expect((len(blink.empty(0)), len(comm.all_reduce(blink.empty((0, 3))))), (0, 0))
    expect_failure(TypeError, "no element type int16", blink.empty, 1, "int16")


def in_child(function, *arguments):
    """In a process that is forked, and which ends without its exit handlers."""
    child = os.fork()
    if child == 0:
        try:
            function(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    expect(os.waitpid(child, 0)[1], 0)


def leave_to_parent(comm, context, memory):
    """A child takes nothing from its parent, and has a connection of its own."""
    with comm:
        expect_failure(ValueError, "forked", comm.barrier)
        expect_failure(ValueError, "forked", context.empty, 1)
    memory.clear()
    gc.collect()
    context.close()
    mine = blink.empty(1, "int32")
    mine[0] = 1
    with blink.Communicator(blink.Context(), blink.Context().unique_id(), 1, 0) as own:
        expect(list(own.all_reduce(mine)), [1])


def play_forked(comm):
    context = blink.Context()
    memory = [blink.empty(3, "int32"), context.empty(1)]
    memory[0][0] = 5
    in_child(leave_to_parent, comm, context, memory)
    expect(list(comm.all_reduce(memory[0])), [5 * comm.size, 0, 0])
    expect((context.device_count > 0, len(memory[1])), (True, 1))
    context.close()


def play_pending(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    out, x = ints(0), ints(comm.rank)
    with blink.group():
        comm.send(x, right)
        comm.recv(out, left)
    expect(list(out), [left])
    op = comm.all_reduce(ints(1), wait=False)
    expect(list(op.wait()), [comm.size])
    expect((op.done(), list(op.wait(1))), (True, [comm.size]))
    other = comm.split(0, comm.rank)
    if comm.rank == 0:
        late = other.barrier(wait=False)
        expect(late.done(), False)
        expect_failure(TimeoutError, "within 0.01 s", late.wait, 0.01)
    comm.barrier()
    late.wait() if comm.rank == 0 else other.barrier()
    other.close()

    async def both():
        first, second = comm.all_reduce(ints(1), wait=False), comm.all_reduce(ints(2), wait=False)
        return list(await second), list(await first)
    expect(asyncio.run(both()), ([2 * comm.size], [comm.size]))
    comm.all_reduce(ints(1), wait=False)  # whose buffer stays until the end of the communicator
    try:
        with blink.group():
            comm.barrier()
            raise KeyError("the group's")
    except KeyError:
        pass
    with blink.group(wait=False) as group:
        comm.barrier()
        with blink.group():
            comm.all_reduce(x)
    group.op.wait()
    expect(list(x), [3])


def await_waiter(op):
    """Until another thread is in op.wait()."""
    while not op._lock.locked():
        time.sleep(0.001)


def play_threads(comm):
    """One thread waits without limit: others are not held up by that."""
    first, second = comm.split(0, comm.rank), comm.split(0, comm.rank)
    if comm.rank == 0:
        op = first.barrier(wait=False)
        thread = threading.Thread(target=op.wait)
        thread.start()
        await_waiter(op)
        expect(op.done(), False)
        expect_failure(TimeoutError, "within 0.01 s", op.wait, 0.01)
    second.close()
    comm.barrier()
    if comm.rank == 0:
        thread.join()
        expect((op.done(), op.wait()), (True, None))
    else:
        first.barrier()
    first.close()


def play_interrupted(comm):
    """A signal's exception that comes when the op fails takes nothing away from the failure."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _ in range(20):
        other = comm.split(0, comm.rank)
        if comm.rank == 0:
            op = other.barrier(wait=False)

            def interrupt():
                await_waiter(op)
                os.kill(os.getpid(), signal.SIGINT)
                other.abort()
            thread = threading.Thread(target=interrupt)
            thread.start()
            expect_failure(KeyboardInterrupt, "", op.wait)
            thread.join()
            expect_failure(blink.Aborted, "", op.wait)
            expect_failure(blink.Aborted, "", op.wait)
        comm.barrier()
        other.close()
    play_interrupted_submission(comm)


def play_interrupted_submission(comm):
    """The buffers of an op stay, also if an exception takes its Pending away as soon as it is submitted."""
    real, before = blink._comm.call, len(comm.context.ops)

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt
    blink._comm.call = interrupted
    expect_failure(KeyboardInterrupt, "", comm.all_reduce, ints(1))
    blink._comm.call = real
    expect(len(comm.context.ops) - before, 1)
    expect_failure(blink.InvalidArgument, "root 9", comm.broadcast, ints(1), 9)
    expect(len(comm.context.ops) - before, 1)


def play_closed(comm):
    """What is used after its context has been closed says so."""
    context = blink.Context()
    alone = blink.Communicator(context, context.unique_id(), 1, 0)
    ended, op = alone.all_reduce(ints(5), wait=False), alone.barrier(wait=False)
    expect(list(ended.wait()), [5])
    context.close()
    for function in (alone.barrier, alone.check, alone.abort, op.wait, op.done, context.unique_id):
        expect_failure(ValueError, "the context is closed", function)
    expect(list(ended.wait()), [5])
    alone.close()
    expect_failure(ValueError, "the communicator is closed", alone.barrier)
    try:
        with blink.Context() as context, blink.Communicator(context, context.unique_id(), 1, 0):
            context.close()
            raise KeyError("the body's")
    except KeyError:
        pass
    context = blink.Context()
    alone = blink.Communicator(context, context.unique_id(), 1, 0)
    with blink.Context() as other, blink.Communicator(other, other.unique_id(), 1, 0) as kept:
        try:
            with blink.group():
                alone.all_reduce(ints(5))
                context.close()
        except ValueError as error:
            expect(str(error), "the context is closed")
        expect(list(kept.all_reduce(ints(5))), [5])
    play_closed_by_others()
    with blink.Context() as context:
        with blink.Communicator(context, context.unique_id(), 1, 0, op_timeout=float("inf")) as alone:
            alone.set_timeout(2.0 ** 32)  # whose milliseconds are 0 in 32 bits
            alone.barrier()


def play_closed_by_others():
    """Threads that are in calls while another one closes what they use go on, or hear that it is closed."""
    for what in ("communicator", "context"):
        context = blink.Context()
        alone = blink.Communicator(context, context.unique_id(), 1, 0)
        begun = threading.Barrier(4)

        def work():
            begun.wait()
            try:
                while True:
                    alone.all_reduce(ints(5))
                    alone.check()
            except ValueError as error:
                expect(str(error), f"the {what} is closed")
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait()
        (alone if what == "communicator" else context).close()
        for thread in threads:
            thread.join()
        context.close()


def play_exit(comm):
    """A process that ends while an op is under way does not wait for the op: the others lose a rank."""
    other = comm.split(0, comm.rank)
    if comm.rank == 0:
        other.all_reduce(blink.empty(1, "int32"), wait=False)
    else:
        await_end(other, blink.PeerLost)
        other.close()


def await_end(comm, kind):
    """Until the word that the communicator has ended has come."""
    while True:
        try:
            comm.check()
        except kind:
            return
        time.sleep(0.001)


def play_failures(comm):
    """Of three ranks the last one goes."""
    expect_failure(blink.InvalidArgument, "root 9", comm.broadcast, ints(1), 9)
    expect_failure(ValueError, "out should have 3", comm.all_gather, ints(1), ints(1))
    expect_failure(TypeError, "a list has no memory of its own", comm.all_reduce, [1, 2])
    expect_failure(TypeError, "x has int32, out float32", comm.all_reduce, ints(1), array.array("f", [0]))
    expect_failure(TypeError, "no element type int16", comm.all_reduce, array.array("h", [1]))
    expect_failure(ValueError, "read-only", comm.all_reduce, b"1234")
    expect_failure(ValueError, "not contiguous", comm.all_reduce, memoryview(bytearray(8))[::2])
    expect_failure(ValueError, "'median' is none of sum, ", comm.all_reduce, ints(1), op="median")
    error = expect_failure(blink.Mismatch, "allreduce", comm.all_reduce, ints(*[1] * (comm.rank + 1)))
    expect((error.code, isinstance(error, blink.Error)), (blink.Result.MISMATCH, True))
    split = comm.split(0 if comm.rank < 2 else None, -comm.rank)
    expect(split and (split.rank, split.size, split.name),
           (1 - comm.rank, 2, "job") if comm.rank < 2 else None)
    if comm.rank == 2:
        os._exit(0)  # without leaving; blinkrun would end the others if it was killed
    error = expect_failure(blink.PeerLost, "rank 2", comm.barrier)
    comm.set_timeout(None)
    await_end(comm, blink.PeerLost)
    with comm.shrink() as shrunk:
        expect((shrunk.rank, shrunk.size, list(shrunk.all_reduce(ints(1)))), (comm.rank, 2, [2]))
    expect(list(split.all_reduce(ints(1))), [2])
    split.set_timeout(0.05)
    if split.rank == 0:
        expect_failure(TimeoutError, "no submission from rank 1", split.barrier)
        expect_failure(blink.Timeout, "no submission from rank 1", split.barrier)
    await_end(split, blink.Timeout)
    split.close()
    expect_failure(ValueError, "closed", split.barrier)


class OnGpu:
    """Elements in the memory of a GPU, by the driver that the loader finds."""
    cuda = None

    def __init__(self, values):
        self.count, address = len(values), ctypes.c_uint64()
        self.must("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * self.count))
        self.address = address
        self.must("cuMemcpyHtoD_v2", address, (ctypes.c_int * self.count)(*values),
                  ctypes.c_size_t(4 * self.count))
        self.__cuda_array_interface__ = {"shape": (self.count,), "typestr": "<i4", "version": 3,
                                         "data": (address.value, False)}

    @classmethod
    def must(cls, name, *arguments):
        expect((name, getattr(cls.cuda, name)(*arguments)), (name, 0))

    @classmethod
    def begin(cls):
        """A stream on the first GPU."""
        cls.cuda = ctypes.CDLL("libcuda.so.1")
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        cls.must("cuInit", 0)
        cls.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        cls.must("cuCtxSetCurrent", context)
        cls.must("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def values(self):
        read = (ctypes.c_int * self.count)()
        self.must("cuMemcpyDtoH_v2", read, self.address, ctypes.c_size_t(4 * self.count))
        return list(read)


def play_gpu(comm):
    stream = OnGpu.begin()
    x, y, z = OnGpu([comm.rank, 1]), OnGpu([comm.rank]), OnGpu([7] * 6)
    comm.all_reduce(x)
    expect(x.values(), [3, 3])
    if comm.all_reduce(x, stream=stream) is not x:
        raise AssertionError("another array")
    with blink.group():
        comm.all_reduce(x, op="max", stream=stream)
        comm.broadcast(y, root=1, stream=stream)
        comm.all_gather_v(OnGpu([comm.rank] * (comm.rank + 1)), z, [1, 2, 3], stream=stream)
    OnGpu.must("cuStreamSynchronize", ctypes.c_void_p(stream))
    comm.check()
    expect((x.values(), y.values(), z.values()), ([9, 9], [1], [0, 1, 1, 2, 2, 2]))


def play_numpy(comm):
    """NumPy's arrays, DLPack and __cuda_array_interface__."""
    import numpy

    class OnlyDLPack:
        def __init__(self, of):
            self.__dlpack__, self.__dlpack_device__ = of.__dlpack__, of.__dlpack_device__

    class OnlyInterface:
        def __init__(self, of):
            self.__cuda_array_interface__ = of.__array_interface__
            self.held = of

    class LikeMlDtypes:
        def __init__(self, of, name, typestr):
            self.__array_interface__ = of.__array_interface__ | {"typestr": typestr}
            self.dtype, self.held = types.SimpleNamespace(name=name), of

    class LikePyTorch:
        """A tensor of bfloat16 or, where __cuda_array_interface__ is a KeyError, of float8."""

        def __init__(self, of, code, typestr):
            self.of, self.code, self.typestr = of, code, {"bfloat16": typestr} if typestr else {}
            self.__dlpack_device__ = of.__dlpack_device__

        @property
        def __cuda_array_interface__(self):
            return self.of.__array_interface__ | {"typestr": self.typestr["bfloat16"]}

        def __dlpack__(self):
            capsule = self.of.__dlpack__()
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 20).value = self.code
            return capsule

    play_memory(comm)
    x = blink.empty((2, 3), numpy.float16)
    x[:] = comm.rank
    expect(comm.all_reduce(x).tolist(), [[3.0] * 3] * 2)
    for wrap in (OnlyDLPack, OnlyInterface):
        y = numpy.arange(6, dtype=numpy.int64).reshape(2, 3)
        comm.all_reduce(wrap(y), op=blink.ReduceOp.prod)
        expect(y.tolist(), [[0, 1, 8], [27, 64, 125]])
        expect_failure(ValueError, "not contiguous", comm.all_reduce, wrap(y.T))
        expect_failure(TypeError, "no element type", comm.all_reduce, wrap(numpy.zeros(1, numpy.complex64)))
    expect_failure(TypeError, "not in this machine's order", comm.all_reduce,
                   OnlyInterface(numpy.zeros(1, ">f4")))
    for name, typestr, kind, one_and_a_half, total in [
            ("bfloat16", "<V2", numpy.uint16, 0x3FC0, 0x4090),
            ("float8_e5m2", "<f1", numpy.uint8, 0x3E, 0x44),
            ("float8_e4m3fn", "<V1", numpy.uint8, 0x3C, 0x49)]:
        y = numpy.full(5, one_and_a_half, kind)
        comm.all_reduce(LikeMlDtypes(y, name, typestr))  # 4.5, to nearest even
        expect(y.tolist(), [total] * 5)
    for typestr, kind, code, one_and_a_half, total in [("<V2", numpy.uint16, 4, 0x3FC0, 0x4090),
                                                       (None, numpy.uint8, 12, 0x3E, 0x44)]:
        y = numpy.full(5, one_and_a_half, kind)
        comm.all_reduce(LikePyTorch(y, code, typestr))
        expect(y.tolist(), [total] * 5)
    expect(comm.all_gather(numpy.float64([comm.rank]), numpy.zeros((3, 1))).tolist(), [[0.0], [1.0], [2.0]])
    y.flags.writeable = False
    expect_failure(ValueError, "read-only", comm.all_reduce, y)
    expect_failure(ValueError, "read-only", comm.all_reduce, OnlyInterface(y))
    comm.all_reduce(OnlyInterface(y), numpy.zeros_like(y))
    none = OnlyInterface(numpy.zeros((2, 0, 3)))
    none.__cuda_array_interface__ |= {"strides": (24, 24, 8)}  # as PyTorch has them
    comm.all_reduce(none)


if __name__ == "__main__":
    with blink.init(name="job") as everybody:
        globals()["play_" + sys.argv[1]](everybody)

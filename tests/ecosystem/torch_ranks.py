"""What the ranks of test_torch.py do: each function is run by every rank of a process group."""
import gc
import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
from datetime import timedelta

import blink_torch
import torch
import torch.distributed as dist
from limit import SHORT_S
from torch.distributed import ReduceOp
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
ONLY_MOVED = [torch.int16, torch.uint16, torch.bool]


def expect(seen, expected):
    if isinstance(expected, torch.Tensor):
        if seen.dtype != expected.dtype or seen.shape != expected.shape or seen.tolist() != expected.tolist():
            raise AssertionError(f"{seen} instead of {expected}")
    elif seen != expected:
        raise AssertionError(f"{seen!r} instead of {expected!r}")


def expect_failure(kind, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        for word in [words] if isinstance(words, str) else words:
            if word not in str(error):
                raise AssertionError(f"{error} does not say {word}") from error
        return error
    raise AssertionError(f"no {kind}")


def nothing(rank, size):
    pass


def values(rank, dtype, count=3):
    """rank + 1, rank + 2, …, or of small types smaller ones: sums of four are exact in all."""
    numbers = torch.arange(rank + 1, rank + 1 + count)
    return (numbers % 3 if dtype.itemsize == 1 else numbers).to(dtype)


def bits(rank, dtype, count=3):
    """Of a type of which there are two values."""
    return (torch.arange(rank + 1, rank + 1 + count) % 2).to(dtype)


# ---- collectives ----

def every_type(rank, size):
    for dtype in INTEGERS + FLOATS + COMPLEX:
        reduce_type(rank, size, dtype)
    for dtype in INTEGERS + FLOATS + COMPLEX + ONLY_MOVED:
        move_type(rank, size, dtype)
    for work in (dist.barrier(async_op=True), dist.all_reduce(torch.empty(0), async_op=True)):
        work.wait()


def reduce_type(rank, size, dtype):
    def summed(block=0):
        exact = torch.complex64 if dtype.is_complex else torch.float64
        return sum(values(each + block, dtype).to(exact) for each in range(size)).to(dtype)

    total = summed()
    x = values(rank, dtype)
    dist.all_reduce(x)
    expect(x, total)
    x = values(rank, dtype)
    dist.reduce(x, size - 1)
    expect(x, total if rank == size - 1 else values(rank, dtype))
    blocks = [values(rank + block, dtype) for block in range(size)]
    x = torch.empty(3, dtype=dtype)
    dist.reduce_scatter(x, blocks)
    expect(x, summed(rank))
    x = torch.empty(3, dtype=dtype)
    dist.reduce_scatter_tensor(x, torch.cat(blocks))
    expect(x, summed(rank))


def move_type(rank, size, dtype):
    def of(each):
        return values(each, dtype)

    everything = [of(each) for each in range(size)]
    x = of(rank)
    dist.broadcast(x, 1)
    expect(x, of(1))
    parts = [torch.empty(3, dtype=dtype) for _ in range(size)]
    dist.all_gather(parts, of(rank))
    for part, expected in zip(parts, everything):
        expect(part, expected)
    whole = torch.empty(3 * size, dtype=dtype)
    dist.all_gather_into_tensor(whole, of(rank))
    expect(whole, torch.cat(everything))
    whole.zero_()
    dist.all_gather(list(whole.split(3)), of(rank))  # in one piece
    expect(whole, torch.cat(everything))
    parts = [torch.empty(3, dtype=dtype) for _ in range(size)] if rank == 1 else None
    dist.gather(of(rank), parts, 1)
    for part, expected in zip(parts or [], everything):
        expect(part, expected)
    x = torch.empty(3, dtype=dtype)
    dist.scatter(x, everything if rank == 1 else None, 1)
    expect(x, of(rank))
    sent = [of(rank + each) for each in range(size)]
    parts = [torch.empty(3, dtype=dtype) for _ in range(size)]
    dist.all_to_all(parts, sent)
    for each, part in enumerate(parts):
        expect(part, of(rank + each))
    whole = torch.empty(3 * size, dtype=dtype)
    dist.all_to_all_single(whole, torch.cat(sent))
    expect(whole, torch.cat(parts))
    if rank == 0:
        dist.send(of(7), 1)
    elif rank == 1:
        x = torch.empty(3, dtype=dtype)
        dist.recv(x, 0)
        expect(x, of(7))


def memory(rank, size):
    """Tensors whose elements do not lie in a row, of no dimension, of memory of the daemon."""
    total = sum(range(1, size + 1))
    x = torch.full((4, 6), float(rank + 1))
    dist.all_reduce(x.t())
    expect(x, torch.full((4, 6), float(total)))
    x = torch.zeros(4, 6)
    x[:, ::2] = rank + 1
    dist.all_reduce(x[:, ::2])
    expect(x[0], torch.tensor([total, 0.0] * 3))
    x = torch.zeros(2, 6)
    dist.broadcast(x[:, 1] if rank else torch.ones(2, 6)[:, 1], 0)
    expect(x, torch.tensor([[0, float(rank > 0), 0, 0, 0, 0]] * 2))
    outputs = [torch.zeros(3, 2).t() for _ in range(size)]
    dist.all_gather(outputs, torch.full((3, 2), float(rank)).t())
    expect(outputs[1], torch.ones(2, 3))
    x = torch.tensor(float(rank + 1))
    dist.all_reduce(x)
    expect(x.item(), float(total))
    z = torch.full((2,), complex(rank, 1))
    whole = torch.empty(2 * size, dtype=z.dtype)
    works = dist.group.WORLD._allgather_base(whole, z.conj())  # torch itself does not come that far
    works.wait()
    expect(whole[-1].item(), complex(size - 1, -1))
    x = torch.full((3,), float(rank + 1), requires_grad=True)
    dist.all_reduce(x)
    expect(x.detach(), torch.full((3,), float(total)))
    x = blink_torch.empty(2, 3, dtype=torch.bfloat16)
    x += rank + 1
    dist.all_reduce(x)
    expect(x, torch.full((2, 3), total, dtype=torch.bfloat16))
    x = torch.full((3 << 20,), float(rank + 1))  # more than goes through the staging region at once
    dist.all_reduce(x)
    expect((x == total).all().item(), True)


def operators(rank, size):
    stacked = torch.stack([values(each, torch.float32) for each in range(size)])
    for op, expected in [(ReduceOp.SUM, stacked.sum(0)), (ReduceOp.PRODUCT, stacked.prod(0)),
                         (ReduceOp.MIN, stacked.min(0).values), (ReduceOp.MAX, stacked.max(0).values),
                         (ReduceOp.AVG, stacked.mean(0)),
                         (ReduceOp.PREMUL_SUM(0.5), 0.5 * stacked.sum(0)),
                         (ReduceOp.PREMUL_SUM(torch.tensor([2.0])), 2 * stacked.sum(0))]:
        x = values(rank, torch.float32)
        dist.all_reduce(x, op)
        expect(x, expected)
        out = torch.empty(1)
        dist.reduce_scatter_single(out, values(rank, torch.float32, size), op) if size == 3 else None
        expect(out, expected[rank:rank + 1])
    z = torch.full((2,), complex(rank, 1))
    dist.all_reduce(z, ReduceOp.AVG)
    expect(z[0].item(), complex((size - 1) / 2, 1))
    stacked = torch.stack([bits(each, torch.bool) for each in range(size)])
    for op, expected in [(ReduceOp.SUM, stacked.any(0)), (ReduceOp.MAX, stacked.any(0)),
                         (ReduceOp.BOR, stacked.any(0)), (ReduceOp.PRODUCT, stacked.all(0)),
                         (ReduceOp.MIN, stacked.all(0)), (ReduceOp.BAND, stacked.all(0))]:
        x = bits(rank, torch.bool)
        dist.all_reduce(x, op)
        expect(x, expected)


def blocks(rank, size):
    """Rank r has, or gets, r + 1 elements."""
    lengths = [each + 1 for each in range(size)]
    parts = [torch.empty(length) for length in lengths]
    dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
    for each, part in enumerate(parts):
        expect(part, torch.full((each + 1,), float(each)))
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, [torch.full((length,), float(length)) for length in lengths])
    expect(out, torch.full((rank + 1,), float(size * (rank + 1))))
    outputs = [torch.empty(rank + 1, dtype=torch.complex64) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((length,), complex(rank)) for length in lengths])
    for each, output in enumerate(outputs):
        expect(output, torch.full((rank + 1,), complex(each)))
    for dtype in (torch.float32, torch.int16):
        whole = torch.empty(size * (rank + 1), 2, dtype=dtype)
        dist.all_to_all_single(whole, torch.full((sum(lengths), 2), rank, dtype=dtype), [rank + 1] * size,
                               lengths)
        expect(whole[::rank + 1, 0], torch.arange(size).to(dtype))
    nobody = torch.empty(0, 4)
    dist.all_to_all_single(nobody, torch.empty(0, 4), [0] * size, [0] * size)


def coalescing(rank, size):
    total = sum(range(1, size + 1))
    tensors = [torch.full((each + 1,), float(rank + 1)) for each in range(5)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as later:
        for tensor in tensors[:2]:
            dist.all_reduce(tensor)
        dist.broadcast(tensors[4], 0)
    later.wait()
    expect(tensors[0], torch.tensor([float(total * size)]))
    expect(tensors[3], torch.full((4,), float(total)))
    wholes = [torch.empty(size * each) for each in (1, 2)]
    with dist._coalescing_manager(async_ops=True) as later:
        for whole, each in zip(wholes, (1, 2)):
            dist.all_gather_into_tensor(whole, torch.full((each,), float(rank)))
    later.wait()
    expect(wholes[1], torch.arange(size).repeat_interleave(2).float())
    weighted = [torch.ones(1), torch.ones(2)]
    with dist._coalescing_manager():
        for tensor in weighted:
            dist.all_reduce(tensor, ReduceOp.PREMUL_SUM(2.0))
    expect(weighted[1], torch.full((2,), 2.0 * size))
    outs = [torch.empty(1), torch.empty(1)]
    with dist._coalescing_manager():
        for out in outs:
            dist.reduce_scatter_tensor(out, torch.arange(size).float())
    expect(outs[1], torch.tensor([float(rank * size)]))


# ---- sends and receives ----

def transfers(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    mine, theirs = values(rank, torch.float32), torch.empty(3)
    for first, second in [("send", "recv"), ("recv", "send")]:  # which would wait for each other in one order
        works = {}
        for each in (first, second):
            works[each] = dist.isend(mine, after) if each == "send" else dist.irecv(theirs.zero_(), before)
        works[second].wait()
        works[first].wait()
        expect(theirs, values(before, torch.float32))
    if rank == 0:
        works = [dist.isend(torch.tensor([each]), 1, tag=each) for each in range(3)]
        [work.wait() for work in works]
        dist.send(torch.full((4, 3), 9.0)[:, 1], 1)
    elif rank == 1:
        x = torch.empty(1, dtype=torch.int64)
        for each in (2, 0, 1):
            dist.recv(x, 0, tag=each)
            expect(x.item(), each)
        column = torch.zeros(4, 3)
        dist.recv(column[:, 2], 0)
        expect(column[3], torch.tensor([0, 0, 9.0]))
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after),
                                    dist.P2POp(dist.irecv, theirs.zero_(), before)])
    [work.wait() for work in works]
    expect(theirs, values(before, torch.float32))
    # A batch on one side, none on the other, and a collective between the two halves of a transfer.
    if rank == 0:
        dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1)])[0].wait()
        dist.all_reduce(torch.ones(1))
    else:
        work = dist.irecv(theirs.zero_(), 0) if rank == 1 else None
        dist.all_reduce(torch.ones(1))
        if work:
            work.wait()
            expect(theirs, values(0, torch.float32))
    expect_failure(ValueError, "", dist.send, mine, rank)
    expect_failure(NotImplementedError, "blink receives from a rank that is named", dist.recv, theirs)
    if rank < 2:
        expect_failure(dist.DistBackendError, "count",
                       *([dist.send, torch.ones(2), 1] if rank == 0 else [dist.recv, torch.empty(3), 0]))
    dist.irecv(theirs, before)  # which nobody sends, and which the end of the group does not wait for


# ---- how torch waits ----

def futures(rank, size):
    x = torch.full((3,), float(rank))
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda ended: ended.value()[0] * 2)
    expect(future.wait(), torch.full((3,), size * (size - 1.0)))
    futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(20)]
    expect([future.wait()[0].item() for future in futures], [float(size)] * 20)
    theirs = torch.empty(1)
    future = dist.irecv(theirs, (rank - 1) % size).get_future()
    dist.isend(torch.tensor([float(rank)]), (rank + 1) % size).get_future().wait()
    future.wait()
    expect(theirs.item(), float((rank - 1) % size))
    works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(5)]
    threads = [threading.Thread(target=work.wait) for work in reversed(works)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def timeouts(rank, size):
    group = dist.new_group(list(range(size)), timeout=timedelta(seconds=60))
    if rank == 0:
        work = dist.barrier(group=group, async_op=True)
        expect_failure(dist.DistBackendError, "timed out after 50 ms", work.wait, timedelta(milliseconds=50))
        dist.barrier()
        work.wait()  # which the time that has passed does not change
    else:
        dist.barrier()
        dist.barrier(group=group)
    dist.set_timeout(timedelta(seconds=SHORT_S), group)
    dist.barrier()
    if rank != 1:
        words = ["timed out", "no submission from rank 1", "barrier on rank"]
        error = expect_failure(dist.DistBackendError, words, dist.barrier, group=group)
        expect(type(error.__cause__).__name__, "Timeout")
    dist.barrier()
    if rank == 0:
        future = dist.irecv(torch.empty(1), 1, group=dist.group.WORLD, tag=5).get_future()
        expect(future.done(), False)
    dist.barrier()
    if rank == 1:
        dist.send(torch.ones(1), 0, tag=5)
    elif rank == 0:
        future.wait()


def groups(rank, size):
    low, high = dist.new_group([0, 1]), dist.new_group([3, 2], use_local_synchronization=False)
    mine = low if rank < 2 else high
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=mine)
    expect(x.item(), 1.0 if rank < 2 else 5.0)
    expect(dist.get_backend(mine), "blink")
    both = dist.new_group(backend="cpu:blink")
    dist.barrier(group=both)
    options = blink_torch.Options(algorithm="ring", device=size - rank)
    for chosen in (dist.new_group(pg_options=options), dist.new_group(pg_options=options)):
        dist.barrier(group=chosen)
    everybody = [None] * size
    dist.all_gather_object(everybody, {"rank": rank})
    expect(everybody[2], {"rank": 2})
    for _ in range(3):
        dist.destroy_process_group(mine)
        low, high = dist.new_group([0, 1]), dist.new_group([2, 3])
        mine = low if rank < 2 else high
        dist.barrier(group=mine)


def split_groups(rank, size):
    group = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=group)
    expect(x.item(), 2.0 if rank % 2 == 0 else 4.0)
    some = dist.new_group([0, 1, 2])
    if rank < 3:
        dist.barrier(group=some)


def monitored_barrier(rank, size):
    dist.monitored_barrier()
    late = timedelta(milliseconds=300)
    if rank == 0:
        expect_failure(RuntimeError, "Ranks 1, 2 failed to pass monitoredBarrier in 300 ms",
                       dist.monitored_barrier, timeout=late, wait_all_ranks=True)
    dist.barrier()


def abort(rank, size):
    group = dist.new_group(list(range(size)))
    other = dist.new_group(list(range(size)))
    work = dist.irecv(torch.empty(1), (rank + 1) % size, group=group)  # which nobody sends
    barrier = dist.barrier(group=group, async_op=True) if rank else None
    dist.barrier(group=other)
    if rank == 0:
        dist.distributed_c10d._abort_process_group(group)
    else:
        expect_failure(dist.DistBackendError, "abort", barrier.wait)
    expect_failure(dist.DistBackendError, "", work.wait)
    expect_failure(dist.DistBackendError, "shut down" if rank == 0 else "abort",
                   lambda: group.barrier().wait())
    dist.barrier(group=other)


def killed_rank(rank, size):
    """The others hear of it at once, in every way of waiting."""
    dist.barrier()
    never = dist.irecv(torch.empty(1), 2, tag=9) if rank != 2 else None
    known = torch.empty(1)
    if rank == 2:
        dist.send(torch.ones(1), 0)
        dist.barrier()
        time.sleep(0.2)  # so that the others have heard of what is complete
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        dist.recv(known, 2)
    dist.barrier()
    work = dist.all_reduce(torch.ones(1), async_op=True)
    expect_failure(dist.DistBackendError, ["rank 2", "all_reduce on rank"], work.wait)
    expect_failure(RuntimeError, "rank 2", work.get_future().wait)
    expect_failure(dist.DistBackendError, "rank 2", never.wait)
    if rank == 0:
        expect_failure(dist.DistBackendError, "rank 2", dist.recv, known, 2)
    expect_failure(dist.DistBackendError, "rank 2", dist.barrier)


def reforming(rank, size):
    """One rank is lost, then one of those that are left: the one with the store."""
    dist.new_group([0, 1])
    for gone in (2, 0):
        if dist.get_rank() == gone:
            os.kill(os.getpid(), signal.SIGKILL)
        expect_failure(dist.DistBackendError, f"rank {gone} (pid", dist.all_reduce, torch.ones(1))
        blink_torch.reform()
        size -= 1
        expect(dist.get_world_size(), size)
        total = torch.ones(1)
        dist.all_reduce(total)
        expect(total.item(), float(size))
    expect(dist.get_rank(), {1: 0, 3: 1}[rank])
    if dist.get_rank() == 0:
        dist.send(torch.full((1,), 7.0), 1)
    else:
        dist.recv(total, 0)
        expect(total.item(), 7.0)


def forked(rank, size):
    """A child that lets go of what it has inherited takes nothing from its parent."""
    x, total = blink_torch.empty(1000), torch.ones(1)
    dist.all_reduce(x.fill_(1.0))
    child = os.fork()
    if child == 0:
        del x
        gc.collect()
        dist.destroy_process_group()
        blink_torch.empty(1).fill_(2.0)
        os._exit(0)
    expect(os.waitpid(child, 0)[1], 0)
    dist.all_reduce(x)
    expect(x, torch.full((1000,), float(size * size)))
    dist.all_reduce(total)
    expect(total.item(), float(size))


def lost_daemon(rank, size):
    """Until somebody kills it."""
    work = dist.irecv(torch.empty(1), (rank + 1) % size)
    try:
        while True:
            dist.all_reduce(torch.ones(1))
    except dist.DistBackendError as error:
        expect("daemon" in str(error), True)
    expect_failure(dist.DistBackendError, "daemon", work.wait)
    dist.destroy_process_group()
    expect_failure(dist.DistBackendError, "Is blinkd running?", dist.init_process_group, "blink", rank=0,
                   world_size=1, store=dist.HashStore())


# ---- errors ----

def wrong_use(rank, size):
    ones = torch.ones(2)
    expect_failure(TypeError, "sparse", dist.all_reduce, ones.to_sparse())
    expect_failure(RuntimeError, "No backend type associated with device type cuda",
                   dist.group.WORLD._get_backend, torch.device("cuda"))
    expect_failure(TypeError, ["torch.int16", "torch.int32"], dist.all_reduce,
                   torch.ones(2, dtype=torch.int16))
    expect_failure(ValueError, ["BXOR", "SUM, AVG"], dist.all_reduce, torch.ones(2, dtype=torch.int32),
                   ReduceOp.BXOR)
    expect_failure(ValueError, "AVG", dist.all_reduce, torch.ones(2, dtype=torch.bool), ReduceOp.AVG)
    expect_failure(ValueError, "", dist.all_reduce, torch.ones(2, dtype=torch.complex64), ReduceOp.MAX)
    expect_failure(ValueError, "3 times", dist.all_gather_into_tensor, torch.empty(5), ones)
    expect_failure(ValueError, "shape (4,)", dist.all_to_all_single, torch.empty(4), torch.empty(4))
    expect_failure(ValueError, "[1, 1, 1]", dist.all_to_all_single, torch.empty(4), torch.empty(4), [1] * 3,
                   [1] * 3)
    expect_failure(dist.DistBackendError, ["all_reduce on rank", "count"], dist.all_reduce,
                   torch.ones(rank // 2 + 1))
    expect_failure(dist.DistBackendError, "all_gather", dist.all_gather, [torch.empty(rank // 2 + 1)] * size,
                   torch.ones(rank // 2 + 1))
    expect_failure(dist.DistBackendError, "all_reduce", dist.all_reduce,
                   torch.ones(1, dtype=torch.float32 if rank else torch.float64))
    dist.barrier()  # the group lives on


def profiler(rank, size):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(1))
        dist.all_gather_into_tensor(torch.empty(size), torch.ones(1))
        if rank == 0:
            dist.send(torch.ones(1), 1)
        else:
            dist.recv(torch.ones(1), 0)
    names = {event.name for event in profile.events()}
    for name in ("blink:all_reduce", "blink:all_gather_single", "blink:send" if rank == 0 else "blink:recv"):
        expect((name, name in names), (name, True))


# ---- programs ----

def save(function, folder, rank, size):
    """What the function returns, in a file for each rank."""
    torch.manual_seed(1)
    torch.save(function(rank, size), os.path.join(folder, str(rank)))


def model():
    return torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.BatchNorm1d(300),
                               torch.nn.Linear(300, 5))


def train(net, rank, steps=4):
    generator = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(torch.randn(8, 20, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_ddp(rank, size):
    net = torch.nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.01)
    losses = train(net, rank)
    return losses, net.state_dict()


def is_memory_of_the_daemon(address):
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if start <= address < end:
                return "memfd:blink-memory" in line
    return False


def train_ddp_in_place(rank, size):
    """Of gloo, whose result this is compared with, the buckets are PyTorch's."""
    is_blink = dist.get_backend() == "blink"
    kind = blink_torch.DistributedDataParallel if is_blink else torch.nn.parallel.DistributedDataParallel
    net = kind(model(), bucket_cap_mb=0.01, gradient_as_bucket_view=True)
    seen = []

    def hook(_, bucket):
        seen.append(is_memory_of_the_daemon(bucket.buffer().data_ptr()))
        return allreduce_hook(None, bucket)
    net.register_comm_hook(None, hook)
    losses = train(net, rank)
    expect(set(seen), {is_blink})
    return losses, net.state_dict()


def train_ddp_without_memory(rank, size):
    """The daemon has none for buckets."""
    torch.manual_seed(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        losses = train(blink_torch.DistributedDataParallel(model(), bucket_cap_mb=0.01), rank)
    expect(sum("buckets of gradients are ordinary memory" in str(each.message) for each in caught), 1)
    torch.manual_seed(1)
    expect(losses, train_ddp(rank, size)[0])


def train_fsdp(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    net = model()
    mesh = init_device_mesh("cpu", (size,))
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    losses = train(net, rank)
    return losses, [parameter.full_tensor().detach() for parameter in net.parameters()]


def dtensor(rank, size):
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (size,))
    x = distribute_tensor(torch.randn(6, 10), mesh, [Shard(0)])
    y = distribute_tensor(torch.randn(10, 7), mesh, [Replicate()])
    results = [(x @ y).full_tensor(), x.redistribute(mesh, [Shard(1)]).to_local(), (x.t() @ x).full_tensor()]
    ones = torch.ones(4, dtype=torch.bfloat16) * (rank + 1)
    results.append(functional.all_reduce(ones, "sum", dist.group.WORLD) + 0)
    results.append(functional.all_gather_single(ones, 0, dist.group.WORLD) + 0)
    results.append(functional.reduce_scatter_single(ones, "avg", 0, dist.group.WORLD) + 0)
    return results


def checkpoint(rank, size):
    """Written by all, read by all, in the folder in which the results are."""
    import torch.distributed.checkpoint as dcp
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    state = {"model": model().state_dict()}
    dcp.save(state, checkpoint_id=folder[0])
    torch.manual_seed(7)
    read = {"model": model().state_dict()}
    dcp.load(read, checkpoint_id=folder[0])
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
    return read

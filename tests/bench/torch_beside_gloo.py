#!/usr/bin/env python3
"""torch_beside_gloo.py [--ranks N] [--rounds N] [BYTES…]: all_reduce of float32 by torch.distributed, backend
"blink" beside gloo in the same ranks, turn by turn; of each round the mean of some all_reduces by the slowest
rank, of the rounds the median. "in place": the tensor is of blink_torch.empty(). Needs PyTorch, and a daemon
at BLINK_SOCKET: docs/measure.md."""
import argparse
import multiprocessing
import os
import statistics
import tempfile
import time

import blink_torch
import torch
import torch.distributed as dist

ROUND_S = 0.3


def mean_us(tensor, group, times):
    begun = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(tensor, group=group)
    slowest = torch.tensor([(time.perf_counter() - begun) / times * 1e6])
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def times_of(tensor, group):
    """So many that a round takes about ROUND_S, the same on all ranks."""
    mean_us(tensor, group, 2)
    return max(1, int(ROUND_S * 1e6 / mean_us(tensor, group, 3)))


def measure(options, groups):
    for byte_count in options.bytes:
        plain = torch.zeros(max(1, byte_count // 4))
        in_place = blink_torch.empty(plain.numel(), dtype=torch.float32).zero_()
        ways = {"gloo": (plain, groups["gloo"]), "blink": (plain, groups["blink"]),
                "blink in place": (in_place, groups["blink"])}
        counts = {name: times_of(*way) for name, way in ways.items()}
        took_us = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                took_us[name].append(mean_us(*way, counts[name]))
        if dist.get_rank() > 0:
            continue
        of_gloo_us = statistics.median(took_us["gloo"])
        for name, each in took_us.items():
            median_us = statistics.median(each)
            print(f"{dist.get_world_size()} ranks  {byte_count:>10} bytes  {name:<15} {median_us:>10.1f} us  "
                  f"{of_gloo_us / median_us:5.2f} times gloo's speed", flush=True)


def be_rank(options, rank, store):
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks, init_method=f"file://{store}")
    measure(options, {"gloo": dist.group.WORLD, "blink": dist.new_group(backend="blink")})
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("bytes", type=int, nargs="*", default=[8, 1 << 20, 25 << 20])
    options = parser.parse_args()
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [fork.Process(target=be_rank, args=(options, rank, os.path.join(folder, "store")))
                 for rank in range(options.ranks)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    return max(rank.exitcode for rank in ranks)


if __name__ == "__main__":
    raise SystemExit(main())

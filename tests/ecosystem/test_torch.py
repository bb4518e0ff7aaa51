"""torch.distributed with the backend "blink": real daemon, real PyTorch, ranks that are forked once it is
imported. scripts/test-torch runs it, with PyTorch and the wheel of this tree installed."""
import multiprocessing
import os
import pathlib
import re
import signal
import sys
import traceback
import unittest
import warnings
from datetime import timedelta
from functools import partial

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "integration"))
import blink_torch  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_ranks as play  # noqa: E402
from harness import IntegrationTest  # noqa: E402
from limit import LIMIT_S  # noqa: E402

HERE = pathlib.Path(__file__).parent
FORK = multiprocessing.get_context("fork")


#: Ends while a receive waits for its sender and the threads of futures are there.
CARELESS = """
import blink
import torch
import torch.distributed as dist
rank, size, _ = blink.launched()
dist.init_process_group("blink", rank=rank, world_size=size, init_method="file://{store}")
work = dist.irecv(torch.empty(1), 1 - rank)
total = torch.ones(1)
dist.all_reduce(total, async_op=True).get_future().wait()
dist.barrier()
print(total.item())
"""


#: In the first attempt a rank is killed when there is something of it in the store.
ANEW = """
import os
import signal
import torch
import torch.distributed as dist
dist.init_process_group("blink")
rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
half = dist.split_group(split_ranks=[[0, 1, 2]])
total, sent = torch.ones(1), torch.full((1,), 7.0)
dist.all_reduce(total)
works = [dist.isend(sent, (rank + 1) % 3), dist.irecv(got := torch.zeros(1), (rank - 1) % 3)]
for work in works:
    work.wait()
if attempt == "0" and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(1), group=half)
dist.all_reduce(torch.ones(1))
print(f"attempt {attempt}: {total.tolist()} {got.tolist()}", flush=True)
dist.destroy_process_group()
"""


def be_rank(function, rank, size, socket, store, options, pipe):
    """A forked process: says over the pipe what went wrong, or that nothing did."""
    try:
        os.environ["BLINK_SOCKET"] = socket
        dist.init_process_group(rank=rank, world_size=size, init_method=f"file://{store}", **options)
        function(rank, size)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send("")
    except BaseException:
        pipe.send(traceback.format_exc())
    finally:
        pipe.close()
        os._exit(0)  # without the exit handlers of the test


class RanksTest(IntegrationTest):
    """Starts ranks."""

    def begin(self, function, size, socket, backend="blink", seconds=LIMIT_S, **options):
        """One process for each rank, and the pipes over which they say how it went."""
        options |= {"backend": backend, "timeout": timedelta(seconds=seconds)}
        store = os.path.join(self.directory(), "store")
        began = []
        for rank in range(size):
            here, there = FORK.Pipe(duplex=False)
            process = FORK.Process(target=be_rank, args=(function, rank, size, socket, store, options, there))
            process.start()
            there.close()
            self.addCleanup(process.kill)
            began.append((process, here))
        return began

    def end(self, began, killed=()):
        failures = []
        for rank, (process, pipe) in enumerate(began):
            if rank not in killed:
                said = pipe.recv() if pipe.poll(2 * LIMIT_S) else "hangs"
                failures += [f"rank {rank}: {said}"] if said else []
            process.join(1 if failures else LIMIT_S)
        if failures:
            self.fail("\n".join(failures))

    def play(self, function, size=3, killed=(), **options):
        daemon = self.daemon()
        self.end(self.begin(function, size, daemon.socket, **options), killed)
        self.until(lambda: self.ctl_json(daemon, "status")["registered_bytes"] == 0)


class TorchTest(RanksTest):
    def test_every_collective_with_every_type(self):
        self.play(play.every_type)

    def test_four_ranks(self):
        self.play(play.every_type, size=4)

    def test_memory_in_any_shape(self):
        self.play(play.memory)

    def test_operators(self):
        self.play(play.operators)

    def test_blocks_of_different_lengths(self):
        self.play(play.blocks)

    def test_coalescing(self):
        self.play(play.coalescing)

    def test_sends_and_receives_in_any_order(self):
        self.play(play.transfers, seconds=10 * LIMIT_S)

    def test_futures(self):
        self.play(play.futures)

    def test_timeouts(self):
        self.play(play.timeouts)

    def test_groups(self):
        self.play(play.groups, size=4)

    def test_split_groups(self):
        self.play(play.split_groups, size=4, device_id=torch.device("cpu:0"))

    def test_monitored_barrier(self):
        self.play(play.monitored_barrier)

    def test_abort(self):
        self.play(play.abort)

    def test_wrong_use(self):
        self.play(play.wrong_use)

    def test_wrong_device(self):
        """Where torch does not stop it before."""
        from blink_torch._types import check
        with self.assertRaisesRegex(ValueError, r"on the CPU, and this one is on meta.*cpu:blink,cuda:nccl"):
            check(torch.ones(1, device="meta"))

    def test_profiler(self):
        self.play(play.profiler, size=2)

    def test_killed_rank(self):
        self.play(play.killed_rank, killed=[2])

    def test_those_that_are_left_form_a_group(self):
        options = blink_torch.Options(algorithm="ring")
        self.play(play.reforming, size=4, killed=[0, 2], pg_options=options)

    def test_a_child_that_was_forked_takes_nothing_from_its_parent(self):
        self.play(play.forked, size=2)

    def test_killed_daemon(self):
        daemon = self.daemon()
        began = self.begin(play.lost_daemon, 2, daemon.socket)
        self.until(lambda: self.ctl_json(daemon, "status")["op_count"] > 10)
        daemon.kill()
        self.end(began)

    def test_no_daemon(self):
        for _, pipe in self.begin(play.nothing, 2, "/nonexistent/blinkd.sock"):
            text = pipe.recv()
            for words in ("/nonexistent/blinkd.sock", "Is blinkd running? Else start one", "DistBackend"):
                self.assertIn(words, text)

    def test_versions_of_torch(self):
        self.addCleanup(setattr, torch, "__version__", torch.__version__)
        torch.__version__ = "2.13.1+cu130"
        with self.assertRaisesRegex(ImportError, r"needs PyTorch 2\.14 or later.*this is 2\.13\.1"):
            blink_torch.register()
        torch.__version__ = "2.99.0"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            blink_torch.register()
        self.assertIn("newer than what blink_torch was tried with, which is 2.14 to 2.15",
                      str(caught[0].message))


class ProgramsTest(RanksTest):
    """What people run on torch.distributed."""

    def compare(self, function, size=2):
        """Both backends give the same, in every bit."""
        results = {}
        for backend in ("blink", "gloo"):
            folder = self.directory()
            self.play(partial(play.save, function, folder), size=size, backend=backend)
            results[backend] = [torch.load(os.path.join(folder, str(rank)), weights_only=False)
                                for rank in range(size)]
        torch.testing.assert_close(results["blink"], results["gloo"], rtol=0, atol=0)

    def test_ddp_trains_as_with_gloo(self):
        self.compare(play.train_ddp)

    def test_ddp_with_buckets_in_place_trains_as_with_gloo(self):
        self.compare(play.train_ddp_in_place)

    def test_ddp_trains_when_the_daemon_has_no_more_memory(self):
        """What it has is enough for the staging regions of two ranks, and for no bucket."""
        daemon = self.daemon(*self.limits(registered_bytes_per_tenant=2 * ((16 << 20) + 4096) + 4095))
        self.end(self.begin(play.train_ddp_without_memory, 2, daemon.socket))

    def test_fsdp_trains_as_with_gloo(self):
        self.compare(play.train_fsdp)

    def test_dtensor_and_functional_collectives(self):
        self.compare(play.dtensor)

    def test_checkpoint(self):
        self.compare(play.checkpoint)


class PageTest(RanksTest):
    def run_example(self, number, *launcher, expected=0):
        """The example of docs/torch.md, as it stands there."""
        page = (HERE.parents[1] / "docs" / "torch.md").read_text(encoding="utf-8")
        example = self.write_file("example.py", re.findall(r"```python\n(.*?)```", page, re.S)[number])
        status, out, err = self.run_command([*launcher, example], env=os.environ | {
            "BLINK_SOCKET": self.daemon().socket, "PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin"})
        self.assertEqual(status, expected, out + err)
        return out

    def test_torchrun(self):
        out = self.run_example(0, "torchrun", "--nproc-per-node", 4)
        # Python that torchrun starts writes the ends of lines by themselves, so that lines of ranks may mix.
        self.assertEqual(sorted(re.findall("rank .: [^]]*]", out)),
                         [f"rank {rank}: [4.0, 4.0, 4.0]" for rank in range(4)])

    def test_torchrun_starts_ranks_anew(self):
        """With the store that they had, in which nothing of the first attempt may mislead them."""
        example = self.write_file("anew.py", ANEW)
        status, out, err = self.run_command(
            ["torchrun", "--nproc-per-node", 3, "--max-restarts", 1, "--monitor-interval", "0.1", example],
            env=os.environ | {"BLINK_SOCKET": self.daemon().socket,
                              "PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin"})
        self.assertEqual(status, 0, out + err)
        self.assertEqual(sorted(re.findall(r"attempt 1: \S+ \S+\]", out)), 3 * ["attempt 1: [3.0] [7.0]"])

    def test_blinkrun(self):
        out = self.run_example(1, os.environ["BLINKRUN"], "--no-prefix", "-n", 4, sys.executable)
        self.assertEqual(out, "['rank 0', 'rank 1', 'rank 2', 'rank 3']\n" * 4)

    def test_going_on_without_a_rank(self):
        out = self.run_example(2, os.environ["BLINKRUN"], "--keep-going", "--no-prefix", "-n", 3,
                               sys.executable, expected=128 + signal.SIGKILL)
        self.assertIn("rank 0 (pid", out)
        ends = re.findall(r"rank (\d) of 2 after 20 steps: (\S+)", out)
        self.assertEqual(sorted(rank for rank, _ in ends), ["0", "1"], out)
        self.assertEqual(ends[0][1], ends[1][1])

    def test_program_that_does_not_clean_up(self):
        store = os.path.join(self.directory(), "store")
        program = self.write_file("careless.py", CARELESS.format(store=store))
        status, out, err = self.run_command(
            [os.environ["BLINKRUN"], "--no-prefix", "-n", 2, sys.executable, program],
            env=os.environ | {"BLINK_SOCKET": self.daemon().socket})
        self.assertEqual((status, out), (0, "2.0\n2.0\n"), err)


class OwnTest(IntegrationTest):
    """PyTorch's own tests. docs/torch.md says what becomes of all of them."""

    def run_own(self, world, *names, reserved_for="blink"):
        daemon = self.daemon()
        status, out, err = self.run_command(
            [sys.executable, HERE / "torch_own_tests.py", "--world", world, "--reserved-for", reserved_for,
             *(f"test_{name}" for name in names)], env=os.environ | {"BLINK_SOCKET": daemon.socket})
        self.assertEqual(status, 0, out + err)
        self.assertIn(f"{len(names)} passed, 0 failed, 0 skipped", out)

    def test_two_ranks(self):
        self.run_own(2, "all_reduce_complex_unsupported_ops", "all_reduce_sum_async",
                     "all_gather_coalesced_complex", "send_recv_with_tag", "static_graph_api_cpu")

    def test_four_ranks(self):
        self.run_own(4, "all_reduce_full_group_product", "barrier_full_group", "scatter_checks")

    def test_what_is_reserved_for_gloo(self):
        self.run_own(2, "all_reduce_coalesced_full_group_sum", "all_gather_object_subgroup",
                     "batch_isend_irecv_gloo", "batch_isend_irecv_gloo_tags", "monitored_barrier_gloo",
                     "monitored_barrier_gloo_subgroup", reserved_for="gloo")


if __name__ == "__main__":
    unittest.main()

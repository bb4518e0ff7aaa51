"""Communicators of ranks on GPUs of several hosts.

The GPUs are none: a stand-in for the driver runs the host's build of the kernels over host memory. So this is
about who moves what, and when, and not about time.
"""
import os
import re
import signal
import unittest

from cluster import OP, EndsTests, RanksTest, require_namespaces
from harness import BLINK_PERF

STANDIN = os.environ["STANDIN"]
COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
               "alltoall", "alltoallv", "sendrecv"]
GOOD = f"times:20:{OP}"


def setUpModule():
    require_namespaces()


def environment(**variables):
    # hwloc's plugins load libraries of other vendors, which leak.
    return {**os.environ, "LD_LIBRARY_PATH": STANDIN, "HWLOC_PLUGINS_PATH": "/nonexistent",
            **{name: str(value) for name, value in variables.items()}}


class GpusTest(RanksTest):
    def places(self, *ranks_of_host, topology=None, devices=None, variables=None, **options):
        """Hosts with so many ranks each: by rank its host and device. Devices are parts of one GPU unless
        they are named."""
        self.variables = variables or {}
        hosts = self.cluster(len(ranks_of_host), **options)
        devices = devices or len(hosts) * [f"cuda:0x{max(ranks_of_host)}"]
        for host, names in zip(hosts, devices):
            host.start("--devices", names, topology=topology, env=environment(**self.variables))
        return [(host, device) for host, count in zip(hosts, ranks_of_host) for device in range(count)]

    def worker(self, host):
        return self.ctl_json(host.daemon, "status")["gpu_worker_pid"]

    def play(self, places, scenario, **variables):
        sockets = ",".join(host.daemon.socket for host, _ in places)
        status, _, err = self.run_command([os.environ["BLINK_GPU_API"], scenario, len(places)],
                                          env=environment(BLINK_SOCKETS=sockets, **variables))
        self.assertEqual(status, 0, err)

    def perf(self, places, collective, *arguments):
        """blink-perf compares every element with a reference; its ranks meet by a file."""
        id_file = os.path.join(self.directory(), "id")
        devices = ",".join(str(device) for _, device in places)
        ranks = [self.start([BLINK_PERF, "--socket", host.daemon.socket, collective, "--check", "--iters", 1,
                             "--warmup", 0, "--id-file", id_file, "--devices", devices, *arguments],
                            env=environment(RANK=rank, WORLD_SIZE=len(places), **self.variables))
                 for rank, (host, _) in enumerate(places)]
        for rank in ranks:
            self.assertEqual(rank.wait(), 0, rank.describe())

    def perf_all(self, places, *arguments, collectives=COLLECTIVES):
        for collective in collectives:
            with self.subTest(collective=collective):
                self.perf(places, collective, *arguments)


class Matrix(GpusTest):
    SIZES = ("--device-memory", "--min", "12", "--max", "1M", "--stepfactor", 361)

    def test_two_hosts_with_a_rank_each(self):
        self.perf_all(self.places(1, 1), *self.SIZES)

    def test_two_hosts_with_two_ranks_each(self):
        self.perf_all(self.places(2, 2), *self.SIZES)

    def test_three_hosts(self):
        self.perf_all(self.places(1, 2, 1), *self.SIZES)

    def test_types_and_operators(self):
        self.perf_all(self.places(1, 1), "--device-memory", "--datatype", "all", "--op", "all", "--min", "1K",
                      "--max", "1K", collectives=["allreduce", "reducescatter"])

    @unittest.skipIf(os.environ.get("SANITIZE"), "so many processes take long; unit.exec_cuda has it, too")
    def test_more_ranks_than_a_host_can_have(self):
        self.play(self.places(40, 26), "device-memory")

    def test_barriers(self):
        self.perf(self.places(2, 1), "barrier")

    def test_memory_of_the_host(self):
        self.perf_all(self.places(1, 1), "--min", "64", "--max", "1M", "--stepfactor", 256,
                      collectives=["allreduce", "alltoall"])
        self.perf_all(self.places(1, 1), "--memory", "malloc", "--min", "64", "--max", "1M", "--stepfactor",
                      256, collectives=["allreduce", "alltoall"])

    def test_ops_in_groups(self):
        self.perf(self.places(1, 2), "allreduce", "--device-memory", "--groups", 20, "--min", "12", "--max",
                  "64K")


class Machines(GpusTest):
    """Where lanes of one host wait for one another, too, and for those of other GPUs."""
    SIZES = ("--device-memory", "--min", "12", "--max", "3M", "--stepfactor", 512)

    def test_two_dgx1v(self):
        self.perf_all(self.places(4, 4, topology="dgx1v_hybrid"), *self.SIZES)

    def test_two_gpus_on_each_host(self):
        two = {"STANDIN_CUDA_GPUS": 2}
        places = self.places(2, 2, devices=["cuda:all", "cuda:all"], variables=two)
        for scenario in ("device-memory", "pools", "stream", "graph"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario, **two)

    def test_large_payloads_take_as_many_blocks_as_fill_the_links(self):
        """By what the host that plans has for GPUs, on all hosts; the stand-in's are like H100s."""
        self.variables = {}
        hosts = self.cluster(2)
        for host in hosts:
            host.start("--devices", "cuda:0x2", "--log-level", "debug", topology="1xdgx_h100",
                       env=environment())
        self.perf([(host, device) for host in hosts for device in range(2)], "allreduce", "--device-memory",
                  "--min", "4K", "--max", "4M", "--stepfactor", 1024)
        made, read = (re.findall(rf"allreduce over 4 ranks planned {by} .* (\d+) channels",
                                 host.daemon.stderr())
                      for host, by in zip(hosts, ["in", "by"]))
        self.assertEqual(made, read)
        self.assertGreater(int(made[-1]), int(made[0]))

    def test_streams_and_graphs(self):
        places = self.places(2, 1)
        for scenario in ("device-memory", "stream", "stream-group", "two-streams", "graph"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario)

    def test_gpus_that_are_no_peers_meet_in_host_memory(self):
        apart = {"STANDIN_CUDA_GPUS": 3, "STANDIN_CUDA_PEERS": "0+1"}
        places = self.places(3, 2, devices=["cuda:all", "cuda:all"], variables=apart)
        for scenario in ("device-memory", "pools", "stream", "graph"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario, **apart)
        self.perf_all(places, *self.SIZES)


class Generations(GpusTest):
    """Hosts with GPUs of different generations: what a block moves, and how many blocks a GPU runs at once,
    is each host's own, and the plan is the first rank's host's."""
    OLD = {"STANDIN_CUDA_CAPABILITY": 70, "STANDIN_CUDA_RESIDENCY": 1}
    NEW = {"STANDIN_CUDA_CAPABILITY": 100}
    SIZES = ("--device-memory", "--min", "12", "--max", "4M", "--stepfactor", 512)

    def generations(self, *variables_of_host):
        self.variables = {}
        hosts = self.cluster(len(variables_of_host))
        for host, variables in zip(hosts, variables_of_host):
            host.start("--devices", "cuda:0x2", "--log-level", "debug", topology="1xdgx_h100",
                       env=environment(**variables))
        return hosts, [(host, device) for host in hosts for device in range(2)]

    def test_the_host_that_plans_has_the_larger_gpus(self):
        """Its plans have more blocks than the others' GPUs run at once."""
        hosts, places = self.generations(self.NEW, self.OLD)
        self.perf_all(places, *self.SIZES)
        channels = re.findall(r"planned by .* (\d+) channels", hosts[1].daemon.stderr())
        self.assertGreater(max(map(int, channels)), 2)

    def test_the_host_that_plans_has_the_smaller_gpus(self):
        _, places = self.generations(self.OLD, self.NEW)
        self.perf_all(places, *self.SIZES)


class ResidencyTest(GpusTest):
    """Blocks wait for multiprocessors: runs that wait for the other host must leave theirs to others."""

    def test_two_hosts_begin_many_runs_in_opposite_orders(self):
        few = {"STANDIN_CUDA_RESIDENCY": 1}
        self.play(self.places(1, 1, variables=few), "many-streams-in-any-order")


class Kinds(GpusTest):
    def test_a_communicator_has_one_kind(self):
        (one, _), (two, _) = self.places(1, 1, devices=["cuda:0x1", "host:1"])
        identifier = one.new_id()
        first = one.start_rank(identifier, 2, 0, OP, device=0)
        self.until(lambda: self.ctl_json(one.daemon, "comms")["comms"])
        steps = two.start_rank(identifier, 2, 1, OP, device=0).finish()
        failed = [step for step in steps if step["result"] != "BLINK_OK"]
        self.assertEqual(failed[0]["result"], "BLINK_ERR_UNSUPPORTED", steps)
        self.assertRegex(failed[0]["text"], "rank 0.*on a GPU.*rank 1.*a host device.*one kind")
        first.kill()


class Direct(GpusTest):
    """[network] gpu_direct, as far as it goes without an RDMA device; tests/unit/net/test_data.c has one."""

    def hosts(self, **variables):
        hosts = self.cluster(2)
        for host in hosts:
            host.start("--devices", "cuda:0x1", transport="auto", gpu_direct="yes",
                       env=environment(**variables))
        self.variables = variables
        return hosts

    def exports(self, host):
        return host.daemon.stderr().count("64 MiB of GPU 0 may be written to by RDMA devices")

    def test_memory_is_exported_by_each_worker_and_not_used_without_rdma(self):
        hosts = self.hosts()
        self.until(lambda: self.exports(hosts[0]) == 1)
        self.perf([(host, 0) for host in hosts], "allreduce", "--device-memory", "--min", "1M", "--max", "1M")
        os.kill(self.worker(hosts[0]), signal.SIGKILL)
        self.until(lambda: self.exports(hosts[0]) == 2)
        self.until(lambda: self.worker(hosts[0]))
        self.perf([(host, 0) for host in hosts], "allreduce", "--device-memory", "--min", "1M", "--max", "1M")

    def test_a_driver_that_exports_none_is_named(self):
        hosts = self.hosts(STANDIN_CUDA_DMA_BUFS=0)
        for host in hosts:
            self.assertIn("gpu_direct: not for GPU 0: its driver makes no dma-bufs", host.daemon.stderr())
        self.perf([(host, 0) for host in hosts], "allreduce", "--device-memory", "--min", "1M", "--max", "1M")


class Ends(EndsTests, GpusTest):
    OPPOSITE_OPS = 200

    def test_killed_worker_is_named_everywhere(self):
        places = self.places(1, 1)
        ranks = self.working(places)
        os.kill(self.worker(places[1][0]), signal.SIGKILL)
        for rank in ranks:
            steps = rank.finish()
            failed = [step for step in steps if step["result"] != "BLINK_OK"]
            self.assertRegex(failed[0]["text"], "GPU worker")
        self.until(lambda: self.worker(places[1][0]))
        self.check_serve(places)

    def test_mismatch_costs_one_op(self):
        places = self.places(1, 1, 1)
        for count in (1001, 300000):
            other = {2: [f"allreduce:{count}:float32:sum", GOOD, "destroy"]}
            for steps in self.run_at(places, OP, GOOD, "destroy", own=other):
                failed = [step for step in steps if step["result"] != "BLINK_OK"]
                self.assertEqual([step["result"] for step in failed], ["BLINK_ERR_MISMATCH"], steps)
                self.assertEqual(steps[-1]["step"], "close")


if __name__ == "__main__":
    unittest.main()

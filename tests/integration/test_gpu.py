"""GPU memory, streams and graphs on real processes: the daemon, its GPU worker and forked ranks, all over
the stand-in for the driver, which runs the host's build of the kernels over host memory. No measurement of
a GPU."""
import contextlib
import os
import signal

from harness import BLINK_PERF, LIMIT_S, Daemon, IntegrationTest, Process, new_id, unshared
from limit import SHORT_S

BLINK_GPU_API = os.environ["BLINK_GPU_API"]
STANDIN = os.environ["STANDIN"]

COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
               "alltoall", "alltoallv", "sendrecv"]


def gpu_environment(**variables):
    # hwloc's plugins load libraries of other vendors, which leak.
    return {**os.environ, "LD_LIBRARY_PATH": STANDIN, "HWLOC_PLUGINS_PATH": "/nonexistent",
            **{name: str(value) for name, value in variables.items()}}


class GpuTest(IntegrationTest):
    def gpu_daemon(self, devices="cuda:0x8", *flags, **variables):
        return self.daemon("--devices", devices, *self.limits(init_timeout_s=LIMIT_S / 2), *flags,
                           env=gpu_environment(**variables))

    def ranks(self, daemon, scenario, ranks, under=(), **variables):
        process = Process([*under, BLINK_GPU_API, scenario, ranks],
                          env=gpu_environment(BLINK_SOCKET=daemon.socket, **variables))
        self.children.append(process)
        return process

    def play(self, scenario, ranks=4, daemon=None, status=0, **variables):
        daemon = daemon or self.gpu_daemon(**variables)
        process = self.ranks(daemon, scenario, ranks, **variables)
        self.assertEqual(process.wait(), status, process.stderr())
        daemon.check_serves()
        return daemon


class MemoryTest(GpuTest):
    def test_device_memory(self):
        self.play("device-memory")

    def test_memory_freed_and_allocated_again(self):
        self.play("reuse")

    def test_several_extents(self):
        self.play("extents")

    def test_pools(self):
        self.play("pools", ranks=3)

    def test_host_memory_is_staged(self):
        self.play("host-memory", ranks=3)

    def test_ipc_handles_refused_by_configuration(self):
        config = os.path.join(self.directory(), "blinkd.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write("[gpu]\nlegacy_ipc = no\n")
        daemon = self.gpu_daemon("cuda:0x4", "--config", config)
        self.play("device-memory", daemon=daemon)

    def test_clients_in_another_pid_namespace_are_staged(self):
        """As those in containers are: the driver refuses to open an IPC handle of theirs."""
        under = unshared("--pid", "--fork", "--kill-child")
        daemon = self.gpu_daemon()
        process = self.ranks(daemon, "device-memory", 4, under=under)
        self.assertEqual(process.wait(), 0, process.stderr())
        daemon.check_serves()

    def test_several_gpus(self):
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=4)
        self.assertEqual([device["gpu"] for device in self.ctl_json(daemon, "devices")["devices"]],
                         [0, 1, 2, 3])
        for scenario in ("device-memory", "extents", "pools", "stream", "graph"):
            self.play(scenario, daemon=daemon, STANDIN_CUDA_GPUS=4)

    def test_several_devices_on_each_of_several_gpus(self):
        daemon = self.gpu_daemon("cuda:0x2,1x2", STANDIN_CUDA_GPUS=2)
        for scenario in ("device-memory", "stream"):
            self.play(scenario, daemon=daemon, STANDIN_CUDA_GPUS=2)

    def test_the_daemons_launches_do_not_block(self):
        """A launch that waited for its kernel would wait for those of the other GPUs, which come after it."""
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=2, CUDA_LAUNCH_BLOCKING=1)
        self.play("device-memory", ranks=2, daemon=daemon, STANDIN_CUDA_GPUS=2)

    def test_gpus_that_cannot_reach_each_other_meet_in_host_memory(self):
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=3, STANDIN_CUDA_NO_PEER=1)
        for scenario in ("device-memory", "pools", "stream", "two-streams"):
            self.play(scenario, ranks=3, daemon=daemon, STANDIN_CUDA_GPUS=3, STANDIN_CUDA_NO_PEER=1)


class ScratchTest(GpuTest):
    """Each run takes 5.3 MB of the GPU's memory beside the ranks' own: twelve at once 63 MB."""

    def check_group(self, limit, most):
        """Results of a group whose runs wait for one another, and what they were seen to take."""
        daemon = self.daemon("--devices", "cuda:0x4", "--topology", "dgx1v",
                             *self.limits(gpu_scratch_bytes_per_tenant=limit), env=gpu_environment())
        group = "group:12:allreduce:262144:float32:sum:inplace"
        ranks = self.start_rank(daemon, new_id(), 4, [0, 1, 2, 3], [group], [0, 1, 2, 3],
                                env=gpu_environment())
        seen = 0
        while ranks.child.poll() is None:
            [tenant] = self.ctl_json(daemon, "tenants")["tenants"]
            seen = max(seen, tenant["budgets"]["gpu_scratch_bytes"]["used"])
        self.assertEqual(ranks.wait(), 0, ranks.describe())
        self.assert_all_ok(ranks.steps())
        self.assertLessEqual(seen, most)
        [tenant] = self.ctl_json(daemon, "tenants")["tenants"]
        self.assertEqual(tenant["budgets"]["gpu_scratch_bytes"]["used"], 0)
        return seen

    def test_runs_wait_for_scratch_on_gpus(self):
        self.assertGreater(self.check_group("8M", 8 << 20), 0)

    def test_a_run_that_needs_more_than_the_budget_runs_by_itself(self):
        self.check_group("64K", 6 << 20)


class TransportTest(GpuTest):
    def transports(self, *flags, **variables):
        daemon = self.gpu_daemon(*flags, **variables)
        process = self.ranks(daemon, "hold", 3, **variables)
        process.wait_for("the move", lambda ranks: "holding" in ranks.stdout())
        plans = self.ctl_json(daemon, "explain", "--comm", 1)["plans"]
        process.say()
        self.assertEqual(process.wait(), 0, process.stderr())
        return {plan["transport"] for plan in plans}

    def test_moves_of_one_gpu_that_takes_turns_are_left_to_the_copy_engines(self):
        self.assertEqual(self.transports("cuda:0x3"), {"copy engine"})

    def test_under_mps_kernels_move(self):
        self.assertEqual(self.transports("cuda:0x3", "--gpu-sharing", "mps"), {"local"})

    def test_gpus_that_cannot_reach_each_other(self):
        self.assertEqual(self.transports("cuda:all", STANDIN_CUDA_GPUS=3, STANDIN_CUDA_NO_PEER=1),
                         {"host memory"})


class LinksTest(GpuTest):
    """Plans of a machine with links, on one GPU: lanes that wait for one another."""

    def test_every_format_of_slots(self):
        for protocol in ("simple", "ll", "ll128"):
            daemon = self.gpu_daemon("cuda:0x4", "--topology", "dgx1v", "--protocol", protocol)
            for scenario in ("device-memory", "stream", "stream-group", "graph"):
                self.play(scenario, daemon=daemon)
            process = self.ranks(daemon, "hold", 3)
            process.wait_for("the move", lambda ranks: "holding" in ranks.stdout())
            comm = max(comm["comm"] for comm in self.ctl_json(daemon, "comms")["comms"])
            plans = self.ctl_json(daemon, "explain", "--comm", comm)["plans"]
            process.say()
            self.assertEqual(process.wait(), 0, process.stderr())
            self.assertEqual({(plan["protocol"], plan["transport"]) for plan in plans}, {(protocol, "local")})

    def test_more_devices_than_the_topology_has(self):
        daemon = Daemon(self, "--devices", "cuda:0x9", "--topology", "dgx1v", wait=False,
                        env=gpu_environment())
        self.assertEqual(daemon.wait(), 1)
        self.assertIn("9 devices, but topology dgx1v has only 8 gpus", daemon.stderr())

    def test_more_lanes_than_a_gpu_runs_at_once(self):
        daemon = self.gpu_daemon("cuda:0x8", "--topology", "dgx1v")
        status, _, err = self.run_command([BLINK_PERF, "--socket", daemon.socket, "allgather",
                                           "--device-memory", "-b", "4M", "-e", "4M", "-n", 1],
                                          env=gpu_environment())
        self.assertNotEqual(status, 0)
        self.assertRegex(err, r"the plan has \d+ lanes on GPU 0, which can run 64 blocks at the same time")
        daemon.check_serves()


class StreamTest(GpuTest):
    def test_ops_in_the_order_of_a_stream(self):
        self.play("stream")

    def test_two_streams(self):
        self.play("two-streams")

    def test_groups_on_two_streams(self):
        self.play("stream-group", ranks=3)

    def test_staged_memory_on_a_stream(self):
        self.play("staged-stream", ranks=2)

    def test_a_rank_that_comes_late(self):
        self.play("late", ranks=3)

    def test_graphs(self):
        self.play("graph")

    def test_replays_and_other_ops_in_turns(self):
        self.play("graph-beside-eager")


class FaultTest(GpuTest):
    def test_a_killed_rank(self):
        self.play("killed-rank", status=1)

    def test_a_stream_that_never_comes(self):
        self.play("never-ready", ranks=2)

    def test_a_killed_gpu_worker(self):
        daemon = self.gpu_daemon("cuda:0x4")
        process = self.ranks(daemon, "until-lost", 4)
        process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
        os.kill(self.ctl_json(daemon, "status")["gpu_worker_pid"], signal.SIGKILL)
        self.assertEqual(process.wait(), 0, process.stderr())
        self.assertEqual(self.ctl_json(daemon, "status")["gpu_worker_restarts"], 1)
        self.play("device-memory", daemon=daemon)

    def test_a_stopped_gpu_worker_is_replaced(self):
        daemon = self.gpu_daemon("cuda:0x4", *self.limits(run_timeout_s=SHORT_S / 8, run_timeout_factor=1e6))
        process = self.ranks(daemon, "until-lost", 4)
        process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
        os.kill(self.ctl_json(daemon, "status")["gpu_worker_pid"], signal.SIGSTOP)
        self.assertEqual(process.wait(), 0, process.stderr())
        self.until(lambda: self.ctl_json(daemon, "status")["gpu_worker_restarts"] >= 1)
        self.play("device-memory", daemon=daemon)

    def test_a_gpu_worker_of_which_one_thread_is_stuck_is_replaced(self):
        """The thread that makes runs: the other one answers."""
        daemon = self.gpu_daemon("cuda:0x4", *self.limits(run_timeout_s=LIMIT_S / 60),
                                 STANDIN_CUDA_FAIL="cuLaunchKernel:300:hang")
        process = self.ranks(daemon, "until-lost", 4, STANDIN_CUDA_FAIL="")
        self.assertEqual(process.wait(), 0, process.stderr())
        self.until(lambda: self.ctl_json(daemon, "status")["gpu_worker_restarts"] >= 1)
        self.assertIn("has not ended a run that was aborted for", daemon.stderr())
        self.play("device-memory", daemon=daemon)

    def test_a_lost_context(self):
        daemon = self.gpu_daemon("cuda:0x4", STANDIN_CUDA_LOST=30)
        process = self.ranks(daemon, "until-lost", 4)
        self.assertEqual(process.wait(), 0, process.stderr())
        daemon.check_serves()

    def test_a_killed_daemon_lets_streams_go_on(self):
        daemon = self.gpu_daemon("cuda:0x4")
        process = self.ranks(daemon, "until-lost", 4)
        process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
        daemon.kill()
        self.assertEqual(process.wait(), 0, process.stderr())

    def test_a_daemon_that_stops_lets_streams_go_on(self):
        daemon = self.gpu_daemon("cuda:0x4")
        process = self.ranks(daemon, "until-lost", 4)
        process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
        daemon.stop()
        self.assertEqual(process.wait(), 0, process.stderr())

    def replays_until(self, end):
        """Several times: what is to be seen depends on where the replays just are."""
        for _ in range(4):
            daemon = self.gpu_daemon("cuda:0x4")
            process = self.ranks(daemon, "graph-until-lost", 4)
            process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
            end(daemon)
            self.assertEqual(process.wait(), 0, process.stderr())
            daemon.kill()

    def test_replays_when_the_daemon_is_killed(self):
        self.replays_until(lambda daemon: daemon.kill())

    def test_replays_when_the_daemon_stops(self):
        self.replays_until(lambda daemon: daemon.stop())

    def test_replays_when_the_gpu_worker_is_killed(self):
        self.replays_until(lambda daemon: os.kill(self.ctl_json(daemon, "status")["gpu_worker_pid"],
                                                  signal.SIGKILL))

    def test_clients_and_the_gpu_worker_that_end_at_once(self):
        daemon = self.gpu_daemon("cuda:0x4")
        for _ in range(10):
            process = self.ranks(daemon, "graph-until-lost", 4)
            process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
            worker = self.ctl_json(daemon, "status")["gpu_worker_pid"]
            clients = [client["pid"] for client in self.ctl_json(daemon, "clients")["clients"]]
            for pid in [*clients, worker]:
                with contextlib.suppress(ProcessLookupError):  # a rank ends when another one is gone
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            daemon.wait_for("another worker", lambda daemon: self.ctl_json(daemon, "status")["gpu_worker_pid"]
                            not in (None, worker))
        daemon.check_serves()

    def test_bad_arguments(self):
        self.play("bad-arguments", ranks=2)

    def test_gpu_memory_on_host_devices(self):
        daemon = self.daemon(devices=2)
        process = self.ranks(daemon, "host-devices", 2)
        self.assertEqual(process.wait(), 0, process.stderr())

    def test_a_daemon_without_a_driver_that_is_asked_for_gpus(self):
        daemon = Daemon(self, "--devices", "cuda:0", wait=False,
                        env={**os.environ, "LD_LIBRARY_PATH": "/nonexistent"})
        self.assertEqual(daemon.wait(), 1)
        self.assertIn("no CUDA driver", daemon.stderr())

    def test_a_gpu_that_is_not_there(self):
        daemon = Daemon(self, "--devices", "cuda:3", wait=False, env=gpu_environment())
        self.assertEqual(daemon.wait(), 1)
        self.assertIn("cuda:3: this machine has GPUs 0 to 0", daemon.stderr())

    def test_gpus_that_are_not_there_leave_host_devices(self):
        daemon = self.daemon("--devices", "auto", env={**os.environ, "LD_LIBRARY_PATH": "/nonexistent"})
        self.assertEqual({device["kind"] for device in self.ctl_json(daemon, "devices")["devices"]}, {"host"})

    def test_host_devices_beside_gpus(self):
        daemon = self.gpu_daemon("cuda:0x2+host:2")
        kinds = [device["kind"] for device in self.ctl_json(daemon, "devices")["devices"]]
        self.assertEqual(kinds, ["cuda", "cuda", "host", "host"])
        self.play("device-memory", ranks=2, daemon=daemon)
        status, out, err = self.run_command([BLINK_PERF, "--socket", daemon.socket, "allreduce", "--devices",
                                             "2,3", "--check", "--iters", 1])
        self.assertEqual(status, 0, out + err)

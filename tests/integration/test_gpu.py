"""GPU memory, streams and graphs on real processes: the daemon, its GPU worker and forked ranks, all over
the stand-in for the driver, which runs the host's build of the kernels over host memory. No measurement of
a GPU."""
import contextlib
import os
import signal
import socket

from harness import BLINK_PERF, LIMIT_S, Daemon, IntegrationTest, Process, new_id
from limit import SHORT_S

BLINK_GPU_API = os.environ["BLINK_GPU_API"]
STANDIN = os.environ["STANDIN"]
TOO_OLD = ("the driver, libcuda.so.1 of CUDA 11.7, has no cuStreamGetId: blinkd needs one of CUDA 12.0 "
           "(R525) or later")

COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
               "alltoall", "alltoallv", "sendrecv"]


def gpu_environment(**variables):
    # hwloc's plugins load libraries of other vendors, which leak.
    return {**os.environ, "LD_LIBRARY_PATH": STANDIN, "HWLOC_PLUGINS_PATH": "/nonexistent",
            **{name: str(value) for name, value in variables.items()}}


def too_old_environment():
    return {**gpu_environment(), "LD_LIBRARY_PATH": STANDIN + "/too_old", "STANDIN_CUDA_VERSION": "11070"}


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

    def test_weights_of_sums_in_gpu_memory(self):
        self.play("weights")
        told = self.ranks(self.gpu_daemon(), "weights", 4, STANDIN_CUDA_FAIL="cuMemcpyAsync:1")
        self.assertEqual(told.wait(), 1)
        self.assertRegex(told.stderr(), "create.*cuMemcpyAsync")

    def test_memory_freed_and_allocated_again(self):
        self.play("reuse")

    def test_several_extents(self):
        self.play("extents")

    def test_a_thousand_extents(self):
        """Used in place; what cannot be exported whole is staged, and nothing of it stays with the daemon."""
        daemon = self.play("many-extents", ranks=2)
        self.assert_nothing_registered(daemon)

    def test_registrations_that_are_begun_and_not_ended(self):
        daemon = self.play("begun-extents", ranks=2)
        self.assert_nothing_registered(daemon)

    def test_a_gpu_worker_killed_between_two_messages_of_a_registration(self):
        daemon = self.gpu_daemon("cuda:0x4")
        process = self.ranks(daemon, "lost-extents", 1)
        process.wait_for("two registrations", lambda ranks: "begun" in ranks.stdout())
        worker = self.ctl_json(daemon, "status")["gpu_worker_pid"]
        os.kill(worker, signal.SIGKILL)
        self.assertEqual(process.wait(), 0, process.stderr())
        self.assert_nothing_registered(daemon)
        self.until(lambda: self.ctl_json(daemon, "status")["gpu_worker_pid"] not in [None, 0, worker])
        self.play("extents", daemon=daemon)

    def assert_nothing_registered(self, daemon):
        def used():
            [tenant] = self.ctl_json(daemon, "tenants")["tenants"]
            return {name: tenant["budgets"][name]["used"] for name in ["regions", "registered_bytes"]}
        self.until(lambda: used() == {"regions": 0, "registered_bytes": 0})

    def test_pools(self):
        self.play("pools", ranks=3)

    def faults(self, scenario, **variables):
        """What CUDA leaves undefined and was done all the same."""
        file = os.path.join(self.directory(), "faults")
        self.play(scenario, ranks=3, STANDIN_CUDA_FAULTS=file, **variables)
        if not os.path.exists(file):
            return []
        with open(file, encoding="ascii") as lines:
            return lines.read().splitlines()

    def test_nothing_is_freed_that_the_daemon_has_open(self):
        self.assertEqual(self.faults("released"), [])
        self.assertEqual(self.faults("released-by-several"), [])

    def test_pools_are_used_in_place_after_a_promise(self):
        """Six of each of three ranks, each imported once, also that of which there are two allocations."""
        no_more = "cuMemPoolImportFromShareableHandle:19"
        self.assertEqual(self.faults("pools-promised", STANDIN_CUDA_FAIL=no_more), [])

    def test_memory_that_is_freed_without_a_word_comes_back(self):
        self.assertEqual(len(self.faults("freed-without-a-word")), 3)

    def test_who_is_out_of_memory_gets_back_what_was_freed(self):
        faults = self.faults("out-of-memory", STANDIN_CUDA_MEMORY=64 << 20)
        self.assertEqual(len(faults), 9)

    def test_host_memory_is_staged(self):
        self.play("host-memory", ranks=3)

    def test_ipc_handles_refused_by_configuration(self):
        config = os.path.join(self.directory(), "blinkd.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write("[gpu]\nlegacy_ipc = no\n")
        daemon = self.gpu_daemon("cuda:0x4", "--config", config)
        self.play("device-memory", daemon=daemon)

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

    def test_memory_that_peers_do_not_reach_is_staged(self):
        """Memory of cudaMalloc(), if the driver lets nobody have it but the GPU for which it was opened."""
        alone = {"STANDIN_CUDA_GPUS": 2, "STANDIN_CUDA_IPC_ALONE": 1}
        daemon = self.gpu_daemon("cuda:all", **alone)
        for scenario in ("device-memory", "extents"):
            self.play(scenario, ranks=2, daemon=daemon, **alone)
        self.assertEqual(daemon.stderr().count("memory of cudaMalloc() is staged: GPU"), 1)

    def test_the_log_says_which_gpus_are_visible(self):
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=3, CUDA_VISIBLE_DEVICES="2,0")
        self.assertIn("CUDA_VISIBLE_DEVICES=2,0: blinkd has the GPUs that it names", daemon.stderr())
        self.assertEqual(len(self.ctl_json(daemon, "devices")["devices"]), 2)

    def test_gpus_that_cannot_reach_each_other_meet_in_host_memory(self):
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=3, STANDIN_CUDA_PEERS="")
        for scenario in ("device-memory", "pools", "stream", "two-streams"):
            self.play(scenario, ranks=3, daemon=daemon, STANDIN_CUDA_GPUS=3, STANDIN_CUDA_PEERS="")


class ScratchTest(GpuTest):
    """Each run takes 6.8 MB of the GPU's memory beside the ranks' own: twelve at once 81 MB."""

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
        self.check_group("64K", 8 << 20)


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

    def test_each_of_several_gpus_copies_its_own(self):
        """Where no lane waits for another: no kernel is launched, for the first one would fail."""
        four = {"STANDIN_CUDA_GPUS": 4}
        daemon = self.gpu_daemon("cuda:all", "--topology", "dgx_h100", "--protocol", "simple", **four,
                                 STANDIN_CUDA_FAIL="cuLaunchKernelEx:1")
        for collective, status in ("allgather", 0), ("alltoall", 0), ("allreduce", 1):
            result, out, err = self.run_command(
                [BLINK_PERF, collective, "--ranks", "4", "--threads", "--device-memory", "--check", "-b",
                 "1M", "-e", "1M", "--iters", "2"], env=gpu_environment(BLINK_SOCKET=daemon.socket, **four))
            self.assertEqual(result, status, out + err)

    def test_under_mps_kernels_move(self):
        self.assertEqual(self.transports("cuda:0x3", "--gpu-sharing", "mps"), {"local"})

    def test_gpus_that_cannot_reach_each_other(self):
        self.assertEqual(self.transports("cuda:all", STANDIN_CUDA_GPUS=3, STANDIN_CUDA_PEERS=""),
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
        """Another plan takes the place of one with so many, unless that one is asked for by name."""
        daemon = self.gpu_daemon("cuda:0x8", "--topology", "dgx1v")
        command = [BLINK_PERF, "--socket", daemon.socket, "allgather", "--device-memory", "-b", "4M",
                   "-e", "4M", "-n", 1]
        status, out, err = self.run_command(command, env=gpu_environment())
        self.assertEqual(status, 0, out + err)
        status, _, err = self.run_command([*command, "--algorithm", "trees"], env=gpu_environment())
        self.assertNotEqual(status, 0)
        self.assertRegex(err, r"the plan has \d+ lanes on GPU 0, which can run 64 blocks at the same time")
        daemon.check_serves()


class ResidencyTest(GpuTest):
    """Blocks wait for multiprocessors: kernels whose blocks wait for one another must have been let in whole,
    and on all their GPUs, or they wait for ever."""

    def test_many_runs_at_once(self):
        """Of 20 communicators' runs a few fit at a time."""
        daemon = self.gpu_daemon("cuda:all", "--topology", "dgx1v", STANDIN_CUDA_RESIDENCY=3,
                                 STANDIN_CUDA_GPUS=4)
        for scenario in ("device-memory", "two-streams", "many-streams", "graph"):
            self.play(scenario, daemon=daemon, STANDIN_CUDA_GPUS=4)


class StreamTest(GpuTest):
    def test_ops_in_the_order_of_a_stream(self):
        self.play("stream")

    def test_two_streams(self):
        self.play("two-streams")

    def test_streams_that_are_full(self):
        """A thread that puts ops on its stream waits until there is room, in the middle of an op, too; what
        the stream needs to go on needs no such thread."""
        full = {"STANDIN_CUDA_DEPTH": 1}
        daemon = self.gpu_daemon()
        for scenario in ("stream", "two-streams", "stream-group", "staged-stream", "graph", "many-streams"):
            with self.subTest(scenario=scenario):
                self.play(scenario, ranks=3, daemon=daemon, **full)
        status, out, err = self.run_command(
            [BLINK_PERF, "allreduce", "--ranks", "3", "--threads", "--device-memory", "--stream", "--check",
             "-b", "4K", "-e", "4K", "--iters", "20"],
            env=gpu_environment(BLINK_SOCKET=daemon.socket, **full))
        self.assertEqual(status, 0, out + err)

    def test_more_streams_than_queues(self):
        """The application's streams share 8 queues, those of the GPU worker 32."""
        daemon = self.gpu_daemon("cuda:0x2", STANDIN_CUDA_QUEUES=1)
        self.play("many-streams", ranks=2, daemon=daemon, STANDIN_CUDA_QUEUES=1)

    def test_a_queue_for_each_stream_lets_ranks_submit_in_any_order(self):
        daemon = self.gpu_daemon("cuda:0x2", STANDIN_CUDA_QUEUES=1)
        self.play("many-streams-in-any-order", ranks=2, daemon=daemon, STANDIN_CUDA_QUEUES=1,
                  CUDA_DEVICE_MAX_CONNECTIONS=32)

    def test_streams_that_hold_each_other_up_go_on_after_the_op_timeout(self):
        daemon = self.gpu_daemon("cuda:0x2", STANDIN_CUDA_QUEUES=1)
        self.play("many-streams-that-time-out", ranks=2, daemon=daemon, STANDIN_CUDA_QUEUES=1)

    def test_every_scenario_of_streams_with_a_single_queue(self):
        daemon = self.gpu_daemon("cuda:0x3", STANDIN_CUDA_QUEUES=1)
        for scenario in ("stream", "two-streams", "stream-group", "staged-stream", "graph"):
            self.play(scenario, ranks=3, daemon=daemon, STANDIN_CUDA_QUEUES=1, CUDA_DEVICE_MAX_CONNECTIONS=1)

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
        daemon = self.gpu_daemon()
        process = self.ranks(daemon, "killed-rank", 4)
        self.assertEqual((process.wait(), process.stderr()), (1, ""))  # the survivors have nothing to say
        daemon.check_serves()

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
        daemon = self.gpu_daemon("cuda:0x4", *self.limits(run_timeout_s=SHORT_S / 2, run_timeout_factor=1e6))
        process = self.ranks(daemon, "until-lost", 4)
        process.wait_for("load", lambda ranks: "under way" in ranks.stdout())
        os.kill(self.ctl_json(daemon, "status")["gpu_worker_pid"], signal.SIGSTOP)
        self.assertEqual(process.wait(), 0, process.stderr())
        self.until(lambda: self.ctl_json(daemon, "status")["gpu_worker_restarts"] >= 1)
        self.play("device-memory", daemon=daemon)

    def test_a_gpu_worker_of_which_one_thread_is_stuck_is_replaced(self):
        """The thread that makes runs: the other one answers."""
        daemon = self.gpu_daemon("cuda:0x4", *self.limits(run_timeout_s=LIMIT_S / 60),
                                 STANDIN_CUDA_FAIL="cuLaunchKernelEx:300:hang")
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

    def test_a_lost_context_of_one_gpu_of_several(self):
        """The other GPUs' parts of the run say nothing."""
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=4, STANDIN_CUDA_LOST=30,
                                 STANDIN_CUDA_LOST_ALONE=1)
        process = self.ranks(daemon, "until-lost", 4, STANDIN_CUDA_GPUS=4)
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

    def test_a_daemon_that_stops_waits_for_no_worker_that_hangs(self):
        """Which would have to close the clients' memory first."""
        daemon = self.gpu_daemon("cuda:0x2", *self.limits(run_timeout_s=LIMIT_S))
        process = self.ranks(daemon, "never-ready", 2, BLINK_TEST_TIMEOUT_SCALE=100)
        process.wait_for("memory", lambda ranks: self.ctl_json(daemon, "status")["registered_bytes"] > 0)
        worker = self.ctl_json(daemon, "status")["gpu_worker_pid"]
        os.kill(worker, signal.SIGSTOP)
        daemon.stop()
        self.assertEqual(process.wait(), 1, process.stderr())
        # A process that has ended has no program, whether somebody has waited for it by now or not.
        self.until(lambda: not os.path.exists(f"/proc/{worker}/exe"))

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

    def test_a_daemon_with_a_driver_that_is_too_old(self):
        daemon = Daemon(self, "--devices", "cuda:0", wait=False, env=too_old_environment())
        self.assertEqual(daemon.wait(), 1)
        self.assertIn("devices cuda: " + TOO_OLD, daemon.stderr())

    def test_a_gpu_that_one_process_may_use(self):
        for sharing in ("isolated", "mps"):  # without an MPS daemon
            daemon = Daemon(self, "--devices", "cuda:0", "--gpu-sharing", sharing, wait=False,
                            env=gpu_environment(STANDIN_CUDA_EXCLUSIVE=1))
            self.assertEqual(daemon.wait(), 1)
            self.assertRegex(daemon.stderr(), "GPU 0 is in compute mode EXCLUSIVE_PROCESS, which keeps "
                             "applications off it beside blinkd: nvidia-smi -i [0-9a-f:.]+ -c DEFAULT, or "
                             "--gpu-sharing mps")
        daemon = self.gpu_daemon("cuda:0x2", "--gpu-sharing", "mps", STANDIN_CUDA_EXCLUSIVE=1,
                                 STANDIN_CUDA_MPS=1)
        self.play("device-memory", ranks=2, daemon=daemon)

    def test_a_gpu_whose_streams_know_no_words_of_64_bits(self):
        daemon = Daemon(self, "--devices", "cuda:0", wait=False, env=gpu_environment(STANDIN_CUDA_WORDS=32))
        self.assertEqual(daemon.wait(), 1)
        self.assertRegex(daemon.stderr(),
                         "GPU 0, .* at [0-9a-f:.]+, neither writes nor awaits words of 64 bits")

    def test_each_gpu_is_given_its_time_to_open(self):
        """The driver may have to compile kernels for each of them."""
        path = os.path.join(self.directory(), "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(LIMIT_S)
            self.daemon("--devices", "cuda:all",
                        env=gpu_environment(STANDIN_CUDA_GPUS=3, NOTIFY_SOCKET=path))
            lines = []
            while "READY=1" not in lines:
                lines += notify.recv(4096).decode().splitlines()
        # One for each GPU, and one for what comes after the last.
        self.assertEqual(lines.count("EXTEND_TIMEOUT_USEC=60000000"), 4)

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
                                             "2,3", "-b", "1K", "-e", "1M", "--check", "--iters", 1])
        self.assertEqual(status, 0, out + err)

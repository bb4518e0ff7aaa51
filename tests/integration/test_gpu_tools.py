"""blinkctl and blink-perf where devices are on GPUs: over the stand-in for the driver, which is no
measurement of a GPU."""
import json
import os
import re

from harness import BLINK_PERF
from test_gpu import TOO_OLD, GpuTest, gpu_environment, too_old_environment

STAND_IN = "# stand-in driver, host memory: no measurement of a GPU"


class StatusTest(GpuTest):
    def test_status_shows_how_gpus_are_shared_and_their_worker(self):
        daemon = self.gpu_daemon("cuda:0x2")
        status = self.ctl_json(daemon, "status")
        self.assertEqual((status["gpu_sharing"], status["gpu_worker_restarts"]), ("isolated", 0))
        with open(f"/proc/{status['gpu_worker_pid']}/cmdline", encoding="utf-8") as file:
            self.assertIn("blinkd", file.read())
        text = self.ctl(daemon, "status")
        self.assertIn("gpu sharing    isolated (", text)
        self.assertIn(f"gpu worker     pid {status['gpu_worker_pid']}, 0 restarts", text)

    def test_status_warns_of_mps(self):
        daemon = self.gpu_daemon("cuda:0x2", "--gpu-sharing=mps")
        self.assertEqual(self.ctl_json(daemon, "status")["gpu_sharing"], "mps")
        self.assertRegex(self.ctl(daemon, "status"), r"gpu sharing +mps \(.*one client may end all")

    def test_a_driver_that_does_not_tell_of_mps_is_not_said_to_be_without(self):
        missing = "no MPS daemon serves this process"
        daemon = self.gpu_daemon("cuda:0x2", "--gpu-sharing=mps")
        daemon.stop()  # then all that it said is here
        self.assertIn(missing, daemon.stderr())
        silent = "cuDeviceGetAttribute:9:1"  # the ninth that is asked is about MPS; it is an invalid value
        daemon = self.gpu_daemon("cuda:0x2", "--gpu-sharing=mps", STANDIN_CUDA_FAIL=silent)
        daemon.stop()
        self.assertNotIn(missing, daemon.stderr())

    def test_devices_show_which_gpu_they_are_on(self):
        daemon = self.gpu_daemon("cuda:1x2,0+host:1", STANDIN_CUDA_GPUS=2)
        devices = self.ctl_json(daemon, "devices")["devices"]
        self.assertEqual([(device["kind"], device["gpu"]) for device in devices],
                         [("cuda", 1), ("cuda", 1), ("cuda", 0), ("host", None)])
        uuids = [device["gpu_uuid"] for device in devices]
        self.assertEqual(uuids[0], uuids[1])
        self.assertNotEqual(uuids[0], uuids[2])
        self.assertRegex(uuids[0], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertIsNone(uuids[3])
        rows = [line.split() for line in self.ctl(daemon, "devices").splitlines()]
        self.assertEqual([row[-3:] for row in rows[1:]], [["1", uuids[0], "0,1"], ["1", uuids[1], "0,1"],
                                                          ["0", uuids[2], "0,1"], ["-", "-", "-"]])

    def test_devices_show_which_gpus_cannot_reach_each_other(self):
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=2, STANDIN_CUDA_PEERS="")
        self.assertEqual([device["gpu_peers"] for device in self.ctl_json(daemon, "devices")["devices"]],
                         [[0], [1]])

    def test_without_gpus_nothing_is_said_of_them(self):
        daemon = self.daemon(devices=2)
        status = self.ctl_json(daemon, "status")
        self.assertEqual((status["gpu_sharing"], status["gpu_worker_pid"]), (None, None))
        self.assertNotIn("gpu", self.ctl(daemon, "status"))


class PerfTest(GpuTest):
    def perf(self, daemon, *arguments, environment=None):
        return self.run_command([BLINK_PERF, "--socket", daemon.socket, "-n", 2, "-w", 1, *arguments],
                                env=environment or gpu_environment())

    def measure(self, daemon, *arguments):
        """What it printed as JSON lines; nothing may be wrong."""
        status, out, err = self.perf(daemon, *arguments, "--json")
        self.assertEqual(status, 0, out + err)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual({line["wrong"] for line in lines}, {0})
        return lines

    def test_every_kind_of_memory_and_every_order(self):
        daemon = self.gpu_daemon("cuda:0x3")
        for kind in ["malloc", "vmm", "pool"]:
            for order, name in [([], None), (["--stream"], "stream"), (["--stream=graph"], "graph")]:
                for line in self.measure(daemon, "allreduce", f"--device-memory={kind}", *order, "-b", "12K",
                                         "-e", "768K", "-f", 64):
                    self.assertEqual((line["memory"], line["gpu_memory"], line["stream"]),
                                     ("device memory", kind, name))
                    self.assertTrue(line["stand_in"])
                    self.assertIn("stand-in", line["gpu"])

    def test_every_collective_on_streams_and_in_graphs(self):
        daemon = self.gpu_daemon("cuda:0x4")
        for collective in ["broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
                           "alltoall", "sendrecv", "barrier", "allgatherv", "reducescatterv", "gatherv",
                           "scatterv", "alltoallv"]:
            for order in ["--stream", "--stream=graph"]:
                self.measure(daemon, collective, "--device-memory=vmm", order, "-b", "48K", "-e", "48K")

    def test_groups_communicators_and_threads_on_streams(self):
        daemon = self.gpu_daemon("cuda:0x2")
        for order in ["--stream", "--stream=graph"]:
            for how in [["--groups", 3, "--comms", 2], ["--threads"]]:
                self.measure(daemon, "allreduce", "--device-memory", order, *how, "-b", "64K", "-e", "64K")

    def test_the_table_says_what_it_is_not(self):
        daemon = self.gpu_daemon("cuda:0x2")
        status, out, err = self.perf(daemon, "allreduce", "--device-memory", "--stream", "-b", "1K", "-e",
                                     "1K")
        self.assertEqual(status, 0, err)
        self.assertIn("# device memory (malloc) of stand-in GPU", out)
        self.assertIn(STAND_IN, out)
        status, out, err = self.perf(daemon, "allreduce", "-b", "1K", "-e", "1K")
        self.assertEqual(status, 0, err)
        self.assertIn("# registered memory\n", out)
        self.assertNotIn("stand-in", out)

    def test_a_driver_that_is_too_old(self):
        daemon = self.gpu_daemon("cuda:0x2")
        status, _, err = self.perf(daemon, "allreduce", "--device-memory", "-b", "1K", "-e", "1K",
                                   environment=too_old_environment())
        self.assertEqual(status, 1, err)
        self.assertIn("--device-memory: " + TOO_OLD, err)

    def test_large_payloads_take_as_many_blocks_as_fill_the_links(self):
        """And they are right: eight GPUs of the stand-in, which are of compute capability 9.0."""
        daemon = self.gpu_daemon("cuda:all", "--topology", "dgx_h100", "--log-level", "debug",
                                 STANDIN_CUDA_GPUS=8)
        for size in "64K", "2M":
            status, out, err = self.perf(daemon, "allreduce", "--ranks", 8, "--threads", "--device-memory",
                                         "-b", size, "-e", size,
                                         environment=gpu_environment(STANDIN_CUDA_GPUS=8))
            self.assertEqual(status, 0, out + err)
        channels = re.findall(r"allreduce over 8 ranks planned .* (\d+) channels, (\S+) GB/s of at most "
                              r"(\S+)", daemon.stderr())
        (_, small_GBps, bound_GBps), (many, large_GBps, _) = channels
        self.assertEqual((many, large_GBps), ("14", bound_GBps))
        self.assertLess(float(small_GBps), float(bound_GBps) / 5)

    def test_ranks_use_the_gpu_of_their_device_wherever_they_see_it(self):
        daemon = self.gpu_daemon("cuda:0,1", STANDIN_CUDA_GPUS=2)
        visible = gpu_environment(STANDIN_CUDA_GPUS=2, CUDA_VISIBLE_DEVICES="1,0")
        size = ["allreduce", "--device-memory", "--stream", "-b", "1K", "-e", "1K"]
        status, _, err = self.perf(daemon, *size, environment=visible)
        self.assertEqual(status, 0, err)
        status, _, err = self.perf(daemon, *size, "--gpus", "1,0", environment=visible)
        self.assertEqual(status, 0, err)
        status, _, err = self.perf(daemon, *size, "--gpus", "0,1", environment=visible)
        self.assertEqual(status, 1)
        self.assertIn("stream", err)
        hidden = gpu_environment(STANDIN_CUDA_GPUS=2, CUDA_VISIBLE_DEVICES="1")
        status, _, err = self.perf(daemon, *size, environment=hidden)
        self.assertEqual(status, 1)
        self.assertIn("--device-memory: CUDA sees 1 GPUs in this process", err)

    def test_seconds_are_shared_out_on_streams_and_graphs_too(self):
        daemon = self.gpu_daemon("cuda:0x2")
        for order in ("--stream", "--stream=graph"):
            status, out, err = self.run_command([BLINK_PERF, "--socket", daemon.socket, "allreduce",
                                                 "--device-memory", order, "--seconds", "0.2",
                                                 *"-b 1K -e 1K --json".split()], env=gpu_environment())
            self.assertEqual(status, 0, out + err)
            self.assertEqual([json.loads(line)["wrong"] for line in out.splitlines()], [0, 0])

    def test_what_cannot_be_is_refused_by_name(self):
        daemon = self.gpu_daemon("cuda:0+host:1")
        for arguments, sentence in [(["allreduce", "--stream"], "--stream needs --device-memory"),
                                    (["allreduce", "--gpus", "0"], "--gpus needs --device-memory"),
                                    (["allreduce", "--memory", "malloc", "--device-memory"],
                                     "--memory or --device-memory, not both"),
                                    (["allreduce", "--device-memory=paper"],
                                     "--device-memory paper: there is no \"paper\"; it may be malloc, vmm"),
                                    (["allreduce", "--device-memory", "--stream=wild"], "--stream=wild"),
                                    (["nop", "--device-memory"], "--device-memory: nop has no memory")]:
            status, _, err = self.perf(daemon, *arguments)
            self.assertEqual((status, sentence in err), (2, True), err)
        status, _, err = self.perf(daemon, "allreduce", "--device-memory", "--gpus", "7", "--ranks", "1")
        self.assertEqual((status, "--gpus: no GPU 7, CUDA sees 1" in err), (1, True), err)
        status, _, err = self.perf(daemon, "allreduce", "--device-memory")
        self.assertEqual((status,
                          "--device-memory: device 1 (rank 1) of this daemon is in host memory" in err),
                         (1, True), err)
        status, _, err = self.perf(daemon, "allreduce", "--device-memory", "--ranks", "1",
                                   environment={**os.environ, "LD_LIBRARY_PATH": "/nonexistent"})
        self.assertEqual((status, "--device-memory: no CUDA driver" in err), (1, True), err)
        status, _, err = self.run_command([BLINK_PERF, "allreduce", "--private", "--device-memory"])
        self.assertEqual((status, "--device-memory: a --private daemon is on host devices" in err), (2, True),
                         err)

"""Programs of NCCL over blinkd's libnccl.so.2, on GPUs of the stand-in: blink-nccl is linked with the
library, as programs are with NVIDIA's."""
import os
import pathlib
import unittest

from harness import Process
from test_gpu import GpuTest, gpu_environment

BLINK_NCCL = os.environ["BLINK_NCCL"]
BUILD = pathlib.Path(os.environ["BUILD_DIR"])
EXPORTS = pathlib.Path(__file__).parents[2] / "client" / "nccl" / "exports.txt"
GPUS = 4


class NcclTest(GpuTest):
    def nccl_daemon(self):
        return self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=GPUS)

    def play_nccl(self, daemon, scenario, ranks=4, *how, under=(), **variables):
        process = Process([*under, BLINK_NCCL, scenario, ranks, *how],
                          env=gpu_environment(**{"BLINK_SOCKET": daemon.socket, "STANDIN_CUDA_GPUS": GPUS,
                                                 **variables}))
        self.children.append(process)
        self.assertEqual(process.wait(), 0, scenario + ": " + process.stderr())
        return process.stderr()

    def play_all(self, daemon, scenarios, ranks=4, *how):
        for scenario in scenarios:
            self.play_nccl(daemon, scenario, ranks, *how)
        daemon.check_serves()


class CallsTest(NcclTest):
    def test_ranks_as_processes(self):
        self.play_all(self.nccl_daemon(),
                      ["collectives", "groups", "operators", "memory", "capture", "refused"])

    def test_ranks_as_threads(self):
        self.play_all(self.nccl_daemon(), ["collectives", "groups", "operators"], 4, "threads")

    def test_ranks_of_one_thread(self):
        self.play_nccl(self.nccl_daemon(), "one-thread", 1)

    def test_ranks_that_share_a_gpu(self):
        daemon = self.gpu_daemon("cuda:0x4")
        self.play_nccl(daemon, "groups", STANDIN_CUDA_GPUS=1)


class LivesTest(NcclTest):
    def test_communicators_made_from_others(self):
        self.play_all(self.nccl_daemon(), ["split", "shrink", "shrink-after-a-loss", "revoke", "grow"])

    def test_calls_that_do_not_block_and_aborts(self):
        self.play_all(self.nccl_daemon(),
                      ["nonblocking", "nonblocking-calls", "nonblocking-abort", "abort-from-a-thread",
                       "abort-of-a-join", "abort-of-a-blocking-join", "abort-of-a-split",
                       "abort-of-a-shrink"], 3)


class LibraryTest(NcclTest):
    def test_names_are_those_of_nccl(self):
        names = [line.split(":")[0].strip() for line in EXPORTS.read_text().splitlines()
                 if not line.startswith("#")]
        library = str(BUILD / "lib/blink/libnccl.so.2")
        status, out, err = self.run_command(["nm", "-D", "--defined-only", library])
        self.assertEqual(status, 0, err)
        self.assertEqual(sorted(line.split()[-1] for line in out.splitlines()), sorted(names))

    def test_who_has_no_daemon_is_told_how_to_start_one(self):
        daemon = self.nccl_daemon()
        process = Process([BLINK_NCCL, "without-daemon", 1],
                          env=gpu_environment(BLINK_SOCKET=daemon.socket + ".none"))
        self.assertEqual(process.wait(), 0, process.stderr())

    def test_debug_tells_what_runs(self):
        told = self.play_nccl(self.nccl_daemon(), "refused", NCCL_DEBUG="INFO")
        self.assertIn("libnccl.so.2 of blinkd", told)
        self.assertIn("joined", told)

    @unittest.skipIf(os.environ.get("SANITIZE"), "a sanitizer has to be the first library of a process")
    def test_the_script_puts_the_library_before_others(self):
        script = BUILD / "bin" / "blink-nccl-run"
        self.play_nccl(self.nccl_daemon(), "refused", under=[script])
        status, out, _ = self.run_command([str(script), "printenv", "LD_PRELOAD"])
        self.assertEqual((status, out.split(":")[0].strip()),
                         (0, os.path.realpath(BUILD / "lib/blink/libnccl.so.2")))


if __name__ == "__main__":
    unittest.main()

"""nccl4py, NVIDIA's package of NCCL for Python, unchanged, over blinkd's libnccl.so.2 and GPUs of the
stand-in. scripts/test-nccl4py runs it, with nccl4py installed."""
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "integration"))
from harness import Process  # noqa: E402
from test_gpu import GpuTest, gpu_environment  # noqa: E402

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
RANKS = 4


class Nccl4pyTest(GpuTest):
    def start(self, daemon, *arguments):
        process = Process([BUILD / "bin" / "blink-nccl-run", sys.executable, *arguments],
                          env=gpu_environment(BLINK_SOCKET=daemon.socket, STANDIN_CUDA_GPUS=RANKS))
        self.children.append(process)
        return process

    def play(self, *how):
        daemon = self.gpu_daemon("cuda:all", STANDIN_CUDA_GPUS=RANKS)
        for scenario in "collectives", "communicators":
            process = self.start(daemon, HERE / "nccl4py_ranks.py", scenario, RANKS, *how)
            self.assertEqual(process.wait(), 0, scenario + ": " + process.stderr())

    def test_ranks_as_processes(self):
        self.play()

    def test_ranks_as_threads(self):
        self.play("threads")

    def test_the_library_is_found(self):
        process = self.start(self.gpu_daemon(), "-c",
                             "from nccl.core import *; print(get_lib_version(), get_lib_path().resolve())")
        self.assertEqual(process.wait(), 0, process.stderr())
        self.assertEqual(process.stdout().split(),
                         ["2.30.7", os.path.realpath(BUILD / "lib" / "blink" / "libnccl.so.2")])


if __name__ == "__main__":
    unittest.main()

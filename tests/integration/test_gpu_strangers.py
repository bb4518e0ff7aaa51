"""Programs of which a driver may refuse memory of cudaMalloc(): those of other users and in other namespaces.

All over the stand-in for the driver. The scenarios ask blink_mem_prepare() whether it is staged."""
import os
import unittest

from harness import NOBODY, Process, unshared
from test_gpu import BLINK_GPU_API, GpuTest, gpu_environment

PROCESSES = ("--pid", "--fork", "--kill-child", "--mount-proc")
NETWORK = ("--net",)


class StrangersTest(GpuTest):
    def check(self, scenario, strangers="", under=(), **options):
        daemon = self.gpu_daemon("cuda:0x4", STANDIN_CUDA_STRANGERS=strangers)
        os.chmod(daemon.directory, 0o755)
        process = Process([*under, BLINK_GPU_API, scenario, 4],
                          env=gpu_environment(BLINK_SOCKET=daemon.socket), **options)
        self.children.append(process)
        self.assertEqual(process.wait(), 0, process.stderr())
        daemon.check_serves()

    def test_who_is_no_stranger_is_served_in_place(self):
        self.check("legacy-taken", "user,network")

    def test_another_pid_namespace(self):
        """As containers have: the driver refuses to open an IPC handle of theirs."""
        self.check("legacy-refused", under=unshared(*PROCESSES))

    def test_another_network_namespace(self):
        """As the service has, with PrivateNetwork=yes."""
        self.check("legacy-taken", under=unshared(*NETWORK))
        self.check("legacy-refused", "network", under=unshared(*NETWORK))

    @unittest.skipUnless(os.geteuid() == 0, "only root can be several users")
    def test_another_user(self):
        nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.check("legacy-taken", **nobody)
        self.check("legacy-refused", "user", **nobody)

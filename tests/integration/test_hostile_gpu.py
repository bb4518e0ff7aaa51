"""Clients of GPUs that speak nonsense, or go at the worst moment, harm nobody but themselves."""
import mmap
import os
import signal
import time

import harness
import raw
from harness import IntegrationTest
from raw import RawClient, message

STANDIN = os.environ["STANDIN"]
PAGE = 4096
WINDOW = 128  # bytes of a ring_window_t


class HostileGpuTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        # hwloc's plugins load libraries of other vendors, which leak.
        environment = {**os.environ, "LD_LIBRARY_PATH": STANDIN, "HWLOC_PLUGINS_PATH": "/nonexistent"}
        self.blinkd = self.daemon("--devices", "cuda:0x4", env=environment)

    def client(self, windows=PAGE // WINDOW):
        client = RawClient(self.blinkd)
        self.addCleanup(client.close)
        self.assertEqual(client.hello().code, 0)
        reply = client.request(raw.STAGING_CREATE, message(_1=windows * WINDOW, _3=1))
        self.assertEqual((reply.code, reply.text), (0, ""))
        client.windows = mmap.mmap(client.fds[-1], windows * WINDOW)
        self.addCleanup(client.windows.close)
        return client


class EndTest(HostileGpuTest):
    def test_a_client_and_the_worker_go_together(self):
        for _ in range(5):
            client = self.client()
            for _ in range(20):
                client.request(raw.STAGING_CREATE, message(_1=2 * PAGE, _2=1))
            worker = self.ctl_json(self.blinkd, "status")["gpu_worker_pid"]
            os.kill(self.blinkd.pid, signal.SIGSTOP)
            client.close()
            os.kill(worker, signal.SIGKILL)
            time.sleep(0.05)
            os.kill(self.blinkd.pid, signal.SIGCONT)
            self.wait_for_worker(worker)

    def wait_for_worker(self, last):
        deadline = time.monotonic() + harness.LIMIT_S
        while self.ctl_json(self.blinkd, "status")["gpu_worker_pid"] in (None, 0, last):
            self.assertLess(time.monotonic(), deadline, "there is no worker")
            time.sleep(0.05)

    def test_a_client_goes_as_the_worker_answers(self):
        worker = self.ctl_json(self.blinkd, "status")["gpu_worker_pid"]
        for _ in range(20):
            client = self.client()
            os.kill(worker, signal.SIGSTOP)
            for _ in range(20):
                client.send(raw.STAGING_CREATE, message(_1=2 * PAGE, _2=1))
            time.sleep(0.05)
            os.kill(self.blinkd.pid, signal.SIGSTOP)
            client.close()
            os.kill(worker, signal.SIGCONT)
            time.sleep(0.05)
            os.kill(self.blinkd.pid, signal.SIGCONT)

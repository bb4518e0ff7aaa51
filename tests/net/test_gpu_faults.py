"""Communicators of ranks on GPUs of several hosts while ranks, GPU workers, daemons and cables fail: what
test_faults.py has on host devices, and what only GPUs have.
"""
import os
import signal

import test_faults
from cluster import require_namespaces
from harness import Living
from limit import SHORT_S
from test_faults import FEW_PHASES, PHASES
from test_gpus import GpusTest

#: Of a tenant without communicators. What it has connected, and the records of plans, may stay.
HELD = ["communicators", "gathering_ranks", "regions", "registered_bytes", "pinned_bytes", "scratch_bytes",
        "gpu_scratch_bytes"]


def setUpModule():
    require_namespaces()


class GpuFaultsTest(GpusTest):
    def places(self, *ranks_of_host, **options):
        """Each host has a device without a rank, too."""
        names = f"cuda:0x{max(ranks_of_host) + 1}"
        return super().places(*ranks_of_host, devices=len(ranks_of_host) * [names], **options)

    def held(self, host):
        """What its tenants are charged for."""
        return {(tenant["uid"], kind): tenant["budgets"][kind]["used"]
                for tenant in self.ctl_json(host.daemon, "tenants")["tenants"] for kind in HELD
                if tenant["budgets"][kind]["used"] > 0}

    def forget_comms(self, places):
        """And all that they had."""
        super().forget_comms(places)
        for host in {host for host, _ in places}:
            self.until(lambda host=host: self.held(host) == {})


class Ranks(GpuFaultsTest, test_faults.Ranks):
    STOPPED_OPS = 200  # which take as long as ten times as many on host devices


class Daemons(GpuFaultsTest, test_faults.Daemons):
    pass


class Cables(GpuFaultsTest, test_faults.Cables):
    pass


class Workers(GpuFaultsTest, test_faults.FaultsTest):
    def assert_named(self, ranks, victim):
        for rank in ranks:
            steps = rank.finish()
            failed = [step for step in steps if step["result"] != "BLINK_OK"]
            self.assertEqual(failed[0]["result"], "BLINK_ERR_SYSTEM", steps)
            self.assertRegex(failed[0]["text"], f"{victim.name}: .*GPU worker .*was ended by signal 9")

    def check_ends_everywhere(self, places, phase, victim, signal_number):
        ranks = self.at_phase(places, phase)
        worker = self.worker(victim)
        os.kill(worker, signal_number)
        self.assert_named(ranks, victim)
        self.assert_untouched(*ranks)
        self.hurry(places, phase)
        self.until(lambda: self.worker(victim) not in (None, worker))
        self.forget_comms(places)
        self.check_serve(places)
        self.forget_comms(places)

    def test_killed_at_every_phase(self):
        places = self.places(2, 1)
        for phase in PHASES:
            for victim in (places[0][0], places[2][0]):
                with self.subTest(phase=phase, victim=victim.name):
                    self.check_ends_everywhere(places, phase, victim, signal.SIGKILL)

    def test_stopped_amid_ops(self):
        """Five times run_timeout_s is more than a worker that is well is silent on a busy machine."""
        limits = {"run_timeout_s": SHORT_S / 2, "run_timeout_factor": 1e6}
        places = self.places(1, 1, limits=limits)
        for phase in FEW_PHASES:
            with self.subTest(phase=phase):
                self.check_ends_everywhere(places, phase, places[1][0], signal.SIGSTOP)


class Leaving(GpuFaultsTest, test_faults.Leaving):
    pass


class Slow(GpuFaultsTest, test_faults.Slow):
    pass


class Bystanders(GpuFaultsTest, test_faults.Bystanders):
    PEERS_LOST = 3
    MANY_OPS = 200

    def check_leaves_nothing(self, daemons, play):
        workers = [Living(self.ctl_json(daemon, "status")["gpu_worker_pid"]) for daemon in daemons]
        super().check_leaves_nothing([*daemons, *workers], play)

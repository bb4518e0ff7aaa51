"""The watchdog's heartbeat: it comes while all threads turn, however busy they are, and ceases when one of
them is stuck. Runs that take far too long are ended."""
import os
import time
import unittest

import raw
import stopping
from harness import IntegrationTest
from limit import SHORT_S
from watched import WatchedTest

SHORT = "allreduce:100:float32:sum"


class WatchdogTest(WatchedTest):
    def heartbeats_within(self, seconds):
        before = self.heartbeats
        time.sleep(seconds)
        return self.heartbeats - before

    def await_no_heartbeat(self):
        """None for more than twice the watchdog's time; some may have been under way."""
        self.until(lambda: self.heartbeats_within(1) == 0)

    def check_stuck(self, name, *flags, **options):
        daemon = self.watched_daemon("--workers", "3", *flags, watchdog_s=0.4, **options)
        self.await_heartbeats(2)
        with stopping.threads(daemon.pid, stopping.named(daemon.pid, name)[:1]):
            self.await_no_heartbeat()
            if name != "blinkd":
                self.ctl(daemon, "status")  # the control thread is well
        self.await_heartbeats(2)
        daemon.check_serves()

    def test_a_stuck_worker_ends_it(self):
        self.check_stuck("blinkd-worker")

    def test_a_stuck_worker_of_emulated_links_ends_it(self):
        self.check_stuck("blinkd-worker", "--pace=0.01", topology="dgx1v_hybrid")

    def test_a_stuck_planner_ends_it(self):
        self.check_stuck("blinkd-planner")

    def test_a_stuck_engine_ends_it(self):
        self.check_stuck("blinkd-engine")

    def test_a_stuck_control_thread_ends_it(self):
        self.check_stuck("blinkd")

    def test_long_ops_do_not_end_it(self):
        daemon = self.watched_daemon("--workers", "2", watchdog_s=0.4)
        ranks = self.start_ranks(daemon, [0, 1, 2, 3], ["times:4:allreduce:16000000:float32:sum"])
        self.await_heartbeats(8)
        for rank in ranks:
            self.assert_all_ok(rank.finish())


class RunTimeOutTest(IntegrationTest):
    def test_a_run_that_takes_too_long_is_ended(self):
        daemon = self.daemon("--pace=0.0001", *self.limits(run_timeout_s=SHORT_S, run_timeout_factor=0.001),
                             topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1], ["allreduce:40000000:float32:sum", "await-lost"])
        for rank in ranks:
            steps = rank.finish()
            for name in ["allreduce:40000000:float32:sum", "await-lost"]:
                self.assert_step(steps, name, "TIMEOUT",
                                 r"it has run for [\d.]+ s, and [\d.]+ s were predicted")
        for steps in self.run_ranks(daemon, [2, 3], [SHORT]):
            self.assert_all_ok(steps)

    def test_a_later_op_of_a_group_is_ended_too(self):
        """The first waits for its client, which has a time of its own."""
        daemon = self.daemon("--pace=0.0001", *self.limits(run_timeout_s=SHORT_S, run_timeout_factor=0.001),
                             topology="dgx1v_hybrid")
        client, size = raw.open_client(self, daemon), 64 << 20
        members = [reply.body(5)[1] for reply in raw.join_all([client, client])]
        staging = client.request(raw.STAGING_CREATE, raw.message(_1=9 << 20)).body(8)[1]
        fd = raw.sealed_memfd(size)
        self.addCleanup(os.close, fd)
        region = client.register(fd, size).body(4)[1]
        for member in members:
            client.submit(raw.ALLREDUCE, member=member, count=1, in_region=staging, out_region=staging,
                          in_offset=4096, out_offset=4096 + (4 << 20),
                          flags=raw.IN_STAGED | raw.OUT_STAGED | raw.MORE)
            client.submit(raw.ALLREDUCE, member=member, count=size // 4, in_region=region, out_region=region)
        _, result, text = client.reap()
        self.assertEqual(result, raw.TIMEOUT)
        self.assertIn("it has run for", text)

    def test_time_before_a_run_does_not_count(self):
        """Neither what the daemon slept through, nor its start, when its clock has not been read yet."""
        daemon = self.daemon("--pace=0.001", *self.limits(run_timeout_s=SHORT_S, run_timeout_factor=0.001),
                             topology="dgx1v_hybrid")
        step = "allreduce:200000:float32:sum"
        ranks = self.start_ranks(daemon, [0, 1], [step, "gate", step])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        time.sleep(1.2 * SHORT_S)
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_a_run_that_takes_as_long_as_predicted_is_not(self):
        daemon = self.daemon("--pace=0.0005", *self.limits(run_timeout_s=0.5), topology="dgx1v_hybrid")
        for steps in self.run_ranks(daemon, [0, 1], ["allreduce:4000000:float32:sum"]):
            self.assert_all_ok(steps)


if __name__ == "__main__":
    unittest.main()

"""A daemon that is stopped, or of which a thread is stuck: every call that waits ends with a reason. A daemon
that is busy is left alone."""
import os
import signal
import time
import unittest

import stopping
from harness import Daemon, IntegrationTest, new_id
from limit import SHORT_S

SHORT = "allreduce:100:float32:sum"


class StuckTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        os.environ["BLINK_DAEMON_TIMEOUT"] = str(SHORT_S)
        self.addCleanup(os.environ.pop, "BLINK_DAEMON_TIMEOUT")

    def stoppable_daemon(self, *flags):
        """A daemon that may be stopped when the test ends."""
        daemon = Daemon(self, *flags)
        daemon.ended = True
        return daemon

    def start_callers(self, daemon):
        """Clients that wait at their gates, one in front of each call that waits: by the name of its step."""
        def pair(*steps):
            """A rank whose peer does nothing any more."""
            return self.start_ranks(daemon, [0, 1], {0: [SHORT, "gate:go", *steps], 1: [SHORT, "gate:never"]})
        callers = {SHORT: pair(SHORT)[0], "poll:" + SHORT: pair("poll:" + SHORT)[0],
                   "test:" + SHORT: pair("test:" + SHORT)[0],
                   "destroy": pair("submit:" + SHORT, "destroy")[0], "abort": pair("abort")[0],
                   "split:0": pair("split:0")[0], "finalize": pair("submit:" + SHORT, "finalize")[0],
                   "memfd:good": self.start_client(daemon, ["gate:go", "memfd:good"]),
                   "init": self.start_client(daemon, ["gate:go", f"join:{new_id()}:2:0:0", "nop:1"])}
        for caller in callers.values():
            caller.wait_for_step("at-gate")
        return callers

    def check_lost(self, callers, sentence):
        for caller in callers.values():
            caller.say()
        for step, caller in callers.items():
            with self.subTest(step):
                self.assert_step(caller.finish(), step, "DAEMON_LOST", sentence)

    def test_every_call_ends_when_the_daemon_is_stopped(self):
        daemon = self.stoppable_daemon()
        callers = self.start_callers(daemon)
        stopping.stop(daemon.pid)
        self.check_lost(callers,
                        rf"the daemon \(pid {daemon.pid}\) is stopped and has not answered for [\d.]+ s")
        opening = self.start_client(daemon, ["nop:1"])
        self.assert_step(opening.finish(), "open", "DAEMON_LOST", r"has not answered for [\d.]+ s|is stopped")

    def test_every_call_ends_when_all_threads_are_stuck(self):
        daemon = self.stoppable_daemon()
        callers = self.start_callers(daemon)
        with stopping.threads(daemon.pid, stopping.all_threads(daemon.pid)):
            self.check_lost(callers, rf"the daemon \(pid {daemon.pid}\)")

    def test_a_stuck_engine_alone_is_noticed_by_who_waits_for_ops(self):
        daemon = self.stoppable_daemon()
        rank = self.start_ranks(daemon, [0, 1], {0: [SHORT, "gate:go", SHORT], 1: [SHORT, "gate:never"]})[0]
        rank.wait_for_step("at-gate")
        with stopping.threads(daemon.pid, stopping.named(daemon.pid, "blinkd-engine")):
            rank.say()
            self.assert_step(rank.finish(), SHORT, "DAEMON_LOST", r"has not answered for [\d.]+ s")

    def test_a_killed_daemon_is_said_to_have_ended(self):
        daemon = self.stoppable_daemon()
        callers = self.start_callers(daemon)
        daemon.kill()
        self.check_lost(callers, rf"the daemon \(pid {daemon.pid}\) has ended")

    def test_a_daemon_that_goes_on_serves_others(self):
        daemon = self.stoppable_daemon()
        callers = self.start_callers(daemon)
        stopping.stop(daemon.pid)
        self.check_lost(callers, "is stopped")
        os.kill(daemon.pid, signal.SIGCONT)
        daemon.check_serves()
        daemon.stop()

    def test_a_busy_daemon_is_not_given_up(self):
        """Ops of seconds, and an engine that is never idle."""
        daemon = self.daemon("--pace=0.0002", "--topology", "dgx1v_hybrid")
        slow = self.start_ranks(daemon, [0, 1], ["allreduce:4000000:float32:sum"])
        busy = self.start_client(daemon, ["times:400:nop:1000"])
        waiting = self.start_ranks(daemon, [2, 3], {2: [SHORT], 0: ["sleep:7000", SHORT], 1: [SHORT]})
        for process in [*slow, busy, *waiting]:
            self.assert_all_ok(process.finish())

    def test_without_time_out_clients_wait(self):
        os.environ["BLINK_DAEMON_TIMEOUT"] = "0"
        daemon = self.daemon()
        rank = self.start_client(daemon, ["gate:go", "nop:1"])
        rank.wait_for_step("at-gate")
        stopping.stop(daemon.pid)
        rank.say()
        time.sleep(2)
        self.assertNotIn("nop:1", [step["step"] for step in rank.steps()])
        os.kill(daemon.pid, signal.SIGCONT)
        self.assert_all_ok(rank.finish())

    def test_a_time_out_that_is_no_number_is_refused(self):
        os.environ["BLINK_DAEMON_TIMEOUT"] = "soon"
        steps = self.start_client(self.daemon(), ["nop:1"]).finish()
        self.assert_step(steps, "open", "INVALID_ARGUMENT", 'BLINK_DAEMON_TIMEOUT is "soon"')


class CallersTimeTest(IntegrationTest):
    def test_wait_for_gives_the_op_back(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1],
                                 {0: ["wait-for:100:" + SHORT, "gate:x"], 1: ["gate:go", SHORT]})
        ranks[0].wait_for_step("timed-out")
        for rank in ranks[1:] + ranks[:1]:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_init_time_out_of_the_caller(self):
        daemon = self.daemon()
        steps = self.start_client(daemon, [f"join:{new_id()}:2:0:0:300"]).finish()
        self.assert_step(steps, "init", "TIMEOUT", "only 1 of 2 ranks joined within 0.3 s")


if __name__ == "__main__":
    unittest.main()

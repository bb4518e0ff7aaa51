"""Ranks that die, leave or abort; daemons that die or stop: everybody concerned hears of it, nobody hangs."""
import os
import signal
import unittest

from harness import Daemon, IntegrationTest, new_id
from limit import SHORT_S

#: An emulated DGX-1V at a ten-thousandth of its speed: an op of LONG takes seconds. ENDLESS: for tests that
#: end it.
SLOW = ["--pace=0.0001"]
ENDLESS = ["--pace=0.00001"]
LONG = "allreduce:4000000:float32:sum"
SHORT = "allreduce:100:float32:sum"


class FaultTest(IntegrationTest):
    def slow_daemon(self, pace):
        return self.daemon(*pace, topology="dgx1v_hybrid")

    def wait_until_moving(self, daemon):
        """Until bytes of an op have crossed links."""
        self.until(lambda: sum(link["bytes"] for link in self.ctl_json(daemon, "links")["links"]))

    def start_long_op(self, daemon, devices, then):
        """Ranks in the middle of a long op; `then` are the steps after it, as for start_ranks."""
        steps = {rank: [f"submit:{LONG}", "gate:running", *own] for rank, own in then.items()}
        ranks = self.start_ranks(daemon, devices, steps)
        self.wait_until_moving(daemon)
        for rank in ranks:
            rank.wait_for_step("at-gate")
        return ranks

    def test_killed_rank_frees_survivors_in_flight_and_later(self):
        daemon = self.slow_daemon(ENDLESS)
        bystanders = self.start_ranks(daemon, [6, 7], [SHORT, "gate:bystander", SHORT])
        ranks = self.start_long_op(daemon, [0, 1, 2, 3],
                                   {None: ["wait", "untouched", "await-lost", SHORT, "destroy"]})
        os.kill(ranks[2].pid, signal.SIGKILL)
        for rank in ranks:
            if rank is ranks[2]:
                rank.finish()
                continue
            rank.say()
            steps = rank.finish()
            for name in ["wait", "await-lost", SHORT]:
                self.assert_step(steps, name, "PEER_LOST", "rank 2")
            self.assert_step(steps, "untouched", "OK")
            self.assert_step(steps, "destroy", "OK")
        for bystander in bystanders:
            bystander.say()
        for bystander in bystanders:
            self.assert_step(bystander.finish(), SHORT, "OK")
        daemon.check_serves()

    def test_threads_of_a_client_are_watched(self):
        """Of a killed process the kernel tells late, of all its threads but the last at once."""
        try:
            os.close(os.pidfd_open(os.getpid(), os.O_EXCL))  # PIDFD_THREAD
        except OSError:
            self.skipTest("pidfds of threads need Linux 6.9")
        daemon = self.daemon()
        rank, = self.start_ranks(daemon, [0], ["gate:end"])
        rank.wait_for_step("at-gate")
        self.until(lambda: len({*os.listdir(f"/proc/{rank.pid}/task")} & daemon.watched()) == 3)
        rank.say()
        rank.finish()

    def test_rank_killed_while_others_wait_for_it(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2],
                                 {None: [SHORT, LONG, "await-lost"], 1: [SHORT, "sleep:100", "kill"]})
        steps = [rank.finish() for rank in ranks]
        for rank in [0, 2]:
            self.assert_step(steps[rank], SHORT, "OK")
            self.assert_step(steps[rank], LONG, "PEER_LOST", "rank 1")
            self.assert_step(steps[rank], "await-lost", "PEER_LOST", "rank 1")
        daemon.check_serves()

    def test_killed_rank_frees_a_survivor_with_many_ops_outstanding(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1],
                                 {0: [f"times:300:submit:{SHORT}", "wait"], 1: ["sleep:100", "kill"]})
        self.assert_step(ranks[0].finish(), "wait", "PEER_LOST", "rank 1")
        ranks[1].finish()
        daemon.check_serves()

    def test_killed_process_of_two_ranks(self):
        daemon = self.daemon()
        identifier = new_id()
        both = self.start_rank(daemon, identifier, 3, [0, 1], [SHORT, "sleep:100", "kill"])
        survivor = self.start_rank(daemon, identifier, 3, 2, [SHORT, LONG])
        both.finish()
        steps = survivor.finish()
        self.assert_step(steps, SHORT, "OK")
        self.assert_step(steps, LONG, "PEER_LOST", "rank [01]")
        daemon.check_serves()

    def test_all_ranks_killed(self):
        daemon = self.slow_daemon(ENDLESS)
        for rank in self.start_long_op(daemon, [0, 1, 2, 3], {None: ["wait"]}):
            rank.kill()
        daemon.check_serves()
        self.until(lambda: not self.ctl_json(daemon, "comms")["comms"])

    def test_stopped_rank_is_a_timeout_not_a_hang(self):
        daemon = self.daemon(*self.limits(op_timeout_s=SHORT_S))
        ranks = self.start_ranks(daemon, [0, 1], {0: ["gate:go", SHORT], 1: ["gate:go", SHORT]})
        for rank in ranks:
            rank.wait_for_step("at-gate")
        os.kill(ranks[1].pid, signal.SIGSTOP)
        ranks[0].say()
        self.assert_step(ranks[0].finish(), SHORT, "TIMEOUT", "rank 1")
        os.kill(ranks[1].pid, signal.SIGCONT)
        ranks[1].say()
        self.assert_step(ranks[1].finish(), SHORT, "TIMEOUT", "rank 1")
        daemon.check_serves()

    def test_time_of_an_op_before_does_not_count_as_lateness(self):
        """A rank that waits for a long op before it submits the next one is on time, however long that
        took."""
        daemon = self.daemon(*SLOW, *self.limits(op_timeout_s=SHORT_S), topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1],
                                 {0: [f"submit:{LONG}", SHORT], 1: [LONG, "sleep:200", SHORT]})
        for rank in ranks:
            self.assert_step(rank.finish(), SHORT, "OK")

    def test_graceful_destroy_lets_ops_of_all_finish(self):
        daemon = self.slow_daemon(SLOW)
        ranks = self.start_long_op(daemon, [0, 1], {0: ["destroy"], 1: ["wait", SHORT, "destroy"]})
        for rank in ranks:
            rank.say()
        self.assert_step(ranks[0].finish(), "destroy", "OK")
        steps = ranks[1].finish()
        self.assert_step(steps, "wait", "OK")
        self.assert_step(steps, SHORT, "PEER_LOST", "rank 0")
        self.assert_step(steps, "destroy", "OK")

    def test_destroy_right_after_submitting_waits_for_the_ops(self):
        daemon = self.daemon()
        for reported in self.run_ranks(daemon, [0, 1], [f"times:20:submit:{SHORT}", "destroy", "wait"]):
            self.assert_all_ok(reported)

    def test_destroyed_everywhere_and_made_again(self):
        daemon = self.daemon()
        identifiers = [new_id() for _ in range(5)]
        ranks = [self.start_rank(daemon, identifiers[0], 2, rank, [SHORT, "destroy"]
                                 + [step for identifier in identifiers[1:]
                                    for step in [f"join:{identifier}:2:{rank}:{rank}", SHORT, "destroy"]])
                 for rank in [0, 1]]
        for rank in ranks:
            self.assert_all_ok(rank.finish())
        self.assertEqual(self.ctl_json(daemon, "comms")["comms"], [])

    def test_abort_by_one_rank(self):
        daemon = self.slow_daemon(ENDLESS)
        ranks = self.start_long_op(daemon, [0, 1, 2, 3],
                                   {None: ["wait", "untouched", "await-lost", SHORT, "destroy"],
                                    1: ["abort", "wait", "untouched", SHORT, "abort", "destroy"]})
        for rank in ranks:
            rank.say()
        for number, rank in enumerate(ranks):
            steps = rank.finish()
            for name in ["wait", SHORT] + (["await-lost"] if number != 1 else []):
                self.assert_step(steps, name, "ABORTED", "rank 1")
            for name in ["untouched", "destroy"] + (["abort"] if number == 1 else []):
                self.assert_step(steps, name, "OK")
        daemon.check_serves()

    def test_abort_of_a_rank_that_waits_for_others(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1],
                                 {0: [SHORT, LONG, "await-lost"], 1: [SHORT, "sleep:100", "abort"]})
        steps = ranks[0].finish()
        self.assert_step(steps, LONG, "ABORTED", "rank 1")
        self.assert_step(steps, "await-lost", "ABORTED", "rank 1")
        self.assert_all_ok(ranks[1].finish())

    def test_async_error_comes_without_a_call(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1], {0: ["async-error", "await-lost"], 1: ["sleep:100", "kill"]})
        steps = ranks[0].finish()
        self.assert_step(steps, "async-error", "OK")
        self.assert_step(steps, "await-lost", "PEER_LOST", "rank 1")

    def test_memory_freed_while_its_op_is_under_way(self):
        daemon = self.slow_daemon(SLOW)
        step = "free:allreduce:100000:float32:sum"
        for reported in self.run_ranks(daemon, [0, 1], [step, SHORT]):
            self.assert_step(reported, step, "OK")
            self.assert_step(reported, SHORT, "OK")


class DaemonLostTest(IntegrationTest):
    AFTER = ["wait", "async-error", SHORT, "nop:1", "destroy"]

    def check_loss(self, end):
        daemon = Daemon(self, *ENDLESS, topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1, 2], [f"submit:{LONG}", "gate:running", *self.AFTER])
        idle = self.start_client(daemon, ["nop:1", "gate:idle", "nop:1", "threads:2"])
        joining = self.start_rank(daemon, new_id(), 2, 0, [])
        alone = self.start_ranks(daemon, [6, 7], {None: ["await-lost"], 0: [SHORT]})[0]
        for process in ranks + [idle]:
            process.wait_for_step("at-gate")
        alone.wait_for_step("init")
        self.until(lambda: "joining" in [comm["state"] for comm in self.ctl_json(daemon, "comms")["comms"]])
        end(daemon)
        for process in ranks + [idle]:
            process.say()
        for rank in ranks:
            steps = rank.finish()
            for name in ["wait", "async-error", SHORT, "nop:1"]:
                self.assert_step(steps, name, "DAEMON_LOST")
            self.find(steps, "destroy")
        self.assert_step(idle.finish(), "threads:2", "DAEMON_LOST")
        self.assert_step(joining.finish(), "init", "DAEMON_LOST")
        self.assert_step(alone.finish(), SHORT, "DAEMON_LOST")

    def test_killed_daemon_is_an_error_in_every_client(self):
        def end(daemon):
            daemon.kill()
        self.check_loss(end)

    def test_stopped_daemon_is_an_error_in_every_client(self):
        self.check_loss(Daemon.stop)

    def test_interrupted_daemon_is_an_error_in_every_client(self):
        self.check_loss(lambda daemon: daemon.stop(signal.SIGINT))

    def test_a_new_daemon_serves_after_a_killed_one(self):
        first = Daemon(self)
        first.kill()
        self.assertTrue(os.path.exists(first.socket))
        second = self.daemon(directory=first.directory)
        second.check_serves()


if __name__ == "__main__":
    unittest.main()

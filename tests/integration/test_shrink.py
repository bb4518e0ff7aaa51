"""Communicators of the ranks that are left, after others were killed, aborted or left."""
import os
import signal
import unittest

from harness import ALL, IntegrationTest

JOB = "allreduce:10000:float32:sum"
OTHER_JOB = "allreduce:1:int32:max"


class ShrinkTest(IntegrationTest):
    def kill(self, ranks, *numbers):
        """They do not come back; who is left, by the old numbers."""
        for number in numbers:
            os.kill(ranks[number].pid, signal.SIGKILL)
        for number in numbers:
            ranks[number].finish()
        return {number: rank for number, rank in enumerate(ranks) if number not in numbers}

    def await_waiting(self, daemon, count):
        """Until so many ranks wait for others in a communicator that gathers."""
        def waiting():
            return sum(1 for comm in self.ctl_json(daemon, "comms")["comms"] if comm["state"] == "joining"
                       for client in comm["clients"] if client)
        self.until(lambda: waiting() == count)

    def go(self, *ranks):
        for rank in ranks:
            rank.say()

    def test_ranks_killed_at_work_one_after_another_and_two_at_once(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, ALL, [f"times:20:{JOB}", "gate:eight", f"outlive:7:{JOB}",
                                               "gate:seven", f"outlive:5:{JOB}", "shrink", JOB])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.go(*ranks)
        left = self.kill(ranks, 0)
        for rank in left.values():
            rank.wait_for_step(f"outlive:7:{JOB}")
        left = self.kill(list(ranks[1:]), 2, 6)
        self.go(*left.values())
        for place, rank in enumerate(left.values()):
            steps = rank.finish()
            self.assert_all_ok(steps)
            self.assert_step(steps, "shrink", "OK", f"^{place} of 5$")
        daemon.check_serves()
        self.assertEqual(self.ctl_json(daemon, "comms")["comms"], [])

    def test_survivor_killed_while_the_others_wait_for_it(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2, 3], ["gate:lost", "shrink", JOB])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.kill(ranks, 1)
        self.go(ranks[0], ranks[3])
        self.await_waiting(daemon, 2)
        self.kill(ranks, 2)
        for place, rank in enumerate([ranks[0], ranks[3]]):
            steps = rank.finish()
            self.assert_all_ok(steps)
            self.assert_step(steps, "shrink", "OK", f"^{place} of 2$")

    def test_survivor_that_does_not_call_is_named_and_may_come_later(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2, 3],
                                 {None: ["gate:lost", "shrink:100", "gate:again", "shrink", JOB],
                                  2: ["gate:lost", "gate:again", "shrink", JOB]})
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.kill(ranks, 0)
        self.go(*ranks[1:])
        for rank in [ranks[1], ranks[3]]:
            rank.wait_for_step("shrink:100")
            self.assert_step(rank.steps(), "shrink:100", "TIMEOUT", r"missing: rank 1 \(rank 2 before\)")
        self.go(*ranks[1:])
        for rank in ranks[1:]:
            steps = rank.finish()
            self.assert_step(steps, "shrink", "OK", "of 3$")
            self.assert_step(steps, JOB, "OK")

    def test_two_communicators_of_the_same_survivors_shrink_apart(self):
        ranks = self.start_ranks(self.daemon(), [0, 1, 2, 3], {
            number: ["gate:lost", "shrink", JOB, "use:0", "shrink", OTHER_JOB, "gate:again",
                     f"use:{number + 1}", "shrink:100", "gate:together", "use:1", "shrink", JOB, "use:2",
                     "shrink", JOB]
            for number in range(4)})
        for killed in (3, 2):
            for rank in ranks[:killed + 1]:
                rank.wait_for_step("at-gate" if killed == 3 else OTHER_JOB)
            self.kill(ranks, killed)
            self.go(*ranks[:killed])
        for rank in ranks[:2]:
            rank.wait_for_step("shrink:100")
            self.assert_step(rank.steps(), "shrink:100", "TIMEOUT", "missing: rank")
        self.go(*ranks[:2])
        for rank in ranks[:2]:
            steps = rank.finish()
            self.assertEqual([step["text"][2:] for step in steps if step["step"] == "shrink"],
                             ["of 3", "of 3", "of 2", "of 2"])
            self.assert_step(steps, JOB, "OK")

    def test_revoked_by_one_rank_and_again_by_one_that_comes_late(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2],
                                 {0: ["abort", "shrink", JOB], 1: ["await-lost", "shrink", JOB],
                                  2: ["gate:late", OTHER_JOB, "abort", "shrink", JOB]})
        self.await_waiting(daemon, 2)
        self.go(ranks[2])
        reports = [rank.finish() for rank in ranks]
        for place, steps in enumerate(reports):
            self.assert_step(steps, "shrink", "OK", f"^{place} of 3$")
            self.assert_step(steps, JOB, "OK")
        self.assert_step(reports[1], "await-lost", "ABORTED", "rank 0")
        self.assert_step(reports[2], OTHER_JOB, "ABORTED", "rank 0")

    def test_ranks_that_stay_when_one_leaves(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2],
                                 {None: ["gate:left", "async-error", "shrink", JOB], 1: ["destroy"]})
        self.assert_all_ok(ranks[1].finish())
        self.go(ranks[0], ranks[2])
        for place, rank in enumerate([ranks[0], ranks[2]]):
            steps = rank.finish()
            self.assert_all_ok(steps)
            self.assert_step(steps, "shrink", "OK", f"^{place} of 2$")


if __name__ == "__main__":
    unittest.main()

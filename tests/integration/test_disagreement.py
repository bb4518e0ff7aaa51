"""Ranks that disagree, come twice, come late or never: each hears why, nobody else is harmed."""
import unittest

from harness import IntegrationTest, new_id
from limit import SHORT_S


class DisagreementTest(IntegrationTest):
    def check_mismatch(self, first, second, *texts):
        """Ranks 0 and 1 submit different things: both hear of both; a second communicator goes on
        undisturbed, and so does this one with its next op."""
        daemon = self.daemon()
        bystanders = self.start_ranks(daemon, [2, 3], ["times:200:allreduce:1000:float32:sum"])
        after = "allreduce:100:float32:sum"
        ranks = self.start_ranks(daemon, [0, 1], {0: [first, after], 1: [second, after]})
        for rank, own in zip(ranks, [first, second]):
            steps = rank.finish()
            self.assert_step(steps, own, "MISMATCH", "rank 0", "rank 1", *texts)
            self.assert_step(steps, after, "OK")
        for bystander in bystanders:
            self.assert_all_ok(bystander.finish())
        daemon.check_serves()

    def test_count(self):
        self.check_mismatch("allreduce:1000:float32:sum", "allreduce:1001:float32:sum", r"\b1000\b",
                            r"\b1001\b")

    def test_count_zero_against_something(self):
        self.check_mismatch("allreduce:0:float32:sum", "allreduce:7:float32:sum", r"\b0\b", r"\b7\b")

    def test_type(self):
        self.check_mismatch("allreduce:1000:float32:sum", "allreduce:1000:int32:sum", "float32", "int32")

    def test_operator(self):
        self.check_mismatch("allreduce:1000:float32:sum", "allreduce:1000:float32:max", "sum", "max")

    def test_root(self):
        self.check_mismatch("broadcast:1000:float32:0", "broadcast:1000:float32:1", r"root 0\b", r"root 1\b")

    def test_collective(self):
        self.check_mismatch("broadcast:1000:float32:0", "allreduce:1000:float32:sum", "broadcast",
                            "allreduce")

    def test_three_ranks_all_hear_of_it(self):
        daemon = self.daemon()
        odd = "allreduce:11:float32:sum"
        ranks = self.start_ranks(daemon, [0, 1, 2], {None: ["allreduce:10:float32:sum"], 2: [odd]})
        for rank, step in zip(ranks, ["allreduce:10:float32:sum"] * 2 + [odd]):
            self.assert_step(rank.finish(), step, "MISMATCH", "rank 2", r"\b10\b", r"\b11\b")

    def test_refused_buffer_of_one_rank_does_not_keep_the_others_waiting(self):
        """What the client library refuses is no submission: the ranks go on with the next op."""
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1], {0: ["fault:past-region", "allreduce:10:float32:sum"],
                                                  1: ["allreduce:10:float32:sum"]})
        steps = [rank.finish() for rank in ranks]
        self.assert_step(steps[0], "fault:past-region", "OUT_OF_RANGE")
        for reported in steps:
            self.assert_step(reported, "allreduce:10:float32:sum", "OK")


class JoiningTest(IntegrationTest):
    WORK = ["allreduce:100:float32:sum"]

    def wait_until_joined(self, daemon, count):
        """Until `count` ranks of communicators have joined."""
        self.until(lambda: sum(client != 0 for comm in self.ctl_json(daemon, "comms")["comms"]
                               for client in comm["clients"]) >= count)

    def check_second_is_refused(self, first, second, result, *texts, **options):
        """first and second: (rank count, rank, device). The first joins and waits, the second is refused,
        and when the right peer comes the first works as if nothing had been."""
        daemon = self.daemon(**options)
        identifier = new_id()
        waiting = self.start_rank(daemon, identifier, first[0], first[1], self.WORK, first[2])
        self.wait_until_joined(daemon, 1)
        refused = self.start_rank(daemon, identifier, second[0], second[1], self.WORK, second[2])
        self.assert_step(refused.finish(), "init", result, *texts)
        peer = self.start_rank(daemon, identifier, 2, 1, self.WORK, 1)
        self.assert_all_ok(peer.finish())
        self.assert_all_ok(waiting.finish())

    def test_a_rank_joins_twice(self):
        self.check_second_is_refused((2, 0, 0), (2, 0, 2), "EXISTS", "rank 0")

    def test_a_device_is_taken(self):
        self.check_second_is_refused((2, 0, 0), (2, 1, 0), "EXISTS", "device 0")

    def test_rank_counts_differ(self):
        self.check_second_is_refused((2, 0, 0), (3, 1, 1), "MISMATCH", r"\b2\b", r"\b3\b")

    def test_algorithms_differ(self):
        daemon = self.daemon()
        identifier = new_id()
        waiting = self.start_rank(daemon, identifier, 2, 0, self.WORK, algorithm="trees")
        self.wait_until_joined(daemon, 1)
        refused = self.start_rank(daemon, identifier, 2, 1, self.WORK, algorithm="ring")
        self.assert_step(refused.finish(), "init", "MISMATCH", "trees", "ring")
        self.assert_all_ok(self.start_rank(daemon, identifier, 2, 1, self.WORK, algorithm="trees").finish())
        self.assert_all_ok(waiting.finish())

    def test_a_device_beyond_the_topology(self):
        daemon = self.daemon()
        rank = self.start_rank(daemon, new_id(), 2, 0, self.WORK, device=8)
        self.assert_step(rank.finish(), "init", "NOT_FOUND", r"device 8\b")
        daemon.check_serves()

    def test_the_device_of_a_rank_beyond_the_devices(self):
        daemon = self.daemon(devices=2)
        rank = self.start_rank(daemon, new_id(), 3, 2, self.WORK)
        self.assert_step(rank.finish(), "init", "NOT_FOUND", r"no device is left for rank 2 of 3")
        daemon.check_serves()

    def test_a_rank_outside_its_communicator(self):
        daemon = self.daemon()
        for count, rank, device in [(2, 2, 0), (2, -1, 0), (0, 0, 0), (-1, 0, 0)]:
            reported = self.start_rank(daemon, new_id(), count, rank, self.WORK, device).finish()
            self.assert_step(reported, "init", "INVALID_ARGUMENT")
        daemon.check_serves()

    def test_a_joined_rank_goes_away_before_the_others_come(self):
        daemon = self.daemon()
        identifier = new_id()
        leaving = self.start_rank(daemon, identifier, 3, 0, self.WORK)
        staying = self.start_rank(daemon, identifier, 3, 1, self.WORK)
        self.wait_until_joined(daemon, 2)
        leaving.kill()
        self.assert_step(staying.finish(), "init", "PEER_LOST", "rank 0")
        daemon.check_serves()

    def test_missing_ranks_are_named(self):
        daemon = self.daemon(*self.limits(init_timeout_s=1))
        identifier = new_id()
        ranks = [self.start_rank(daemon, identifier, 4, rank, self.WORK) for rank in [0, 2]]
        for rank in ranks:
            self.assert_step(rank.finish(), "init", "TIMEOUT", r"\b1\b", r"\b3\b")
        daemon.check_serves()

    def test_an_id_can_be_used_again_after_its_timeout(self):
        daemon = self.daemon()
        identifier = new_id()
        hasty = self.start_client(daemon, [f"join:{identifier}:2:0:0:300"])
        self.assert_step(hasty.finish(), "init", "TIMEOUT")
        for rank in [self.start_rank(daemon, identifier, 2, rank, self.WORK) for rank in [0, 1]]:
            self.assert_all_ok(rank.finish())


class LateTest(IntegrationTest):
    def test_a_rank_that_never_submits_is_named(self):
        daemon = self.daemon(*self.limits(op_timeout_s=SHORT_S))
        ranks = self.start_ranks(daemon, [0, 1, 2],
                                 {None: ["allreduce:10:float32:sum", "allreduce:20:float32:sum"],
                                  1: ["await-lost", "allreduce:10:float32:sum"]})
        steps = [rank.finish() for rank in ranks]
        for rank in [0, 2]:
            self.assert_step(steps[rank], "allreduce:10:float32:sum", "TIMEOUT", "rank 1")
            self.assert_step(steps[rank], "allreduce:20:float32:sum", "TIMEOUT", "rank 1")
        self.assert_step(steps[1], "await-lost", "TIMEOUT", "rank 1")
        self.assert_step(steps[1], "allreduce:10:float32:sum", "TIMEOUT", "rank 1")
        daemon.check_serves()

    def test_a_communicator_at_rest_has_no_timeout(self):
        daemon = self.daemon(*self.limits(op_timeout_s=SHORT_S))
        steps = ["allreduce:10:float32:sum", f"sleep:{int(1000 * SHORT_S) + 500}", "allreduce:20:float32:sum"]
        for reported in self.run_ranks(daemon, [0, 1], steps):
            self.assert_all_ok(reported)


if __name__ == "__main__":
    unittest.main()

"""Ranks that go while others count on them: whoever waits for them hears of it."""
import os
import signal
import unittest

import raw
from harness import IntegrationTest, new_id
from limit import LIMIT_S, SHORT_S

SHORT = "allreduce:100:float32:sum"


class ForkedChildTest(IntegrationTest):
    """The child of a rank, a data loader for instance, holds the rank's socket open."""

    def kill_rank_with_child(self, daemon):
        ranks = self.start_ranks(daemon, [0, 1], {0: [SHORT, "gate:go", SHORT, "await-lost"],
                                                  1: [SHORT, "fork", "gate:go"]})
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.assert_step(ranks[1].steps(), "fork", "OK")
        os.kill(ranks[1].pid, signal.SIGKILL)
        return ranks

    def test_killed_rank_frees_survivors_though_its_child_lives(self):
        daemon = self.daemon()
        survivor, killed = self.kill_rank_with_child(daemon)
        survivor.say()
        steps = survivor.finish()
        self.assert_step(steps, SHORT, "PEER_LOST", "rank 1")
        self.assert_step(steps, "await-lost", "PEER_LOST", "rank 1")
        killed.child.stdin.close()

    def test_killed_client_is_forgotten_though_its_child_lives(self):
        daemon = self.daemon()
        survivor, killed = self.kill_rank_with_child(daemon)
        self.until(lambda: killed.pid not in [client["pid"] for client in
                                              self.ctl_json(daemon, "clients")["clients"]])
        survivor.say()
        survivor.finish()
        killed.child.stdin.close()


class GatheringTest(IntegrationTest):
    """Ranks that go while others gather: nobody waits for the time that ranks have to join."""

    def start_split(self, daemon, last):
        """Three ranks split, of which the last one only tells its colour and then does something else."""
        return self.start_ranks(daemon, [0, 1, 2], {None: [SHORT, "split:0", SHORT],
                                                    2: [SHORT, "split-choice:0", *last]})

    def check_split(self, ranks, result, *texts):
        for rank in ranks[:2]:
            steps = rank.finish()
            self.assert_step(steps, "split:0", result, *texts)

    def test_killed_rank_frees_those_inside_split(self):
        daemon = self.daemon()
        ranks = self.start_split(daemon, ["kill"])
        self.check_split(ranks, "PEER_LOST", "rank 2 of communicator 1")
        ranks[2].finish()
        daemon.check_serves()

    def test_rank_that_leaves_frees_those_inside_split(self):
        daemon = self.daemon()
        ranks = self.start_split(daemon, ["destroy"])
        self.check_split(ranks, "PEER_LOST", "rank 2 of communicator 1")
        self.assert_all_ok(ranks[2].finish())

    def test_abort_frees_those_inside_split(self):
        daemon = self.daemon()
        ranks = self.start_split(daemon, ["abort"])
        self.check_split(ranks, "ABORTED", "communicator 1", "aborted")
        self.assert_all_ok(ranks[2].finish())

    def test_rank_of_another_colour_may_go_while_others_gather(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2], {0: [SHORT, "split:0", SHORT],
                                                     1: [SHORT, "split-choice:0", "gate:late"],
                                                     2: [SHORT, "split:7", "use:0", "destroy", "use:1"]})
        ranks[1].wait_for_step("at-gate")
        self.assert_all_ok(ranks[2].finish())
        self.until(lambda: "joining" in [comm["state"] for comm in self.ctl_json(daemon, "comms")["comms"]])
        ranks[1].kill()
        self.assert_step(ranks[0].finish(), "split:0", "PEER_LOST", "rank 1 of communicator 1")

    def test_late_joiner_hears_of_a_death_before_it_came(self):
        daemon = self.daemon()
        identifier = new_id()
        early = [self.start_rank(daemon, identifier, 3, rank, [SHORT]) for rank in [0, 1]]
        self.until(lambda: [comm["clients"].count(0)
                            for comm in self.ctl_json(daemon, "comms")["comms"]] == [1])
        early[0].kill()
        self.assert_step(early[1].finish(), "init", "PEER_LOST", "rank 0")
        late = self.start_rank(daemon, identifier, 3, 2, [SHORT])
        self.assert_step(late.finish(), "init", "PEER_LOST", "rank 0")

    def test_failed_ids_are_forgotten_in_time(self):
        daemon = self.daemon(*self.limits(init_timeout_s=SHORT_S))
        identifier = new_id()
        early = self.start_rank(daemon, identifier, 2, 0, [SHORT])
        self.until(lambda: self.ctl_json(daemon, "comms")["comms"])
        early.kill()
        late = lambda: self.start_rank(daemon, identifier, 2, 1, [SHORT]).finish()
        self.assert_step(late(), "init", "PEER_LOST", "rank 0")
        self.until(lambda: self.find(late(), "init")["result"] == "BLINK_ERR_TIMEOUT")

    def test_failed_ids_are_remembered_for_the_time_of_their_gathering(self):
        """One with more time than the daemon gives by itself is still known when the other is forgotten."""
        daemon = self.daemon(*self.limits(init_timeout_s=0.1))
        ids, gone = [raw.unique_id(), raw.unique_id()], raw.RawClient(daemon)
        gone.hello()
        joins = [raw.message(_1=identifier, _2=2, _10=time_ms)
                 for identifier, time_ms in zip(ids, [int(LIMIT_S * 1000), 90])]
        for join in joins:
            gone.send(raw.COMM_INIT, join)
        gone.request(raw.QUERY)
        gone.close()
        late = raw.open_client(self, daemon)
        self.until(lambda: late.request(raw.COMM_INIT, joins[1]).code == raw.TIMEOUT)
        self.assertEqual(late.request(raw.COMM_INIT, joins[0]).code, raw.PEER_LOST)

    def test_each_gathering_has_its_own_time(self):
        """The one with less time is told in its time, though it began to gather later."""
        daemon = self.daemon()
        patient, hasty = (raw.open_client(self, daemon) for _ in range(2))
        patient.send(raw.COMM_INIT, raw.message(_1=raw.unique_id(), _2=2, _3=0))
        self.until(lambda: self.ctl_json(daemon, "comms")["comms"])
        reply = hasty.request(raw.COMM_INIT, raw.message(_1=raw.unique_id(), _2=2, _3=0, _10=200))
        self.assertEqual(reply.code, raw.TIMEOUT)


if __name__ == "__main__":
    unittest.main()

"""Joins that are begun and not waited for, and joins that are given up: every rank hears why."""
import unittest

from harness import IntegrationTest, new_id

OP = "allreduce:1000:float32:sum"
GAVE_UP = r"rank 0 \(pid \d+\) gave up before all ranks had joined"


class JoiningTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.blinkd = self.daemon()
        self.identifier = new_id()

    def begin(self, rank, *steps, rank_count=2):
        return self.start_client(self.blinkd, [f"begin:{self.identifier}:{rank_count}:{rank}", *steps])

    def join(self, rank, *steps, rank_count=2):
        return self.start_rank(self.blinkd, self.identifier, rank_count, rank, steps)

    def wait_until_joined(self, count):
        self.until(lambda: sum(client != 0 for comm in self.ctl_json(self.blinkd, "comms")["comms"]
                               for client in comm["clients"]) >= count)

    def begin_two_of_three(self, *steps):
        """Ranks 0, which waits at a gate before its steps, and 1, which waits until it is ready."""
        begun = self.begin(0, "gate:joined", *steps, rank_count=3)
        waiting = self.begin(1, "ready", "destroy", rank_count=3)
        self.wait_until_joined(2)
        return begun, waiting

    def check_nothing_is_left(self):
        self.assertEqual(self.ctl_json(self.blinkd, "comms")["comms"], [])
        self.blinkd.check_serves()

    def test_a_rank_that_begins_and_looks_beside_one_that_waits(self):
        begun = self.begin(0, "ready:0", "gate:all", "ready", OP, "destroy")
        begun.wait_for_step("at-gate")
        waiting = self.join(1, OP, "destroy")
        begun.say()
        steps = begun.finish()
        self.assert_all_ok(steps)
        self.assert_step(steps, "ready:0", "OK", "still joining")
        self.assert_step(steps, "ready", "OK", "^ready")
        self.assert_all_ok(waiting.finish())
        self.check_nothing_is_left()

    def test_a_join_that_is_aborted_ends_for_all_ranks_and_for_who_comes_late(self):
        waiting = self.join(1, rank_count=3)
        self.wait_until_joined(1)
        begun = self.begin(0, "gate:joined", "abort-awaited", "ready", "abort", "destroy", rank_count=3)
        self.wait_until_joined(2)
        begun.say()
        steps = begun.finish()
        self.assert_step(steps, "abort-awaited", "ABORTED", GAVE_UP)
        self.assert_step(steps, "ready", "ABORTED", GAVE_UP)
        self.assert_step(steps, "abort", "OK")
        self.assert_step(steps, "destroy", "OK")
        self.assert_step(waiting.finish(), "init", "ABORTED", GAVE_UP)
        self.assert_step(self.join(2, rank_count=3).finish(), "init", "ABORTED", GAVE_UP)
        self.check_nothing_is_left()

    def test_a_join_is_given_up_by_destroying_it(self):
        begun, waiting = self.begin_two_of_three("destroy")
        begun.say()
        self.assert_all_ok(begun.finish())
        self.assert_step(waiting.finish(), "ready", "ABORTED", GAVE_UP)
        self.check_nothing_is_left()

    def test_a_join_that_is_given_up_when_all_have_joined_is_an_abort(self):
        begun = self.begin(0, "gate:all", "destroy")
        begun.wait_for_step("at-gate")
        waiting = self.join(1, "await-lost")
        waiting.wait_for_step("init")
        begun.say()
        self.assert_all_ok(begun.finish())
        self.assert_step(waiting.finish(), "await-lost", "ABORTED", r"rank 0 \(pid \d+\) aborted")
        self.check_nothing_is_left()

    def test_a_rank_is_killed_while_it_joins(self):
        begun, waiting = self.begin_two_of_three()
        begun.kill()
        self.assert_step(waiting.finish(), "ready", "PEER_LOST", "rank 0")
        self.check_nothing_is_left()

    def test_a_daemon_is_killed_while_ranks_join(self):
        begun, waiting = self.begin_two_of_three("ready", "destroy")
        self.blinkd.kill()
        self.assert_step(waiting.finish(), "ready", "DAEMON_LOST")
        begun.say()
        steps = begun.finish()
        self.assert_step(steps, "ready", "DAEMON_LOST")
        self.assert_step(steps, "destroy", "OK")


if __name__ == "__main__":
    unittest.main()

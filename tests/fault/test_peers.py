"""Ranks that go while others count on them: whoever waits for them hears of it."""
import os
import signal
import unittest

from harness import IntegrationTest

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


if __name__ == "__main__":
    unittest.main()

"""Communicators with ranks on several hosts: what they move, and what they hear when something goes.

The programs are those of the integration tests; each rank is told the socket of its own host's daemon.
"""
import json
import os
import signal
import unittest

from cluster import OP, EndsTests, RanksTest, require_namespaces
from harness import BLINK_PERF

BLINK_API = os.environ["BLINK_API"]
COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
               "alltoall", "alltoallv", "sendrecv"]
GOOD = f"times:100:{OP}"


def setUpModule():
    require_namespaces()


class PerfTest(RanksTest):
    def perf(self, places, collective, *arguments):
        """blink-perf compares every element with a reference; its ranks meet by a file."""
        id_file = os.path.join(self.directory(), "id")
        devices = ",".join(str(device) for _, device in places)
        ranks = [self.start([BLINK_PERF, "--socket", host.daemon.socket, collective, "--check", "--iters", 1,
                             "--warmup", 0, "--id-file", id_file, "--devices", devices, *arguments],
                            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(places))})
                 for rank, (host, _) in enumerate(places)]
        for rank in ranks:
            self.assertEqual(rank.wait(), 0, rank.describe())

    def perf_all(self, places, *arguments, collectives=COLLECTIVES):
        for collective in collectives:
            with self.subTest(collective=collective):
                self.perf(places, collective, *arguments)

    def play(self, places, scenario):
        sockets = ",".join(host.daemon.socket for host, _ in places)
        status, _, err = self.run_command([BLINK_API, scenario, len(places)],
                                          env={**os.environ, "BLINK_SOCKETS": sockets})
        self.assertEqual(status, 0, err)


class Matrix(PerfTest):
    SIZES = ("--min", "8", "--max", "1M", "--stepfactor", 361)

    def test_two_hosts_with_a_rank_each(self):
        self.perf_all(self.places(1, 1), *self.SIZES)

    def test_two_hosts_with_two_ranks_each(self):
        self.perf_all(self.places(2, 2), *self.SIZES)

    def test_three_hosts(self):
        self.perf_all(self.places(1, 1, 1), *self.SIZES)

    def test_hosts_with_as_many_ranks_as_they_like(self):
        self.perf_all(self.places(2, 1), *self.SIZES)

    def test_types_and_operators(self):
        self.perf_all(self.places(1, 1), "--datatype", "all", "--op", "all", "--min", "1K", "--max", "1K",
                      collectives=["allreduce", "reducescatter"])

    def test_memory_that_is_not_registered(self):
        self.perf_all(self.places(2, 1), "--memory", "malloc", "--min", "64", "--max", "4M", "--stepfactor",
                      256, collectives=["allreduce", "allgather", "alltoall", "broadcast"])

    def test_barriers(self):
        self.perf(self.places(2, 1), "barrier")

    def test_ops_in_groups(self):
        self.perf(self.places(1, 1, 1), "allreduce", "--groups", 20, "--min", "8", "--max", "64K")


class Scenarios(PerfTest):
    def test_two_hosts(self):
        places = self.places(2, 2)
        for scenario in ("exchange", "mixed-group", "empty-group", "failed-group", "all-to-all-v", "order",
                         "wait-any", "poll", "malloc", "malloc-all-gather", "split", "finalize",
                         "many-comms", "pre-mul-sum", "different-collectives", "uneven-blocks",
                         "uneven-blocks-that-disagree"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario)

    def test_two_ranks(self):
        places = self.places(1, 1)
        for scenario in ("large-group", "mismatched-transfer", "unmatched-transfers", "exchange"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario)

    def test_three_hosts(self):
        places = self.places(2, 1, 2)
        for scenario in ("exchange", "split", "many-comms"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario)


class Disagreement(RanksTest):
    def test_mismatch_costs_one_op(self):
        places = self.places(1, 1, 1)
        other = {2: ["allreduce:1001:float32:sum", GOOD, "destroy"]}
        for steps in self.run_at(places, OP, GOOD, "destroy", own=other):
            failed = [step for step in steps if step["result"] != "BLINK_OK"]
            self.assertEqual([step["result"] for step in failed], ["BLINK_ERR_MISMATCH"], steps)
            self.assertRegex(failed[0]["text"], "rank 2 on n3.*1001|1001.*rank 2 on n3")
            self.assertEqual(steps[-1]["step"], "close")

    def test_refused_op_costs_nothing(self):
        """Its host refuses it at once, the others do not hear of it, and it does not count as an op."""
        refused = ["past-region", "overlap", "datatype", "redop", "root"]
        places = self.places(1, 1, 1)
        own = {1: [*(f"fault:{kind}" for kind in refused), f"times:100:{OP}", "destroy"]}
        first, second, third = self.run_at(places, f"times:100:{OP}", "destroy", own=own)
        for steps in (first, third, [step for step in second if not step["step"].startswith("fault:")]):
            self.assert_all_ok(steps)
        for kind in refused:
            self.assertNotEqual(self.find(second, f"fault:{kind}")["result"], "BLINK_OK", second)

    def test_mismatch_is_followed_by_a_hundred_good_ops(self):
        places = self.places(1, 1)
        own = {1: ["allreduce:1001:float32:sum", f"times:100:{OP}", "destroy"]}
        for steps in self.run_at(places, OP, f"times:100:{OP}", "destroy", own=own):
            failed = [step for step in steps if step["result"] != "BLINK_OK"]
            self.assertEqual([step["result"] for step in failed], ["BLINK_ERR_MISMATCH"], steps)
            self.assert_step(steps, f"times:100:{OP}", "OK")

    def test_rank_that_leaves(self):
        places = self.places(1, 1)
        own = {1: [OP, "destroy"]}
        first, second = self.run_at(places, OP, OP, "destroy", own=own)
        self.assert_all_ok(second)
        failed = [step for step in first if step["result"] != "BLINK_OK"]
        self.assertEqual([step["result"] for step in failed], ["BLINK_ERR_PEER_LOST"], first)


class Ends(EndsTests, RanksTest):
    def test_killed_rank_of_three_hosts(self):
        places = self.places(1, 1, 1)
        ranks = self.working(places)
        ranks[2].kill()
        for rank in ranks[:2]:
            self.assert_lost(rank, "rank 2")
        self.check_serve(places)

    def test_daemon_that_hangs_is_named(self):
        places = self.places(1, 1, timeout_s=1)
        ranks = self.working(places)
        places[1][0].daemon.child.send_signal(signal.SIGSTOP)
        self.assert_lost(ranks[0], "n2")
        places[1][0].daemon.child.send_signal(signal.SIGCONT)
        self.assert_lost(ranks[1], "n1")
        self.check_serve(places)

    def test_cut_cable(self):
        places = self.places(1, 1, timeout_s=1)
        ranks = self.working(places)
        places[1][0].plug(False)
        for rank in ranks:
            self.assert_lost(rank, "n[12]")
        places[1][0].plug(True)
        self.check_serve(places)

    def test_two_hundred_communicators_at_once(self):
        """All have an op under way at a time, which the hosts begin in different orders."""
        one, two = self.started(2)
        ids = [(one, two)[i % 2].new_id() for i in range(4)]
        ids = [identifier[:-8] + f"{i:08x}" for i, identifier in enumerate(50 * ids)]
        ranks = []
        for rank, host in enumerate((one, two)):
            join = [f"join:{identifier}:2:{rank}:0" for identifier in ids]
            order = range(200) if rank == 0 else reversed(range(200))
            use = [step for i in order for step in (f"use:{i}", f"submit:{OP}")] + ["wait"]
            ranks.append(self.start_client(host.daemon, join + 3 * use))
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_nothing_is_left_of_communicators(self):
        places = self.places(1, 1)
        self.check_serve(places)
        before = [host.daemon.descriptors() for host, _ in places]
        for _ in range(10):
            self.check_serve(places)
        for (host, _), count in zip(places, before):
            self.until(lambda host=host, count=count: host.daemon.descriptors() <= count)
            self.until(lambda host=host: not self.ctl_json(host.daemon, "comms")["comms"])



if __name__ == "__main__":
    unittest.main()

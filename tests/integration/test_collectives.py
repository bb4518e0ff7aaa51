"""Every element is right: collectives, types, operators, sizes, algorithms, topologies, partial
allocations."""
import unittest

from harness import ALL, IntegrationTest, new_id

TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64"]
OPERATORS = ["sum", "prod", "max", "min"]
PLACES = ["", ":inplace"]
SMALL_COUNTS = [0, 1, 3, 1000]
LARGE_COUNT = 1000003
ALLOCATIONS = [ALL, [0, 1, 2, 3, 4, 5], [1, 4, 5, 6], [0, 1, 4]]


def allreduces(counts, types=TYPES, operators=OPERATORS):
    return [f"allreduce:{count}:{datatype}:{operator}{place}"
            for count in counts for datatype in types for operator in operators for place in PLACES]


def broadcasts(counts, roots, types=TYPES):
    return [f"broadcast:{count}:{datatype}:{root}{place}"
            for count in counts for datatype in types for root in roots for place in PLACES]


class CollectiveTest(IntegrationTest):
    def check(self, daemon, devices, steps, algorithm=None):
        for reported in self.run_ranks(daemon, devices, steps, algorithm):
            self.assert_all_ok(reported)
            self.assertEqual(len(reported), len(steps) + 3, "open, init, the steps, close")

    def check_allocations(self, topology, algorithm):
        daemon = self.daemon(topology=topology)
        for devices in ALLOCATIONS:
            with self.subTest(topology=topology, algorithm=algorithm, devices=devices):
                roots = [0, len(devices) - 1]
                self.check(daemon, devices,
                           allreduces(SMALL_COUNTS) + broadcasts(SMALL_COUNTS, roots) +
                           allreduces([LARGE_COUNT], ["float32"], ["sum"]) +
                           broadcasts([LARGE_COUNT], roots, ["float32"]), algorithm)

    def test_trees_on_the_plain_host(self):
        self.check_allocations(None, "trees")

    def test_rings_on_the_plain_host(self):
        self.check_allocations(None, "ring")

    def test_trees_on_a_dgx1v_with_pcie(self):
        self.check_allocations("dgx1v_hybrid", "trees")

    def test_rings_on_a_dgx1v_with_pcie(self):
        self.check_allocations("dgx1v_hybrid", "ring")

    def test_every_algorithm_reduces_right(self):
        for algorithm in ["double-binary-tree", "blink", "one-hop", "binomial", "recursive-doubling",
                          "shallow-trees"]:
            with self.subTest(algorithm=algorithm):
                self.check(self.daemon(topology="dgx1v_hybrid"), [0, 1, 2, 3, 4, 5],
                           allreduces(SMALL_COUNTS) + allreduces([LARGE_COUNT], ["float32"], ["sum"]),
                           algorithm)

    def test_an_algorithm_that_does_not_broadcast_says_so_on_every_rank(self):
        for reported in self.run_ranks(self.daemon(topology="dgx1v"), [0, 1, 2, 3],
                                       ["broadcast:100:float32:0"], "double-binary-tree"):
            self.assertIn("double binary trees do allreduce, not broadcast", str(reported))

    def test_switches_that_reduce_stand_between_host_devices(self):
        daemon = self.daemon(topology="dgx_h100")
        self.check(daemon, [1, 0, 2, 5, 7],
                   allreduces(SMALL_COUNTS) + allreduces([LARGE_COUNT], ["float32"], ["sum"]), "multicast")
        for reported in self.run_ranks(daemon, [0, 1], ["broadcast:100:float32:0"], "multicast"):
            self.assertIn("multicast does no broadcast", str(reported))

    def test_every_type_and_operator_at_a_large_odd_size(self):
        daemon = self.daemon(topology="dgx1v")
        for operator in OPERATORS:
            self.check(daemon, [0, 1, 2, 3], allreduces([LARGE_COUNT], TYPES, [operator]))
        self.check(daemon, [0, 1, 2, 3], broadcasts([LARGE_COUNT], [2]))

    def test_every_root_of_a_broadcast(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        for algorithm in ["trees", "ring"]:
            self.check(daemon, ALL, broadcasts([70001], ALL, ["int32"]), algorithm)

    def test_topologies_with_switches(self):
        for topology in ["pcie8", "dgx2", "dgx_a100", "dgx_h100", "dgx1p"]:
            with self.subTest(topology=topology):
                daemon = self.daemon(topology=topology)
                steps = ["allreduce:300007:float32:sum", "broadcast:300007:float32:3"]
                self.check(daemon, ALL, steps)
                daemon.stop()

    def test_a_single_rank(self):
        daemon = self.daemon()
        self.check(daemon, [3], allreduces([0, 1000], ["float32"]) + broadcasts([0, 1000], [0], ["float32"]))

    def test_two_ranks_may_take_devices_in_any_order(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        self.check(daemon, [5, 0, 3], ["allreduce:100001:float32:sum", "broadcast:100001:float32:1"])

    def test_a_paced_daemon_moves_real_bytes(self):
        daemon = self.daemon("--pace=0.01", topology="dgx1v_hybrid")
        for algorithm in ["trees", "ring"]:
            self.check(daemon, ALL, ["allreduce:300007:float32:sum", "broadcast:300007:float32:3"], algorithm)

    def test_results_are_bit_identical_on_all_ranks(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        steps = [f"allreduce:{LARGE_COUNT}:{datatype}:{operator}:rough"
                 for datatype in ["float32", "float64"] for operator in ["sum", "prod"]]
        for algorithm in ["trees", "ring"]:
            by_rank = self.run_ranks(daemon, ALL, steps, algorithm)
            for steps_of_rank in by_rank:
                self.assert_all_ok(steps_of_rank)
            for step in steps:
                digests = {self.find(steps_of_rank, step)["digest"] for steps_of_rank in by_rank}
                self.assertEqual(len(digests), 1, f"{step} with {algorithm}")


class ConcurrencyTest(IntegrationTest):
    def test_ranks_in_one_process_by_threads(self):
        daemon = self.daemon()
        steps = ["allreduce:1000:float32:sum", "broadcast:100003:int64:1", "times:50:allreduce:10:int32:max"]
        identifier = new_id()
        ranks = [self.start_rank(daemon, identifier, 4, [0, 1], steps),
                 self.start_rank(daemon, identifier, 4, [2, 3], steps)]
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_several_communicators_at_once(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        steps = ["times:30:allreduce:50021:float32:sum", "times:30:broadcast:50021:int8:1"]
        groups = [self.start_ranks(daemon, devices, steps) for devices in [[0, 1, 2, 3], [0, 4, 2], [7, 3]]]
        for group in groups:
            for rank in group:
                self.assert_all_ok(rank.finish())

    def test_one_process_in_several_communicators(self):
        daemon = self.daemon()
        first, second = new_id(), new_id()
        steps = {rank: [f"join:{second}:2:{1 - rank}:{rank}", "submit:allreduce:50021:float32:sum", "wait",
                        "use:0", "allreduce:777:int32:sum", "use:1", "broadcast:777:int32:1"]
                 for rank in [0, 1]}
        for rank in [self.start_rank(daemon, first, 2, rank, steps[rank]) for rank in [0, 1]]:
            self.assert_all_ok(rank.finish())

    def test_many_ops_outstanding(self):
        daemon = self.daemon()
        steps = ["times:60:submit:allreduce:100:float32:sum", "wait"]
        for reported in self.run_ranks(daemon, [0, 1, 2], steps):
            self.assert_all_ok(reported)

    def test_more_ops_outstanding_than_the_ring_has_entries(self):
        daemon = self.daemon()
        steps = ["times:300:submit:allreduce:100:float32:sum", "wait"]
        for reported in self.run_ranks(daemon, [0, 1, 2], steps):
            self.assert_all_ok(reported)

    def test_one_rank_far_ahead_of_the_other(self):
        """All of rank 0's ops are in the daemon before rank 1 submits its first."""
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1],
                                 {0: ["times:300:submit:allreduce:10:int32:sum", "gate:ahead", "wait"],
                                  1: ["gate:ahead", "times:300:allreduce:10:int32:sum"]})
        ranks[0].wait_for_step("at-gate")
        ranks[1].say()
        ranks[0].say()
        for rank in ranks:
            for step in rank.finish():
                self.assertEqual((step["result"], step["wrong"]), ("BLINK_OK", 0), step)

    def test_ops_complete_by_test_and_by_poll_descriptor(self):
        daemon = self.daemon()
        steps = ["test:allreduce:100003:float32:sum", "poll:allreduce:100003:float32:sum",
                 "times:20:poll:broadcast:10:int8:0", "allreduce:10:int8:sum"]
        for reported in self.run_ranks(daemon, [0, 1], steps):
            self.assert_all_ok(reported)

    def test_empty_operations(self):
        daemon = self.daemon()
        self.assert_all_ok(self.start_client(daemon,
                                             ["nop:1", "times:1000:nop:1", "nop:500", "nop:5000"]).finish())

    def test_threads_share_one_context(self):
        daemon = self.daemon()
        self.assert_all_ok(self.start_client(daemon, ["threads:8"]).finish())

    def test_zero_counts_move_nothing(self):
        daemon = self.daemon()
        before = self.ctl_json(daemon, "links")
        steps = allreduces([0], ["float32", "int8"]) + broadcasts([0], [0, 1], ["float32"])
        for reported in self.run_ranks(daemon, [0, 1], steps):
            self.assert_all_ok(reported)
        after = self.ctl_json(daemon, "links")
        self.assertEqual([link["bytes"] for link in before["links"]],
                         [link["bytes"] for link in after["links"]])


if __name__ == "__main__":
    unittest.main()

"""The whole API on real processes: groups, transfers, splitting, completion, ordinary memory, and every
collective, type and operator checked against a reference."""
import os

from harness import BLINK_PERF, IntegrationTest
from limit import LIMIT_S, SHORT_S

BLINK_API = os.environ["BLINK_API"]

COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
               "alltoall", "alltoallv", "sendrecv", "allgatherv", "reducescatterv", "gatherv", "scatterv"]


class ApiTest(IntegrationTest):
    def play(self, scenario, ranks=4, init_timeout_s=LIMIT_S / 2, **options):
        daemon = self.daemon(*self.limits(init_timeout_s=init_timeout_s), **options)
        status, _, err = self.run_command([BLINK_API, scenario, ranks],
                                          env={**os.environ, "BLINK_SOCKET": daemon.socket})
        self.assertEqual(status, 0, err)
        daemon.check_serves()

    def test_exchange_of_all_with_all_in_a_group(self):
        self.play("exchange")

    def test_exchange_over_emulated_links_that_do_not_join_every_pair(self):
        self.play("exchange", ranks=8, topology="dgx1v")

    def test_transfers_to_oneself(self):
        self.play("exchange", ranks=1)

    def test_collectives_and_transfers_in_one_group(self):
        self.play("mixed-group", ranks=5)

    def test_empty_group(self):
        self.play("empty-group", ranks=2)

    def test_a_group_with_a_bad_call_submits_nothing(self):
        self.play("failed-group")

    def test_group_larger_than_the_rings(self):
        self.play("large-group", ranks=2)

    def test_crossed_sends_without_a_group_time_out(self):
        self.play("crossed-sends", ranks=2)

    def test_transfer_whose_ends_disagree(self):
        self.play("mismatched-transfer", ranks=2)

    def test_all_to_all_of_uneven_blocks(self):
        self.play("all-to-all-v")

    def test_blocks_of_different_lengths(self):
        self.play("uneven-blocks")

    def test_blocks_of_different_lengths_over_emulated_links(self):
        self.play("uneven-blocks", ranks=6, topology="dgx1v_hybrid")

    def test_blocks_of_one_rank(self):
        self.play("uneven-blocks", ranks=1)

    def test_blocks_of_different_lengths_in_a_group(self):
        self.play("uneven-blocks-in-a-group")

    def test_ranks_that_disagree_about_blocks(self):
        self.play("uneven-blocks-that-disagree")

    def test_ops_run_in_the_order_of_submission(self):
        self.play("order")

    def test_waiting_for_any(self):
        self.play("wait-any", ranks=2)

    def test_waiting_for_all(self):
        self.play("wait-all", ranks=2)

    def test_configurations_of_older_and_newer_programs(self):
        self.play("older-and-newer-configs", ranks=2)

    def test_versions_of_header_library_and_daemon(self):
        self.play("versions", ranks=1)

    def test_time_outs_change_while_ops_wait(self):
        self.play("set-timeout", ranks=2)

    def test_a_time_out_of_a_transfer_names_the_end_that_did_not_come(self):
        self.play("unmatched-transfers", ranks=2)

    def test_polling(self):
        self.play("poll", ranks=2)

    def test_ordinary_memory_beside_registered_memory(self):
        self.play("malloc", ranks=3)

    def test_ordinary_memory_over_emulated_links(self):
        self.play("malloc", ranks=3, topology="dgx1v_hybrid")

    def test_ordinary_memory_moves_while_nobody_waits(self):
        self.play("malloc-all-gather", ranks=3)

    def test_splitting_and_duplicating(self):
        self.play("split", ranks=5)

    def test_finalize_completes_everything(self):
        self.play("finalize")

    def test_communicators_used_in_any_order(self):
        self.play("many-comms")

    def test_sum_weighted_by_rank(self):
        self.play("pre-mul-sum")

    def test_ranks_that_ask_for_different_timeouts(self):
        self.play("timeouts-differ", ranks=2, init_timeout_s=SHORT_S)

    def test_bad_arguments_are_named(self):
        self.play("bad-arguments")

    def test_different_collectives_are_named_on_every_rank(self):
        self.play("different-collectives", ranks=3)


class MatrixTest(IntegrationTest):
    """blink-perf --check compares every element with a reference."""

    def check(self, daemon, ranks, collective, *arguments):
        status, out, err = self.run_command([BLINK_PERF, "--socket", daemon.socket, collective, "--ranks",
                                             ranks, "--check", "--iters", 1, "--warmup", 0, *arguments])
        self.assertEqual(status, 0, f"{out}{err}")

    def check_all(self, ranks, *arguments, collectives=COLLECTIVES, **options):
        daemon = self.daemon(**options)
        for collective in collectives:
            with self.subTest(collective=collective):
                self.check(daemon, ranks, collective, *arguments)

    def test_every_collective_type_and_operator(self):
        self.check_all(4, "--datatype", "all", "--op", "all", "--min", "1K", "--max", "1K")

    def test_every_collective_in_ordinary_memory(self):
        self.check_all(3, "--memory", "malloc", "--min", "64", "--max", "16M", "--stepfactor", 64)

    def test_every_collective_over_emulated_links(self):
        self.check_all(6, "--min", "64", "--max", "4M", "--stepfactor", 256, topology="dgx1v_hybrid")

    def test_reductions_of_small_floats_over_emulated_links(self):
        self.check_all(8, "--datatype", "all", "--op", "all", "--min", "4K", "--max", "4K", topology="dgx1v",
                       collectives=["allreduce", "reducescatter"])


class ExplainCommTest(IntegrationTest):
    def explain(self, *arguments):
        """Of a communicator whose first rank has done what the steps say and waits."""
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1], [*arguments, "gate"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        number = self.ctl_json(daemon, "comms")["comms"][0]["comm"]
        explained = (self.ctl_json(daemon, "explain", "--comm", number),
                     self.ctl(daemon, "explain", "--comm", number))
        for rank in ranks:
            rank.say()
            rank.finish()
        return explained

    def test_registered_memory_is_used_in_place(self):
        packed, text = self.explain("allreduce:1000:float32:sum")
        self.assertEqual((packed["direct_bytes"], packed["staged_bytes"]), (2 * 2 * 4000, 0))
        self.assertEqual(packed["plans"][0]["algorithm"], "one-hop")
        self.assertIn("read and written in place", text)

    def test_an_unknown_communicator_is_named(self):
        daemon = self.daemon()
        status, _, err = self.run_command([os.environ["BLINKCTL"], "--socket", daemon.socket, "explain",
                                           "--comm", 99])
        self.assertNotEqual(status, 0)
        self.assertIn("no communicator 99", err)

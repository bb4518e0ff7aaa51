"""blinkctl explain: what is chosen, in words and as JSON, and how it refuses."""
import json
import unittest

from harness import BLINKCTL, IntegrationTest


class ExplainTest(IntegrationTest):
    def explain(self, *arguments):
        return self.run_command([BLINKCTL, "explain", *arguments])

    def explain_json(self, *arguments):
        status, out, err = self.explain(*arguments, "--json")
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def test_the_choice_is_the_first_candidate_and_within_a_percent_of_the_fastest(self):
        for bytes_ in ("1K", "1M", "256M"):
            answer = self.explain_json("--topology", "dgx1v_hybrid", "--bytes", bytes_)
            usable = [one for one in answer["candidates"] if "reason" not in one]
            self.assertEqual((answer["algorithm"], answer["protocol"]),
                             (usable[0]["algorithm"], usable[0]["protocol"]))
            self.assertLessEqual(answer["predicted_us"], 1.01 * min(one["predicted_us"] for one in usable))
            self.assertLessEqual(answer["rate_GBps"], 1.000001 * answer["bound_GBps"])

    def test_says_so_where_other_candidates_count_as_equal(self):
        for topology, size, is_tie in (("dgx1v_hybrid", "1G", False), ("dgx2", "16M", True)):
            words = ("--topology", topology, "--ranks", "0-3", "--bytes", size)
            times = sorted(one["predicted_us"] for one in self.explain_json(*words)["candidates"]
                           if "result" not in one)
            self.assertEqual(times[1] <= 1.01 * times[0], is_tie, "this size is no example any more")
            status, out, err = self.explain(*words)
            self.assertEqual(status, 0, err)
            self.assertEqual("predictions within 1 % of the least count as equal" in out, is_tie, out)

    def test_says_what_limits_and_what_would_be_ideal(self):
        answer = self.explain_json("--topology", "dgx1v", "--ranks", "0,1,4")
        self.assertIn("gpu1's single 25 GB/s link to gpu0", answer["limit"])
        self.assertAlmostEqual(answer["plan_busbw_GBps"], 25.0 * 4 / 3, places=3)
        self.assertAlmostEqual(answer["efficiency"], answer["plan_busbw_GBps"] / answer["ideal_busbw_GBps"])
        status, out, err = self.explain("--topology", "dgx_h100", "--collective", "broadcast", "--bytes",
                                        "1G")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("100.0% of the ideal 450.000 GB/s", out)
        self.assertIn("450 / 1 = 450 GB/s", out)
        for topology in "dgx2", "64xdgx_a100":
            answer = self.explain_json("--topology", topology, "--collective", "alltoall")
            self.assertAlmostEqual(answer["efficiency"], 1.0, places=6)

    def test_one_rank_needs_no_table(self):
        status, out, err = self.explain("--topology", "dgx1v", "--ranks", "3", "--bytes", "1M")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^allreduce of 1 MiB on dgx1v, 1 rank: predicted \S+ us\n"
                              r"Nothing moves, so nothing limits\n$")

    def test_says_what_more_than_the_ideal_comes_from(self):
        for words, reason in [(["dgx1v_hybrid", "--ranks", "0-3"], "some ranks send more than others"),
                              (["dgx1v_hybrid", "--ranks", "0-3", "-c", "broadcast"], None),
                              (["dgx1v", "--ranks", "0,1,4", "-c", "gather"], "some ranks send more"),
                              (["dgx_h100", "--multicast"], "not count on switches that reduce and copy"),
                              (["dgx_h100"], None), (["dgx1v", "--ranks", "2"], None)]:
            with self.subTest(words=words):
                status, out, err = self.explain("--bytes", "1G", "--topology", *words)
                self.assertEqual((status, err), (0, ""))
                self.assertEqual("\nMore than the ideal, " in out, reason is not None, out)
                self.assertIn(reason or "", out)

    def test_names_the_phases_of_a_plan_of_several_hosts(self):
        phases = "phases: reduce within hosts (nvlink), between hosts over nic0, "
        self.assertIn(phases, self.explain_json("--topology", "2xdgx1v")["phases"])
        status, out, err = self.explain("--topology", "2xdgx1v")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("\n" + phases, out)
        self.assertEqual(self.explain_json("--topology", "dgx1v")["phases"], "")

    def test_a_limit_of_peers_and_what_it_costs(self):
        hosts = ("--topology", "6xdgx1v_hybrid@5")
        free, limited = self.explain_json(*hosts), self.explain_json(*hosts, "--peers-most", "4")
        self.assertEqual((free["peers"], free["unlimited"]), (5, None))
        self.assertLessEqual(limited["peers"], 4)
        self.assertEqual([limited["unlimited"][key] for key in ("algorithm", "peers", "predicted_us")],
                         [free[key] for key in ("algorithm", "peers", "predicted_us")])
        self.assertGreater(limited["predicted_us"], free["predicted_us"])
        text = self.explain(*hosts, "--peers-most", "4")[1]
        self.assertIn(f"\nhosts exchange data with {limited['peers']} others at most\n"
                      "without the limit of 4 peers: trees, ", text)
        self.assertIn("\nnot trees, simple: left out: a host would have 5 peers (most: 4); predicted are ",
                      text)
        self.assertNotIn("without the limit", self.explain(*hosts, "--peers-most", "5")[1])
        all_to_all = self.explain_json(*hosts, "--collective", "alltoall", "--peers-most", "1")
        self.assertEqual((all_to_all["peers"], all_to_all["unlimited"]), (5, None))  # where none has so few

    def test_gpus_do_not_reach_line_rates(self):
        at_line_rate = self.explain_json("--topology", "dgx_h100", "--bytes", "1G")
        on_gpus = self.explain_json("--topology", "dgx_h100", "--bytes", "1G", "--gpus")
        self.assertAlmostEqual(on_gpus["plan_busbw_GBps"], 0.8 * at_line_rate["plan_busbw_GBps"], delta=0.5)
        self.assertGreater(on_gpus["predicted_us"], 1.2 * at_line_rate["predicted_us"])
        self.assertLess(on_gpus["channels"], at_line_rate["channels"])  # one NVSwitch in the place of four
        hint = "at NVLink's line rate, of which GPUs reach about 80%: see --gpus"
        self.assertIn(hint, self.explain("--topology", "dgx_h100")[1])
        for arguments in (("dgx_h100", "--gpus"), ("pcie8",)):
            self.assertNotIn(hint, self.explain("--topology", *arguments)[1])

    def test_gpus_say_when_blocks_limit(self):
        large = self.explain("--topology", "dgx_a100", "--bytes", "256M", "--gpus")[1]
        self.assertRegex(large, r"\nIt takes \d+ blocks of a GPU at most, of which the busiest moves "
                         r"[\d.]+ of the 24 GB/s")
        small = self.explain("--topology", "dgx_a100", "--bytes", "8", "--gpus")[1]
        self.assertIn("\nBlocks limit this plan: of the 2 on a GPU the busiest moves 24 GB/s", small)
        self.assertNotIn("blocks", self.explain("--topology", "dgx_a100", "--bytes", "256M")[1])
        answer = self.explain_json("--topology", "dgx_a100", "--bytes", "256M", "--gpus")
        self.assertGreaterEqual(answer["blocks"]["count"] * 24, 240)  # enough to fill a GPU's links
        self.assertEqual(answer["blocks"]["GBps"], 24)
        self.assertIsNone(self.explain_json("--topology", "dgx_a100")["blocks"])

    def test_files_say_what_links_carry_and_not_what_blocks_do(self):
        _, text, _ = self.run_command([BLINKCTL, "topology", "dgx_a100", "--json"])
        file = self.write_file("machine.json", text)
        on_gpus = self.explain_json("--topology", file, "--bytes", "256M", "--gpus")
        self.assertEqual(on_gpus["bound_GBps"],
                         self.explain_json("--topology", file, "--bytes", "256M")["bound_GBps"])
        self.assertEqual(on_gpus["blocks"]["GBps"], 24)

    def test_switches_that_reduce_have_a_bound_of_their_own(self):
        hint = "switches that reduce and copy"
        answer = self.explain_json("--topology", "dgx_h100", "--bytes", "1G")
        self.assertAlmostEqual(answer["bound_GBps"], 450 * 8 / 14, places=3)
        self.assertAlmostEqual(answer["multicast_bound_GBps"], 450, places=3)
        self.assertLessEqual(answer["rate_GBps"], 1.000001 * answer["bound_GBps"])  # nothing uses it
        status, out, err = self.explain("--topology", "dgx_h100", "--bytes", "1G")
        self.assertEqual((status, err), (0, ""))
        self.assertIn(hint + ". Plans that make use of that have the bound 450.000 GB/s, "
                      "bus bandwidth 787.500 GB/s: see --multicast", out)
        with_it = self.explain_json("--topology", "dgx_h100", "--bytes", "1G", "--gpus", "--multicast")
        self.assertEqual((with_it["algorithm"], with_it["protocol"]), ("multicast", "simple"))
        self.assertAlmostEqual(with_it["rate_GBps"], 360 * 8 / 9, places=3)
        self.assertIn({"algorithm": "multicast", "protocol": "ll", "result": "UNSUPPORTED",
                       "reason": "a switch that reduces would add up flags, too"}, with_it["candidates"])
        on_gpus = self.explain_json("--topology", "dgx_h100", "--bytes", "1G", "--gpus")
        self.assertAlmostEqual(on_gpus["multicast_bound_GBps"], 0.8 * 450, places=3)
        # No difference to a broadcast, and no such switches in an A100's machine.
        self.assertNotIn(hint, self.explain("--topology", "dgx_h100", "--collective", "broadcast")[1])
        self.assertIsNone(self.explain_json("--topology", "dgx_a100")["multicast_bound_GBps"])

    def test_auto_plans_what_is_explained(self):
        answer = self.explain_json("--topology", "dgx2", "--bytes", "4K")
        status, out, err = self.run_command([BLINKCTL, "plan", "--topology", "dgx2", "--bytes", "4K",
                                             "--json"])
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out)["algorithm"], answer["algorithm"])

    def test_crossovers_are_in_order_and_agree_with_the_choice(self):
        answer = self.explain_json("--topology", "dgx1v", "--ranks", "0,1,2,3")
        sizes = [one["bytes"] for one in answer["crossovers"]]
        self.assertEqual(sizes[0], 1024)
        self.assertEqual(sizes, sorted(set(sizes)))
        last = [one for one in answer["crossovers"] if one["bytes"] <= answer["bytes"]][-1]
        self.assertEqual((last["algorithm"], last["protocol"]), (answer["algorithm"], answer["protocol"]))

    def test_the_table_names_choice_rate_bound_and_what_is_left_out(self):
        status, out, err = self.explain("--topology", "dgx1v")
        self.assertEqual(status, 0, err)
        self.assertIn("allreduce of 64 MiB on dgx1v, 8 ranks", out)
        self.assertRegex(out, r"rate [0-9.]+ GB/s, proven bound 85\.714 GB/s")
        self.assertRegex(out, r"not one-hop, simple: no path of dgx1v leads from rank \d \(gpu\d\)")
        self.assertIn("Fastest by size", out)

    def test_what_it_cannot_do_is_said(self):
        status, _, err = self.explain("--topology", "dgx1v", "--algorithm", "ring")
        self.assertEqual(status, 2)
        self.assertIn("explain compares all algorithms", err)
        for words in (["--topology", "dgx1v"], ["-c", "broadcast"], ["--bytes", "1M"], ["-r", "0,1"],
                      ["-c", "allreduce"], ["--bytes", "64M"], ["--peers-most", "0"], ["-a", "auto"]):
            status, _, err = self.explain("--comm", "1", *words)
            self.assertEqual((status, "--comm shows what live ops have run by" in err), (2, True), err)
        status, _, err = self.explain("--topology", "dgx1v", "--collective", "broadcast", "--root", "8")
        self.assertEqual(status, 1)
        self.assertIn("root 8 is not one of 8 ranks", err)


class TimesTest(IntegrationTest):
    """explain --comm: how long ops took, beside what was predicted."""

    def plans(self, daemon, *steps):
        """By payload: what two ranks' AllReduces have run by, once both have done what the steps say."""
        ranks = self.start_ranks(daemon, [0, 1], [*steps, "gate"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        number = self.ctl_json(daemon, "comms")["comms"][0]["comm"]
        plans = self.ctl_json(daemon, "explain", "--comm", number)["plans"]
        text = self.ctl(daemon, "explain", "--comm", number)
        self.assertIn("predicted us", text, daemon.describe())
        self.assertIn("measured us", text)
        for rank in ranks:
            rank.say()
            rank.finish()
        for plan in plans:
            self.assertLessEqual(plan["measured_count"], plan["op_count"])
            self.assertEqual(plan["measured_least_us"] > 0, plan["measured_count"] > 0)
            self.assertGreaterEqual(plan["measured_us"], plan["measured_least_us"] * 0.999)
        return {plan["bytes_most"]: plan for plan in plans}

    def test_ops_over_emulated_links_take_no_less_than_half_of_what_is_predicted(self):
        """Emulated links bound the time from below; how much longer it takes is the machine's load."""
        daemon = self.daemon("--pace=0.001", topology="dgx1v")
        plans = self.plans(daemon, *["allreduce:16384:float32:sum"] * 3,
                           *["allreduce:1048576:float32:sum"] * 2)
        self.assertEqual({size: plan["op_count"] for size, plan in plans.items()}, {65536: 3, 4 << 20: 2})
        for size, plan in plans.items():
            with self.subTest(bytes=size):
                self.assertGreater(plan["measured_least_us"], plan["predicted_us"] / 2)

    def test_ops_in_memory_by_size_class(self):
        plans = self.plans(self.daemon(), *["allreduce:1000:float32:sum", "allreduce:900:float32:sum"] * 2,
                           "allreduce:100000:float32:sum")
        self.assertEqual({size: (plan["bytes_least"], plan["op_count"]) for size, plan in plans.items()},
                         {4000: (3600, 4), 400000: (400000, 1)})
        self.assertAlmostEqual(plans[400000]["predicted_us"], 400000 * 2 / 40000, delta=0.1)


if __name__ == "__main__":
    unittest.main()

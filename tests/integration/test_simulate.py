"""blinkctl simulate: sweeps and their formats, and GOAL schedules read back as an outside simulator would."""
import collections
import csv
import io
import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from goal import Goal, Replay
from harness import BLINKCTL, IntegrationTest


class SimulateTest(IntegrationTest):
    def simulate(self, *arguments):
        status, out, err = self.run_command([BLINKCTL, "simulate", *arguments])
        self.assertEqual(status, 0, err)
        return out

    def simulate_json(self, *arguments):
        return json.loads(self.simulate(*arguments, "--json"))

    def refuse(self, status, *arguments):
        """Standard error of a command that fails with this status and prints nothing else."""
        found, out, err = self.run_command([BLINKCTL, "simulate", *arguments])
        self.assertEqual((found, out), (status, ""), err)
        return err

    def file(self, name):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return os.path.join(directory.name, name)


class SweepTest(SimulateTest):
    def test_sizes_go_from_the_least_to_the_most_by_the_factor(self):
        results = self.simulate_json("-t", "dgx1v", "-b", "8", "-e", "1M", "--factor", "16")["results"]
        self.assertEqual([result["bytes"] for result in results], [8, 128, 2048, 32768, 524288])

    def test_bandwidths_follow_from_time_as_in_nccl_tests(self):
        for collective, factor in [("allreduce", 2 * 7 / 8), ("broadcast", 1)]:
            [result] = self.simulate_json("-t", "dgx1v", "-c", collective, "--bytes", "16M")["results"]
            self.assertAlmostEqual(result["algbw_GBps"], result["bytes"] / result["time_us"] / 1e3, places=6)
            self.assertAlmostEqual(result["busbw_GBps"], result["algbw_GBps"] * factor, places=6)

    def test_busy_shares_are_of_the_capacity(self):
        simulation = self.simulate_json("-t", "dgx1v", "--bytes", "64M")
        [result] = simulation["results"]
        status, out, err = self.run_command([BLINKCTL, "topology", "dgx1v", "--format", "json"])
        self.assertEqual(status, 0, err)
        capacity = collections.Counter()
        for link in json.loads(out)["links"]:
            directions = 2 if link.get("duplex", True) else 1
            for pair in [(link["from"], link["to"]), (link["to"], link["from"])][:directions]:
                capacity[pair] += link["GBps"] * link.get("count", 1)
        self.assertEqual({(link["from"], link["to"]) for link in result["links"]}, set(capacity))
        for link in result["links"]:
            busy_us = link["bytes"] / capacity[link["from"], link["to"]] / 1e3
            self.assertAlmostEqual(link["busy"], busy_us / result["time_us"], places=6)
            self.assertLessEqual(link["busy"], 1)

    def test_csv_says_what_json_says(self):
        arguments = ["-t", "dgx1v", "-b", "1K", "-e", "1M", "-f", "32", "-a", "trees,ring", "--ranks",
                     "0,1,2,3"]
        rows = list(csv.DictReader(io.StringIO(self.simulate(*arguments, "--csv"))))
        results = self.simulate_json(*arguments)["results"]
        self.assertEqual(len(rows), 2 * 3)
        for row, result in zip(rows, results, strict=True):
            self.assertEqual((row["algorithm"], int(row["bytes"]), row["ranks"]),
                             (result["algorithm"], result["bytes"], "4"))
            self.assertAlmostEqual(float(row["time_us"]), result["time_us"], places=3)
            for link in result["links"]:
                self.assertAlmostEqual(float(row[f"busy {link['from']} to {link['to']}"]), link["busy"],
                                       delta=1e-4)

    def test_the_table_names_the_busiest_link(self):
        table = self.simulate("-t", "pcie8", "--bytes", "64M", "-a", "trees,ring")
        self.assertRegex(table, r"67108864 +trees +simple .* (gpu|plx|cpu)\d to (gpu|plx|cpu)\d\n")
        self.assertRegex(table, r"from +to +kind +GB/s +trees +ring\n")

    def test_the_plot_has_a_curve_per_algorithm_in_each_panel(self):
        path = self.file("plot.svg")
        self.simulate("-t", "dgx1v", "-b", "1K", "-e", "64M", "-a", "trees,ring", "--svg", path)
        picture = ElementTree.parse(path).getroot()
        curves = picture.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(curves), 4)
        for curve in curves:
            points = [tuple(map(float, point.split(","))) for point in curve.get("points").split()]
            self.assertEqual(len(points), 9)
            for x, y in points:
                self.assertTrue(0 <= x <= float(picture.get("width"))
                                and 0 <= y <= float(picture.get("height")))

    def test_protocol_chunk_slots_and_reading_speed_are_obeyed(self):
        def one(*arguments):
            return self.simulate_json("-t", "dgx1v", "--bytes", "64M", *arguments)["results"][0]
        self.assertEqual((one("--chunk", "32K", "--slots", "9")["chunk_bytes"], one("--slots", "9")["slots"]),
                         (32768, 9))
        self.assertEqual(one("--protocol", "ll")["protocol"], "ll")
        self.assertGreater(one("--protocol", "ll")["time_us"], one("--protocol", "ll128")["time_us"])
        self.assertGreater(one("--reduce-gbps", "5")["time_us"], one()["time_us"])

    def test_what_was_chosen_takes_as_long_when_it_is_named(self):
        """Under a protocol with flags a program has other steps: here AUTO takes one hop under LL."""
        arguments = ["-t", "gh200x4", "--gpus", "--bytes", "1M"]
        [chosen] = self.simulate_json(*arguments)["results"]
        self.assertNotEqual(chosen["protocol"], "simple")
        [named] = self.simulate_json(*arguments, "-a", chosen["algorithm"], "--protocol",
                                     chosen["protocol"])["results"]
        self.assertEqual(named, chosen)


class BadInputTest(SimulateTest):
    def test_bad_usage_is_refused_by_name(self):
        for text, arguments in [("--min-bytes 1Q", ["-t", "dgx1v", "-b", "1Q"]),
                                ("--bytes 0", ["-t", "dgx1v", "--bytes", "0"]),
                                ("--factor 1", ["-t", "dgx1v", "-f", "1"]),
                                ("--protocol tcp", ["-t", "dgx1v", "--protocol", "tcp"]),
                                ("\"rings\"", ["-t", "dgx1v", "-a", "trees,rings"]),
                                ("--min-bytes", ["-t", "dgx1v", "-b", "2K", "-e", "1K"]),
                                ("--bytes", ["-t", "dgx1v", "--bytes", "2K", "-e", "1K"]),
                                ("--goal", ["-t", "dgx1v", "--goal", "x"]),
                                ("--goal",
                                 ["-t", "dgx1v", "--goal", "x", "--bytes", "1K", "-a", "trees,ring"]),
                                ("--reduce-gbps -1", ["-t", "dgx1v", "--reduce-gbps=-1"])]:
            with self.subTest(arguments=arguments):
                self.assertIn(text, self.refuse(2, *arguments))

    def test_what_cannot_be_done_says_why(self):
        self.assertIn("nowhere", self.refuse(1, "-t", "nowhere"))
        self.assertIn("/nonexistent/x.svg",
                      self.refuse(1, "-t", "dgx1v", "-e", "1K", "--svg", "/nonexistent/x.svg"))
        self.assertIn("/nonexistent/x.goal",
                      self.refuse(1, "-t", "dgx1v", "--bytes", "1K", "--goal", "/nonexistent/x.goal"))
        self.assertIn("/dev/full", self.refuse(1, "-t", "dgx1v", "--bytes", "16M", "--goal", "/dev/full"))
        self.assertRegex(self.refuse(1, "-t", "dgx1v", "--bytes", "64G", "--chunk", "1K"),
                         r"\d{9,} steps .* 50000000")

    def test_a_schedule_that_is_refused_leaves_what_was_there(self):
        old = self.file("old.goal")
        new = os.path.join(os.path.dirname(old), "new.goal")
        with open(old, "w", encoding="ascii") as file:
            file.write("old\n")
        words = "-t dgx_h100 --multicast -a multicast --bytes 1M --goal".split()
        for path in (old, new):
            self.assertIn("GOAL has no word for switches", self.refuse(1, *words, path))
        with open(old, encoding="ascii") as file:
            self.assertEqual(file.read(), "old\n")
        self.assertEqual(os.listdir(os.path.dirname(old)), ["old.goal"])

    def test_a_symbolic_link_stays_one(self):
        link, target = self.file("link"), self.file("target")
        os.symlink(target, link)
        self.simulate_json("-t", "dgx1v", "--bytes", "1K", "--goal", link)
        self.assertTrue(os.path.islink(link))
        with open(target, encoding="ascii") as file:
            self.assertEqual(file.readline(), "num_ranks 8\n")

    def test_one_rank_moves_nothing(self):
        [result] = self.simulate_json("-t", "dgx1v", "--ranks", "3", "--bytes", "1M")["results"]
        self.assertEqual(sum(link["bytes"] for link in result["links"]), 0)
        self.assertGreater(result["time_us"], 0)
        self.assertNotIn("Busy share", self.simulate("-t", "dgx1v", "--ranks", "3", "--bytes", "1M"))


class GoalTest(SimulateTest):
    def goal(self, *arguments):
        path = self.file("schedule.goal")
        simulation = self.simulate_json(*arguments, "--goal", path)
        with open(path) as file:
            return Goal(file.read()), simulation["results"][0]

    CASES = [["-t", topology, "-c", collective, "-a", algorithm, "--bytes", "1000000", "--chunk", "16K",
              "--slots", "2"]
             for topology in ["dgx1v", "pcie8", "dgx2"]
             for collective in ["allreduce", "broadcast"] for algorithm in ["trees", "ring"]]

    def test_every_send_has_its_receive_and_tags_are_used_once(self):
        for case in self.CASES:
            with self.subTest(case=case):
                goal, _ = self.goal(*case)
                self.assertGreater(len(goal.sends), 0)
                self.assertEqual(sorted(goal.sends.values()), sorted(goal.receives.values()))
                self.assertEqual(len(set(goal.ways())), len(goal.ways()))

    def test_dependencies_have_no_cycle(self):
        for case in self.CASES:
            with self.subTest(case=case):
                goal, _ = self.goal(*case)
                self.assertEqual(len(goal.order()), goal.size())

    def test_a_relay_sends_only_what_it_has_received(self):
        """In a broadcast every send of a rank but the root hangs, by way of its step, on a receive of as
        many bytes."""
        goal, _ = self.goal("-t", "dgx1v", "-c", "broadcast", "--bytes", "1000000")
        relayed = 0
        for (rank, label), message in goal.sends.items():
            if rank == 0:
                continue
            [step] = goal.needs[rank, label]
            received = [goal.receives[op].bytes for op in goal.needs[step] if op in goal.receives]
            self.assertEqual(received, [message.bytes])
            relayed += 1
        self.assertGreater(relayed, 0)

    def test_bytes_are_the_loads_of_the_plan(self):
        """On a topology of direct links every transfer crosses one link, so pairs of ranks are links."""
        for algorithm in ["trees", "ring"]:
            for collective in ["allreduce", "broadcast"]:
                arguments = ["-t", "dgx1v", "-c", collective, "-a", algorithm]
                goal, result = self.goal(*arguments, "--bytes", "16M")
                moved = collections.Counter()
                for message in goal.sends.values():
                    moved[f"gpu{message.source}", f"gpu{message.destination}"] += message.bytes
                links = {(link["from"], link["to"]): link["bytes"] for link in result["links"]
                         if link["bytes"]}
                self.assertEqual(dict(moved), links)
                status, out, err = self.run_command([BLINKCTL, "plan", *arguments, "--json"])
                self.assertEqual(status, 0, err)
                loads = collections.Counter()
                for tree in json.loads(out)["trees"]:
                    for edge in tree["edges"]:
                        loads[tuple(edge["path"])] += tree["share"]
                for pair, load in loads.items():
                    self.assertAlmostEqual(moved[pair] / (16 << 20), load, delta=1e-3, msg=pair)

    def test_replays_take_as_long_as_the_simulation(self):
        """Devices have several links, all alike: of dgx1p to devices, of dgx2 to switches."""
        for topology, GBps, hop_us in [("dgx1p", 20, 3.4 + 1), ("dgx2", 25, 3.4 + 2)]:
            for collective in ["allreduce", "broadcast", "allgather"]:
                for algorithm in ["trees", "ring"]:
                    with self.subTest(topology=topology, collective=collective, algorithm=algorithm):
                        goal, result = self.goal("-t", topology, "-c", collective, "-a", algorithm,
                                                 "--protocol", "simple", "--bytes", "4M")
                        launch_us = 8.4
                        replayed_us = launch_us + Replay(goal, 1 / GBps, 1000 * hop_us).run_us()
                        self.assertAlmostEqual(replayed_us / result["time_us"], 1.0, delta=0.1)

    def test_only_reductions_take_time(self):
        broadcast, _ = self.goal("-t", "dgx1v", "-c", "broadcast", "--bytes", "16M")
        self.assertEqual(set(broadcast.calcs.values()), {0})
        allreduce, _ = self.goal("-t", "dgx1v", "-c", "allreduce", "--bytes", "16M", "--reduce-gbps", "100")
        # n - 1 additions reach every element; a step of m sources reads m times what it adds.
        self.assertGreaterEqual(sum(allreduce.calcs.values()), 8 * (16 << 20) / 100)


if __name__ == "__main__":
    unittest.main()

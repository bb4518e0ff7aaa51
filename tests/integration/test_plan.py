"""blinkctl plan: every form it prints, and what it refuses, by name."""
import collections
import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from harness import BLINKCTL, IntegrationTest

COLLECTIVES = ["allreduce", "broadcast", "reduce", "allgather", "reducescatter", "gather", "scatter",
               "alltoall", "sendrecv"]
ALGORITHMS = ["auto", "trees", "ring", "double-binary-tree", "blink", "one-hop", "binomial",
              "recursive-doubling", "shallow-trees"]


def gpu(name, host=""):
    return {"id": name, "kind": "gpu", "host": host}


def link(one, other, GBps, kind="nvlink"):
    return {"from": one, "to": other, "GBps": GBps, "kind": kind}


def hosts(count):
    """Hosts of eight gpus behind one switch, four NICs each, one network."""
    nodes, links = [{"id": "net", "kind": "switch", "host": ""}], []
    for h in range(count):
        host = f"h{h}"
        nodes.append({"id": f"{host}sw", "kind": "switch", "host": host})
        nodes += [gpu(f"{host}g{i}", host) for i in range(8)]
        nodes += [{"id": f"{host}n{i}", "kind": "nic", "host": host} for i in range(4)]
        for i in range(8):
            links += [link(f"{host}g{i}", f"{host}sw", 300, "nvswitch"),
                      link(f"{host}g{i}", f"{host}n{i // 2}", 25, "pcie")]
        links += [link(f"{host}n{i}", "net", 12.5, "net") for i in range(4)]
    return nodes, links


def star(count):
    """Gpus around one switch."""
    return ([{"id": "sw", "kind": "switch"}] + [gpu(f"g{i}") for i in range(count)],
            [link(f"g{i}", "sw", 25, "nvswitch") for i in range(count)])


class PlanTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def topology(self, name, graph):
        with open(self.path(name), "w") as file:
            json.dump({"schema": "blink-topology/1", "name": name, "nodes": graph[0], "links": graph[1]},
                      file)
        return self.path(name)

    def plan(self, *arguments):
        status, out, err = self.run_command([BLINKCTL, "plan", *arguments])
        self.assertEqual((status, err), (0, ""))
        return out

    def refuse(self, status, *arguments):
        """Standard error of a command that fails with this status and prints nothing else."""
        found, out, err = self.run_command([BLINKCTL, "plan", *arguments])
        self.assertEqual((found, out), (status, ""), err)
        return err


class FormsTest(PlanTest):
    def test_the_table_says_what_was_asked_and_what_it_comes_to(self):
        table = self.plan("-t", "dgx1v", "-c", "broadcast", "--root", "2", "-a", "trees", "--bytes", "64M")
        self.assertTrue(
            table.startswith("broadcast from gpu2 on dgx1v, 8 ranks: packed-trees, simple protocol\n"))
        self.assertIn("rate 150.000 GB/s, bound 150.000 GB/s (100.0%)", table)
        self.assertRegex(table, r"\n67108864 bytes: [\d.]+ us predicted")

    def test_the_table_says_for_which_size_it_is(self):
        said = "for payloads so large that only the rate counts: --bytes SIZE"
        self.assertIn(said, self.plan("-t", "dgx1v"))
        self.assertNotIn(said, self.plan("-t", "dgx1v", "--bytes", "1M"))

    def test_the_picture_is_svg_and_nothing_is_printed(self):
        self.assertEqual(self.plan("-t", "dgx1v", "-c", "broadcast", "--svg", self.path("plan.svg")), "")
        picture = ElementTree.parse(self.path("plan.svg")).getroot()
        self.assertEqual(picture.tag, "{http://www.w3.org/2000/svg}svg")
        text = " ".join(picture.itertext())
        self.assertIn("broadcast from gpu0 on dgx1v, 8 ranks", text)
        self.assertIn("busiest: ", text)
        self.assertEqual(os.listdir(self.directory), ["plan.svg"])

    def test_a_picture_takes_the_place_of_an_older_one(self):
        with open(self.path("plan.svg"), "w") as file:
            file.write("old")
        self.plan("-t", "dgx1v", "--svg", self.path("plan.svg"))
        ElementTree.parse(self.path("plan.svg"))
        self.assertEqual(os.listdir(self.directory), ["plan.svg"])

    def test_dot_has_an_edge_per_tree_and_hop(self):
        arguments = ["-t", "dgx1v", "-c", "broadcast"]
        edges = re.findall(r'^ "(\w+)" -> "(\w+)" \[', self.plan(*arguments, "--dot"), re.MULTILINE)
        planned = [tuple(edge["path"]) for tree in json.loads(self.plan(*arguments, "--json"))["trees"]
                   for edge in tree["edges"]]
        self.assertEqual(collections.Counter(edges), collections.Counter(planned))

    def test_lanes_of_several_hosts_have_wires_between_them(self):
        lanes = self.plan("-t", "2xdgx1v", "-c", "broadcast", "--lanes")
        wires = re.findall(r"^lane \d+: channel \d+, \w+, rank \d+ \(gpu(\d+)\), wire to rank \d+ "
                           r"\(gpu(\d+)\) from n(\d) to n(\d)$", lanes, re.MULTILINE)
        count = int(re.match(r"lanes \d+, of these wires (\d+)", lanes).group(1))
        self.assertEqual(len(wires), count)
        self.assertGreater(count, 0)
        for gpu, peer, host, other in wires:
            self.assertEqual((int(gpu) // 8, int(peer) // 8), (int(host), int(other)))
        self.assertIn("of these wires 0;", self.plan("-t", "dgx1v", "-c", "broadcast", "--lanes"))

    def test_one_rank_moves_nothing(self):
        for collective in ["allreduce", "broadcast", "allgather"]:
            self.assertIn("nothing moves", self.plan("-t", "dgx1v", "-c", collective, "--ranks", "3"))
            plan = json.loads(self.plan("-t", "dgx1v", "-c", collective, "--ranks", "3", "--json"))
            self.assertEqual((plan["ranks"], plan["trees"], plan["rate_GBps"]), (["gpu3"], [], 0))


class LargeTest(PlanTest):
    def check_json(self, plan, graph):
        """Trees span, shares add up to one, the loads allow the rate; no more can be said without the
        planner."""
        capacity, load, shares = collections.Counter(), collections.Counter(), collections.Counter()
        for way in graph[1]:
            capacity[way["from"], way["to"]] += way["GBps"]
            capacity[way["to"], way["from"]] += way["GBps"]
        for tree in plan["trees"]:
            shares[tree["phase"]] += tree["share"]
            ends = [edge["path"][-1 if tree["phase"] == "broadcast" else 0] for edge in tree["edges"]]
            self.assertEqual(sorted([*ends, tree["root"]]), sorted(plan["ranks"]))
            for edge in tree["edges"]:
                for pair in zip(edge["path"], edge["path"][1:]):
                    load[pair] += tree["share"]
        for share in shares.values():
            self.assertAlmostEqual(share, 1, places=9)
        allowed = 1 / max(load[pair] / capacity[pair] for pair in load)
        self.assertAlmostEqual(plan["rate_GBps"], allowed, delta=1e-6 * allowed)
        self.assertLessEqual(plan["rate_GBps"], plan["bound_GBps"] * (1 + 1e-6))

    def test_templates_are_written_out_as_json(self):
        graph = hosts(16)
        topology = self.topology("hosts.json", graph)
        plan = json.loads(self.plan("-t", topology, "--json"))
        self.assertEqual(len(plan["ranks"]), 128)
        self.check_json(plan, graph)
        self.assertRegex(self.plan("-t", topology), r"each stands for its \d+ images")

    def test_a_large_topology_is_drawn_by_one_host(self):
        self.plan("-t", self.topology("hosts.json", hosts(16)), "-c", "broadcast", "--svg",
                  self.path("plan.svg"))
        text = " ".join(ElementTree.parse(self.path("plan.svg")).getroot().itertext())
        self.assertIn("8 of 128 gpus", text)
        self.assertNotIn("h1g0 ", text)

    def test_too_many_gpus_for_a_picture_leave_no_file(self):
        topology = self.topology("star.json", star(65))
        self.assertIn("at most 64",
                      self.refuse(1, "-t", topology, "-c", "broadcast", "--svg", self.path("plan.svg")))
        self.assertEqual(os.listdir(self.directory), ["star.json"])

    def test_1024_gpus_are_planned_and_1025_are_refused(self):
        table = self.plan("-t", self.topology("star.json", star(1024)), "-c", "broadcast")
        self.assertIn("1024 ranks", table)
        self.assertIn("rate 25.000 GB/s", table)
        err = self.refuse(1, "-t", self.topology("star.json", star(1025)), "-c", "broadcast")
        self.assertIn("1025 ranks; a communicator has 1 to 1024", err)

    def test_capacities_may_span_six_orders_of_magnitude(self):
        graph = ([gpu(f"g{i}") for i in range(4)],
                 [link("g0", "g1", 1000), link("g1", "g2", 1), link("g2", "g3", 0.001),
                  link("g0", "g3", 1000)])
        topology = self.topology("steps.json", graph)
        for collective, GBps in [("broadcast", 1.001), ("allreduce", 1.001)]:
            plan = json.loads(self.plan("-t", topology, "-c", collective, "--json"))
            self.check_json(plan, graph)
            self.assertGreaterEqual(plan["rate_GBps"], 0.99 * plan["bound_GBps"])
        self.plan("-t", topology, "--svg", self.path("plan.svg"))
        ElementTree.parse(self.path("plan.svg"))


class BadInputTest(PlanTest):
    def test_bad_usage_is_refused_by_name(self):
        svg = self.path("plan.svg")
        for texts, arguments in [(["--collective gossip", *COLLECTIVES], ["-c", "gossip"]),
                                 (["\"rings\"", *ALGORITHMS], ["-a", "rings"]),
                                 (["one --algorithm"], ["-a", "trees,ring"]),
                                 (["--root 1: allreduce has no root"], ["--root", "1"]),
                                 (["--peer 1: broadcast has no peer"], ["-c", "broadcast", "--peer", "1"]),
                                 (["--bytes 0"], ["--bytes", "0"]),
                                 (["--bytes 12Q"], ["--bytes", "12Q"]),
                                 (["--bytes -1"], ["--bytes=-1"]),
                                 (["--json", "--svg"], ["--json", "--svg", svg]),
                                 (["--json", "--dot"], ["--dot", "--json"]),
                                 (["--svg", "--dot"], ["--svg", svg, "--dot"]),
                                 (["--dot", "--lanes"], ["--lanes", "--dot"])]:
            with self.subTest(arguments=arguments):
                err = " ".join(self.refuse(2, "-t", "dgx1v", *arguments).split())
                for text in texts:
                    self.assertIn(text, err)
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_is_not_there_is_named(self):
        self.assertIn("--root x: neither the number of a rank nor the node of one",
                      self.refuse(1, "-t", "dgx1v", "-c", "broadcast", "--root", "x"))
        for texts, arguments in [(["dgx1v", "gpu8"], ["--ranks", "gpu0,gpu8"]),
                                 (["dgx1v", "0 to 7", "9"], ["--ranks", "0,9"]),
                                 (["ranks 0 and 2", "gpu1"], ["--ranks", "1,0,gpu1"]),
                                 (["root 8", "8 ranks"], ["-c", "broadcast", "--root", "8"]),
                                 (["root 3", "3 ranks"], ["-c", "reduce", "--ranks", "0,1,2", "--root", "3"]),
                                 (["peer 2", "2 ranks"],
                                  ["-c", "sendrecv", "--ranks", "0,1", "--peer", "2"])]:
            with self.subTest(arguments=arguments):
                err = self.refuse(1, "-t", "dgx1v", *arguments)
                for text in texts:
                    self.assertIn(text, err)
        for name in ("nowhere", "dgx1"):
            err = self.refuse(1, "-t", name)
            for text in (f"{name}: No such file, nor a built-in", "dgx1v_hybrid", "pcie8"):
                self.assertIn(text, err)

    def test_a_rank_on_a_switch_is_refused(self):
        err = self.refuse(1, "-t", "dgx2", "--ranks", "gpu0,nvsw0")
        self.assertIn("nvsw0, which is a switch", err)

    def test_separated_ranks_are_named(self):
        graph = [gpu(f"g{i}") for i in range(4)], [link("g0", "g1", 25), link("g2", "g3", 25)]
        topology = self.topology("two.json", graph)
        for collective in ["allreduce", "broadcast", "allgather"]:
            with self.subTest(collective=collective):
                self.assertRegex(self.refuse(1, "-t", topology, "-c", collective),
                                 r"\(g[01]\).*\(g[23]\)|\(g[23]\).*\(g[01]\)")

    def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(self):
        missing = os.path.join(self.directory, "none", "plan.svg")
        self.assertIn(missing, self.refuse(1, "-t", "dgx1v", "--svg", missing))
        self.assertIn(self.directory, self.refuse(1, "-t", "dgx1v", "--svg", self.directory))
        self.assertIn("/dev/full", self.refuse(1, "-t", "dgx1v", "--svg", "/dev/full"))
        self.assertEqual(os.listdir(self.directory), [])
        self.assertTrue(os.path.exists("/dev/full"))


if __name__ == "__main__":
    unittest.main()

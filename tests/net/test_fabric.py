"""Networks of several switches, as a fabric file names them: plans, what is booked, and wrong files."""
import collections
import os
import unittest

from cluster import OP, RanksTest, require_namespaces

ELEMENTS = 1 << 20
PAYLOAD_BYTES = 4 * ELEMENTS

# Hosts that follow one another are not on one leaf.
LEAVES = """
[nics]
n1/eth* = leaf1
n3/* = leaf1
n[2-9]/eth0 = leaf2

[links]
leaf[1-2] spine = 10
"""


def setUpModule():
    require_namespaces()


class FabricTest(RanksTest):
    def fabric(self, host, text):
        path = os.path.join(host.directory, "fabric")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def started_with(self, host_count, *texts):
        """Hosts with a fabric file each, or all with the same one."""
        hosts = self.cluster(host_count)
        for number, host in enumerate(hosts):
            host.start(fabric=self.fabric(host, texts[number % len(texts)]))
        return hosts

    def start_on(self, hosts, *steps, **options):
        """A rank on each host."""
        return self.start_waiting([(host, 0) for host in hosts], *steps, **options)


class Leaves(FabricTest):
    """Four hosts of two leaves: what a plan moves, what crosses the spine, and what each daemon books."""
    LEAF_OF = {"n1": "leaf1", "n2": "leaf2", "n3": "leaf1", "n4": "leaf2"}

    def joined(self, host):
        comm, = self.ctl_json(host.daemon, "comms")["comms"]
        return self.ctl(host.daemon, "topology", "--comm", comm["comm"], "--json")

    def crossing(self, edges):
        """Edges from a leaf to another one, each of which goes over the spine once, and others do not."""
        crossing = [edge for edge in edges if "net/spine" in edge]
        for edge in edges:
            leaves = [self.LEAF_OF[edge[end].split("/")[0]] for end in (0, -1)]
            self.assertEqual(edge in crossing, leaves[0] != leaves[1], edge)
            self.assertLessEqual(edge.count("net/spine"), 1)
        return crossing

    def planned_bytes(self, plan):
        """By host: bytes on each link that it books, by the names of both ends. What joins switches is booked
        by who sends."""
        planned = collections.defaultdict(collections.Counter)
        for tree in plan["trees"]:
            for edge in tree["edges"]:
                for ends in zip(edge["path"], edge["path"][1:]):
                    hosts = [node.split("/")[0] for node in ends]
                    host = next((host for host in hosts if host != "net"), edge["path"][0].split("/")[0])
                    names = tuple(node.removeprefix(f"{host}/") for node in ends)
                    planned[host][names] += tree["share"] * PAYLOAD_BYTES
        return planned

    def check_booked(self, hosts, plan):
        planned = self.planned_bytes(plan)
        for host in hosts:
            links = self.ctl_json(host.daemon, "links")["links"]
            moved = {(link["from"], link["to"]): link["bytes"] for link in links if link["bytes"]}
            self.assertEqual(set(moved), set(planned[host.name]), host.name)
            for ends, count in planned[host.name].items():
                self.assertAlmostEqual(moved[ends], count, delta=0.001 * PAYLOAD_BYTES,
                                       msg=f"{host.name}: {ends}")

    def check_plan(self, algorithm):
        """The plan that has run, whose links all hosts have booked."""
        hosts = self.started_with(4, LEAVES)
        ranks = self.start_on(hosts, f"allreduce:{ELEMENTS}:float32:sum", algorithm=algorithm)
        texts = [self.joined(host) for host in hosts]
        self.assertEqual(texts, [texts[0]] * 4)
        plan = self.ctl_json(hosts[0].daemon, "plan", "--topology", self.write_file("joined.json", texts[0]),
                             "--wires", "--ranks", "0,2,4,6", "--algorithm", algorithm, "--bytes",
                             PAYLOAD_BYTES)
        comm, = self.ctl_json(hosts[0].daemon, "comms")["comms"]
        explained = self.ctl_json(hosts[0].daemon, "explain", "--comm", comm["comm"])
        self.assertEqual([ran["plan"] for ran in explained["plans"]], [plan["plan"]])
        self.assertEqual([nic["nic"] for nic in explained["traffic"]["between_hosts"]], ["eth0"])
        self.check_booked(hosts, plan)
        self.finish(ranks)
        return plan

    def test_a_ring_crosses_once_each_way(self):
        plan = self.check_plan("ring")
        edges = {tuple(edge["path"]) for tree in plan["trees"] for edge in tree["edges"]}
        self.assertEqual(len(edges), 4)
        leaving = [self.LEAF_OF[edge[0].split("/")[0]] for edge in self.crossing(edges)]
        self.assertEqual(sorted(leaving), ["leaf1", "leaf2"])

    def test_a_tree_crosses_once(self):
        for tree in self.check_plan("trees")["trees"]:
            self.assertEqual(len(self.crossing([edge["path"] for edge in tree["edges"]])), 1)

    def test_emulated_hosts(self):
        """Their one switch is replaced, and links between switches are emulated, too."""
        hosts = self.cluster(3)
        for host in hosts:
            text = LEAVES.replace("/eth*", "/*").replace("/eth0", "/nic[0-3]")
            host.start("--pace=0.05", topology="1xdgx1v_hybrid@5", devices=8, fabric=self.fabric(host, text))
        ranks = self.start_on(hosts, "allreduce:100000:float32:sum", "broadcast:100000:float32:1")
        self.assertTrue(any(link["bytes"] for link in self.ctl_json(hosts[0].daemon, "links")["links"]
                            if (link["from"], link["to"]) == ("net/leaf1", "net/spine")))
        self.finish(ranks)

    def test_lines_may_stand_in_any_order(self):
        sections = LEAVES.strip().split("\n\n")
        hosts = self.started_with(2, LEAVES, "\n".join(reversed(sections)))
        self.finish(self.start_on(hosts, OP))


class Contradictions(FabricTest):
    def check(self, other, *texts):
        hosts = self.started_with(2, LEAVES, other)
        identifier = hosts[0].new_id()
        ranks = [host.start_rank(identifier, 2, rank, OP, "destroy", device=0)
                 for rank, host in enumerate(hosts)]
        for rank in ranks:
            self.assert_step(rank.finish(), "init", "INVALID_ARGUMENT", "hosts 'n1' and 'n2' do not say the "
                             "same of the network", "all hosts need the same fabric file", *texts)

    def test_another_switch(self):
        self.check(LEAVES.replace("spine", "core"), "one has a switch net/leaf1, the other net/core")

    def test_another_capacity(self):
        self.check(LEAVES.replace("= 10", "= 20"), "of the link from net/leaf1 to net/spine")

    def test_a_host_that_knows_one_switch(self):
        hosts = self.cluster(2)
        hosts[0].start(fabric=self.fabric(hosts[0], LEAVES))
        hosts[1].start()
        ranks = [host.start_rank(identifier, 2, rank, OP, "destroy", device=0)
                 for identifier in [hosts[0].new_id()] for rank, host in enumerate(hosts)]
        for rank in ranks:
            self.assert_step(rank.finish(), "init", "INVALID_ARGUMENT", "n1", "n2", "net/leaf1")

    def test_where_others_hang_need_not_be_said_alike(self):
        """A host says it for its own NICs."""
        one, two = self.cluster(2)
        one.start(fabric=self.fabric(one, LEAVES.replace("n[2-9]", "n[3-9]").replace("n3/*", "n2/*")))
        two.start(fabric=self.fabric(two, LEAVES))
        ranks = self.start_on([one, two], OP)
        links = self.ctl_json(two.daemon, "links")["links"]
        self.assertIn(("eth0", "net/leaf2"), {(link["from"], link["to"]) for link in links})
        self.finish(ranks)


class BadFiles(FabricTest):
    def test_a_daemon_does_not_start_with_them(self):
        host, = self.cluster(1)
        path = self.fabric(host, LEAVES.replace("= 10", "= fast"))
        self.assertIn(f"{path}:8: leaf[1-2] spine = fast: 'fast' is not what a link can carry",
                      self.refused(host, fabric=path))
        self.fabric(host, LEAVES.replace("n1/", "m1/"))
        self.assertIn(f"fabric file {path}: no line of [nics] says on which switch n1/eth0 hangs",
                      self.refused(host, fabric=path))
        self.assertIn("fabric file /nonexistent/fabric: No such file", self.refused(
            host, fabric="/nonexistent/fabric"))


if __name__ == "__main__":
    unittest.main()

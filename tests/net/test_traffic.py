"""What blinkctl shows of communicators that span hosts: each daemon the traffic of its own links."""
import json
import os
import re
import unittest
from collections import Counter

from cluster import RanksTest, require_namespaces
from harness import BLINKCTL

ELEMENTS = 1 << 20
PAYLOAD_BYTES = 4 * ELEMENTS
HOST_DEVICES = 8
HOST_NICS = 4


def setUpModule():
    require_namespaces()


class Traffic(RanksTest):
    def plan(self, collective, ranks):
        """The plan of the same hosts as one topology, in which all things are numbered through."""
        command = [BLINKCTL, "plan", "--topology", "2xdgx1v_hybrid@5", "--ranks", ",".join(map(str, ranks)),
                   "--collective", collective, "--algorithm", "trees", "--json"]
        status, out, err = self.run_command(command)
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def own_id(self, node):
        """By what the daemon of the node's host calls it: the number of the host, and that name."""
        kind, number, rest = re.fullmatch(r"([a-z]+)(\d+)(\w*)", node).groups()
        for numbered, count in (("gpu", HOST_DEVICES), ("nic", HOST_NICS)):
            if kind == numbered:
                return int(number) // count, f"{kind}{int(number) % count}"
        return int(number), f"{kind}0{rest}"

    def planned_bytes(self, plan):
        """By host: bytes on each of its links, by the names of both ends."""
        planned = [Counter(), Counter()]
        for tree in plan["trees"]:
            for edge in tree["edges"]:
                for ends in zip(edge["path"], edge["path"][1:]):
                    places = [None if node == "net" else self.own_id(node) for node in ends]
                    host = next(place[0] for place in places if place)
                    names = tuple(place[1] if place else "net" for place in places)
                    planned[host][names] += tree["share"] * PAYLOAD_BYTES
        return planned

    def moved_bytes(self, host, comm):
        links = self.ctl_json(host.daemon, "links")["links"]
        moved = {(link["from"], link["to"]): link["bytes"] for link in links if link["bytes"]}
        by_comm = {(link["from"], link["to"]): use["bytes"] for link in links for use in link["uses"]
                   if use["comm"] == comm}
        return moved, by_comm

    def check_explained(self, host, comm, moved):
        """What blinkctl explain --comm says of the host's NICs."""
        explained = self.ctl_json(host.daemon, "explain", "--comm", comm)["traffic"]
        for nic in explained["between_hosts"]:
            self.assertEqual(nic["sent_bytes"], moved.get((nic["nic"], "net"), 0))
            self.assertEqual(nic["received_bytes"], moved.get(("net", nic["nic"]), 0))
        self.assertEqual({nic["nic"] for nic in explained["between_hosts"]},
                         {next(end for end in ends if end != "net") for ends in moved if "net" in ends})
        self.assertEqual(sum(kind["bytes"] for kind in explained["within_host"]),
                         sum(count for ends, count in moved.items() if "net" not in ends))
        out = self.ctl(host.daemon, "explain", "--comm", comm)
        self.assertRegex(out, r"\nbetween hosts: over nic0 \(.* sent, .* received\), ")
        self.assertRegex(out, r"\nwithin this host: nvlink [\d.]+ MiB, pcie [\d.]+ MiB")

    def check(self, collective, step):
        hosts = self.cluster(2)
        for host in hosts:
            host.start(topology="1xdgx1v_hybrid@5", devices=HOST_DEVICES)
        identifier = hosts[0].new_id()
        ranks = [hosts[rank // 2].start_rank(identifier, 4, rank, step, "gate", device=rank % 2,
                                             algorithm="trees") for rank in range(4)]
        self.wait_at_gates(ranks)
        plan = self.plan(collective, [0, 1, HOST_DEVICES, HOST_DEVICES + 1])
        for host, planned in zip(hosts, self.planned_bytes(plan)):
            comm, = self.ctl_json(host.daemon, "comms")["comms"]
            moved, by_comm = self.moved_bytes(host, comm["comm"])
            self.assertEqual(moved, by_comm)
            self.assertEqual(set(moved), set(planned))
            for ends, count in planned.items():
                self.assertAlmostEqual(moved[ends], count, delta=0.001 * PAYLOAD_BYTES, msg=f"{ends}")
            for leaves in (True, False):
                self.assertEqual(*(round(sum(count for ends, count in counts.items()
                                             if ends[1 if leaves else 0] == "net"))
                                   for counts in (moved, planned)))
            self.check_explained(host, comm["comm"], moved)
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_links_carry_what_the_plan_says(self):
        self.check("allreduce", f"allreduce:{ELEMENTS}:float32:sum")

    def test_phases_of_a_live_communicator(self):
        """blinkctl explains the topology that the communicator's hosts have joined."""
        hosts = self.cluster(2)
        for host in hosts:
            host.start(topology="1xdgx1v_hybrid@5", devices=HOST_DEVICES)
        identifier = hosts[0].new_id()
        ranks = [hosts[rank].start_rank(identifier, 2, rank, "gate", device=0) for rank in range(2)]
        self.wait_at_gates(ranks)
        comm, = self.ctl_json(hosts[1].daemon, "comms")["comms"]
        path = os.path.join(self.directory(), "hosts.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.ctl(hosts[1].daemon, "topology", "--comm", comm["comm"], "--json"))
        out = self.ctl(hosts[1].daemon, "explain", "--topology", path)
        self.assertRegex(out, r"\nphases: reduce within hosts \(nvlink.*\), between hosts over .*n1/nic0.*"
                              r"n2/nic3 .*, broadcast within hosts \(nvlink")
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_links_of_a_broadcast(self):
        """From rank 0: the other host's links to the network carry nothing."""
        self.check("broadcast", f"broadcast:{ELEMENTS}:float32:0")


if __name__ == "__main__":
    unittest.main()

"""Communicators of several hosts whose links are emulated: each daemon books its own links."""
import unittest

import test_ranks
from cluster import OP, require_namespaces


def setUpModule():
    require_namespaces()


class EmulationTest(test_ranks.PerfTest):
    TOPOLOGY = "1xdgx1v_hybrid@5"

    def emulated(self, *ranks_of_host, paces=None):
        """Hosts of that topology with so many ranks each: by rank its host and device."""
        hosts = self.cluster(len(ranks_of_host))
        for number, host in enumerate(hosts):
            pace = paces[number] if paces else 0.05
            flags = [f"--pace={pace}"] if pace else []
            host.start(*flags, topology=self.TOPOLOGY, devices=8)
        return [(host, device) for host, count in zip(hosts, ranks_of_host) for device in range(count)]


class Matrix(EmulationTest):
    SIZES = ("--min", "8", "--max", "256K", "--stepfactor", 181)

    def test_every_collective(self):
        self.perf_all(self.emulated(3, 2), *self.SIZES)

    def test_two_whole_hosts(self):
        self.perf(self.emulated(8, 8), "allreduce", "--min", "64K", "--max", "1M", "--stepfactor", 16)

    def test_plain_memory(self):
        hosts = self.cluster(2)
        for host in hosts:
            host.start("--pace=0.05")
        places = [(host, device) for host in hosts for device in range(2)]
        self.perf_all(places, *self.SIZES, collectives=["allreduce", "broadcast", "alltoallv"])

    def test_barriers_and_groups(self):
        places = self.emulated(2, 1)
        self.perf(places, "barrier")
        self.perf(places, "allreduce", "--groups", 20, "--min", "8", "--max", "64K")


class Ends(EmulationTest):
    def test_scenarios(self):
        places = self.emulated(2, 2)
        for scenario in ("exchange", "order", "split", "many-comms", "different-collectives", "finalize"):
            with self.subTest(scenario=scenario):
                self.play(places, scenario)

    def test_killed_rank_is_named_while_links_are_busy(self):
        """The op would take the links for minutes."""
        places = self.emulated(2, 1, paces=[1e-5, 1e-5])
        ranks = self.start_at(places, "gate", "allreduce:16777216:float32:sum", "untouched", "destroy")
        self.open_gates(ranks)
        self.until(lambda: any(link["bytes"] for link in self.links(places[0][0])))
        ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            self.assert_lost(rank, "rank 1")
        self.check_serve(places)

    def links(self, host):
        return self.ctl_json(host.daemon, "links")["links"]


class Mixture(EmulationTest):
    def check_refused(self, paces, *texts):
        places = self.emulated(1, 1, paces=paces)
        identifier = places[0][0].new_id()
        first = places[0][0].start_rank(identifier, 2, 0, OP, device=0)
        self.until(lambda: self.ctl_json(places[0][0].daemon, "comms")["comms"])
        second = places[1][0].start_rank(identifier, 2, 1, OP, device=0)
        self.assert_step(second.finish(), "init", "MISMATCH", *texts)
        first.kill()

    def test_hosts_of_different_paces(self):
        self.check_refused([0.05, 0.004], "rank 0 on n1 has links emulated at 0.05 of their speed",
                           "rank 1 on n2 has links emulated at 0.004 of their speed",
                           "all daemons need the same pace")

    def test_a_host_that_emulates_nothing(self):
        self.check_refused([0.05, None], "rank 0 on n1 has links emulated at 0.05 of their speed",
                           "rank 1 on n2 has links that are not emulated")


if __name__ == "__main__":
    unittest.main()

"""Hosts with several NICs: data connections for moves go over all of them, and over what is left."""
import unittest

from cluster import BLACK_HOLE, OP, RanksTest, require_namespaces

PAYLOAD_BYTES = 64 << 20
LARGE = f"allreduce:{PAYLOAD_BYTES // 4}:float32:sum"


def setUpModule():
    require_namespaces()


class NicsTest(RanksTest):
    nic_count = 2

    @property
    def nics(self):
        return [f"eth{number}" for number in range(self.nic_count)]

    def hosts_with_nics(self):
        hosts = self.cluster(2)
        for host in hosts:
            for number in range(1, self.nic_count):
                host.add_nic(number)
        return hosts

    def move(self, hosts):
        """Run a large op; by host, what its NICs have sent for it, as parts of all."""
        before = [[host.sent_bytes(nic) for nic in self.nics] for host in hosts]
        for steps in self.run_at([(host, 0) for host in hosts], LARGE, "destroy"):
            self.assert_all_ok(steps)
        parts = []
        for host, sent in zip(hosts, before):
            sent = [host.sent_bytes(nic) - bytes_before for nic, bytes_before in zip(self.nics, sent)]
            self.assertGreater(sum(sent), PAYLOAD_BYTES / 2)
            parts.append([part / sum(sent) for part in sent])
        return parts

    def wait_all_move(self, hosts, nics=None):
        """So many of their NICs, the first ones. Of the first op all may go over the connection that is there
        first."""
        self.until(lambda: all(min(parts[:nics]) > 0.05 for parts in self.move(hosts)))

    def nics_with_moves(self, host):
        """By host, as one of them says."""
        return {node["name"]: {nic["name"] for nic in node["nics"] if nic["has_moves"]}
                for node in host.nodes()}

    def nics_of_plan(self, host):
        links = self.ctl_json(host.daemon, "links")["links"]
        return {link["from"] for link in links if link["to"] == "net"}


class NamedDifferently(NicsTest):
    nic_count = 4

    def test_moves_go_over_all_that_both_hosts_have_named(self):
        hosts = self.hosts_with_nics()
        for host, count in zip(hosts, (4, 3)):
            host.start(listen="*", nics=", ".join(self.nics[:count]))
        self.wait_all_move(hosts, nics=3)
        self.assertLess(hosts[0].sent_bytes("eth3"), 1 << 20)
        self.assertEqual(self.nics_of_plan(hosts[0]), set(self.nics))
        named = set(self.nics[:3])
        for host in hosts:
            self.assertEqual(self.nics_with_moves(host), {"n1": named, "n2": named})


class Named(NicsTest):
    def test_addresses_name_them_too(self):
        hosts = self.hosts_with_nics()
        for host in hosts:
            host.start(listen=f"{host.v4}, {host.v4.replace('10.77', '10.78')}")
        self.wait_all_move(hosts)

    def test_what_nobody_names_is_not_used(self):
        """With all addresses, or at one of the two hosts."""
        for nics in ({}, {"nics": "eth0, eth1"}):
            with self.subTest(nics=nics):
                one, two = self.hosts_with_nics()
                one.start(listen="*", **nics)
                two.start(listen="*")
                for parts in self.move([one, two]):
                    self.assertLess(parts[1], 0.01, parts)
                self.assertEqual(self.nics_with_moves(one), {"n1": {"eth0"}, "n2": {"eth0"}})


class Left(NicsTest):
    """One NIC is no use: what would go over it goes over the other one."""

    def check(self, hosts):
        for parts in self.move(hosts):
            self.assertLess(parts[1], 0.01, parts)
        self.until(lambda: any("a data connection goes over the session's NIC, and not over another one" in
                               host.daemon.stderr() for host in hosts))
        for steps in self.run_at([(host, 0) for host in hosts], LARGE, "destroy"):
            self.assert_all_ok(steps)

    def test_a_cable_that_is_out_at_the_other_host(self):
        hosts = self.hosts_with_nics()
        for host in hosts:
            host.start(listen="*", nics="eth0, eth1")
        for host in hosts:
            host.plug(False, host.wire_of(1))
        self.check(hosts)

    def test_an_address_that_nobody_listens_at(self):
        hosts = self.hosts_with_nics()
        for host in hosts:
            host.start(nics="eth0, eth1")
        self.check(hosts)


class MeanwhileTest(NicsTest):
    """What fails while ops are under way is no affair of the ranks': the ops go on over what is left."""

    OPS = 6

    def working(self, ops=OPS, **network):
        """Hosts, and their ranks that work, over all NICs by now."""
        hosts = self.hosts_with_nics()
        for host in hosts:
            host.start(listen="*", nics=", ".join(self.nics), **network)
        ranks = self.start_at([(host, 0) for host in hosts], OP, "gate", f"times:{ops}:{LARGE}",
                              "destroy")
        self.open_gates(ranks)
        self.wait_moving(hosts[0])
        return hosts, ranks

    def wait_moving(self, host):
        before = {nic: host.sent_bytes(nic) for nic in self.nics}
        self.until(lambda: all(host.sent_bytes(nic) > before[nic] + (1 << 20) for nic in self.nics))

    def assert_unnoticed(self, ranks):
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def failures(self, host):
        return host.daemon.stderr().count("data connections have failed, and are made again: ")

    def kill_connections(self, host):
        """As a firewall does that resets what it has forgotten; both ends hear of it."""
        host.inside("ss", "-K", "dst", "10.78.0.0/24")


class OneOfFour(MeanwhileTest):
    nic_count = 4

    def test_a_cable_that_goes_out(self):
        hosts, ranks = self.working(timeout_s=5)
        hosts[1].plug(False, hosts[1].wire_of(2))
        self.assert_unnoticed(ranks)
        for host in hosts:
            self.assertEqual(self.failures(host), 1)
        for parts in self.move(hosts):
            self.assertLess(parts.pop(2), 0.01, parts)
            self.assertGreater(min(parts), 0.05, parts)


class Meanwhile(MeanwhileTest):
    def test_a_nic_that_answers_no_more(self):
        """Nobody says so: where the other end is on the network stays known, and packets go there."""
        hosts, ranks = self.working(ops=3 * self.OPS, timeout_s=5)
        for host in hosts:
            host.inside("sh", "-c", "ip neighbour show dev eth1 | while read address _ lladdr _; do "
                        "ip neighbour replace $address lladdr $lladdr dev eth1 nud permanent; done")
        hosts[1].filter(BLACK_HOLE, "eth1")
        self.assert_unnoticed(ranks)
        for host in hosts:
            self.assertEqual(self.failures(host), 1)

    def test_a_nic_that_is_switched_off(self):
        hosts, ranks = self.working(timeout_s=5)
        hosts[0].inside("ip", "link", "set", "eth1", "down")
        self.assert_unnoticed(ranks)
        self.assertGreater(self.failures(hosts[0]), 0)

    def test_connections_that_are_reset_again_and_again(self):
        hosts, ranks = self.working()
        for times in range(3):
            self.kill_connections(hosts[times % 2])
            self.until(lambda: self.failures(hosts[0]) > times and self.failures(hosts[1]) > times)
            self.until(lambda: hosts[0].daemon.stderr().count("data connections open again") > times)
        self.assert_unnoticed(ranks)
        self.wait_all_move(hosts)

    def test_small_ops_go_on_as_well(self):
        hosts = self.hosts_with_nics()
        for host in hosts:
            host.start(listen="*", nics="eth0, eth1")
        places = [(host, 0) for host in hosts]
        ranks = self.start_at(places, OP, "gate", f"times:2000:{OP}", "destroy")
        self.open_gates(ranks)
        for times in range(3):
            self.kill_connections(hosts[times % 2])
            self.until(lambda: hosts[0].daemon.stderr().count("data connections open again") > times)
        self.assert_unnoticed(ranks)

    def test_connections_that_are_reset_too_often(self):
        """Then the host is lost, and the reason says so."""
        hosts = self.hosts_with_nics()
        for host in hosts:
            host.start(listen="*", nics="eth0, eth1")
        ranks = self.start_at([(host, 0) for host in hosts], OP, "gate", f"times:1000000:{OP}", "untouched")
        self.open_gates(ranks)
        for times in range(9):
            self.until(lambda: hosts[0].daemon.stderr().count("data connections open again") >= times)
            self.kill_connections(hosts[0])
            self.until(lambda: self.failures(hosts[0]) > min(times, 7) or times == 8)
        for rank in ranks:
            self.assert_lost(rank, "n[12]")
        self.assertIn("data connections have failed 9 times within 60 s",
                      hosts[0].daemon.stderr() + hosts[1].daemon.stderr())


if __name__ == "__main__":
    unittest.main()

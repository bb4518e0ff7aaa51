"""Hosts with two NICs: data connections for moves take turns in them, and go over what is left."""
import unittest

from cluster import OP, RanksTest, require_namespaces

PAYLOAD_BYTES = 64 << 20
LARGE = f"allreduce:{PAYLOAD_BYTES // 4}:float32:sum"


def setUpModule():
    require_namespaces()


class NicsTest(RanksTest):
    def hosts_with_two(self):
        hosts = self.cluster(2)
        for host in hosts:
            host.add_nic()
        return hosts

    def move(self, hosts):
        """Run a large op; by host, what its NICs have sent for it, as parts of all."""
        before = [[host.sent_bytes(nic) for nic in ("eth0", "eth1")] for host in hosts]
        for steps in self.run_at([(host, 0) for host in hosts], LARGE, "destroy"):
            self.assert_all_ok(steps)
        parts = []
        for host, sent in zip(hosts, before):
            sent = [host.sent_bytes(nic) - bytes_before for nic, bytes_before in zip(("eth0", "eth1"), sent)]
            self.assertGreater(sum(sent), PAYLOAD_BYTES / 2)
            parts.append([part / sum(sent) for part in sent])
        return parts

    def wait_both_move(self, hosts):
        """Of the first op all may go over the connection that is there first."""
        self.until(lambda: all(min(parts) > 0.05 for parts in self.move(hosts)))

    def nics_of_plan(self, host):
        links = self.ctl_json(host.daemon, "links")["links"]
        return {link["from"] for link in links if link["to"] == "net"}


class Named(NicsTest):
    def test_moves_go_over_both(self):
        hosts = self.hosts_with_two()
        for host in hosts:
            host.start(listen="*", nics="eth0, eth1")
        self.wait_both_move(hosts)
        self.assertEqual(self.nics_of_plan(hosts[0]), {"eth0", "eth1"})

    def test_addresses_name_them_too(self):
        hosts = self.hosts_with_two()
        for host in hosts:
            host.start(listen=f"{host.v4}, {host.v4.replace('10.77', '10.78')}")
        self.wait_both_move(hosts)

    def test_what_nobody_names_is_not_used(self):
        """With all addresses, or at one of the two hosts."""
        for nics in ({}, {"nics": "eth0, eth1"}):
            with self.subTest(nics=nics):
                one, two = self.hosts_with_two()
                one.start(listen="*", **nics)
                two.start(listen="*")
                for parts in self.move([one, two]):
                    self.assertLess(parts[1], 0.01, parts)


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
        hosts = self.hosts_with_two()
        for host in hosts:
            host.start(listen="*", nics="eth0, eth1")
        for host in hosts:
            host.plug(False, host.wire + "b")
        self.check(hosts)

    def test_an_address_that_nobody_listens_at(self):
        hosts = self.hosts_with_two()
        for host in hosts:
            host.start(nics="eth0, eth1")
        self.check(hosts)

    def test_a_cable_that_goes_out_meanwhile(self):
        """Ranks hear of it as of a host that is gone, and the next communicator lives."""
        hosts = self.hosts_with_two()
        for host in hosts:
            host.cluster.timeout_s = 2
            host.start(listen="*", nics="eth0, eth1")
        places = [(host, 0) for host in hosts]
        ranks = self.start_at(places, OP, "gate", f"times:1000:{LARGE}", "untouched")
        self.open_gates(ranks)
        before = hosts[0].sent_bytes("eth1")
        self.until(lambda: hosts[0].sent_bytes("eth1") > before + (1 << 20))
        hosts[1].plug(False, hosts[1].wire + "b")
        for rank in ranks:
            self.assert_lost(rank, "n[12]")
        self.check(hosts)


if __name__ == "__main__":
    unittest.main()

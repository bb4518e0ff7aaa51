"""How ranks on several hosts find each other by an id, and what they hear if they do not.

Ids name the daemon that made them; no list of hosts is configured here.
"""
import json
import signal
import unittest

from cluster import BLACK_HOLE, NetTest, require_namespaces
from harness import BLINKCTL
from limit import SHORT_S

OP = "allreduce:1000:float32:sum"


def setUpModule():
    require_namespaces()


class GatheringTest(NetTest):
    def assert_all_join(self, *ranks):
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def check_serve(self, *hosts):
        """Whatever happened before, the hosts have a communicator, whose home is the last of them."""
        identifier = hosts[-1].new_id()
        self.assert_all_join(*(host.start_rank(identifier, len(hosts), rank, OP)
                               for rank, host in enumerate(hosts)))


class Gathering(GatheringTest):
    def test_ids_name_their_home_and_lead_there(self):
        one, two = self.started(2)
        self.assertEqual((one.connected(), two.connected()), ([], []))
        self.check_serve(one, two)
        self.assertEqual((one.connected(), two.connected()), (["n2"], ["n1"]))
        self.check_serve(two, one)

    def test_home_without_ranks(self):
        one, two, three = self.started(3)
        identifier = three.new_id()
        self.assert_all_join(*(host.start_rank(identifier, 2, rank, OP, "destroy")
                               for rank, host in enumerate((one, two))))
        self.check_serve(one, two, three)

    def test_all_ranks_on_one_host_that_is_not_the_home(self):
        one, two = self.started(2)
        identifier = two.new_id()
        self.assert_all_join(*(one.start_rank(identifier, 2, rank, OP) for rank in range(2)))

    def test_hosts_over_ipv6(self):
        hosts = self.cluster(2)
        for host in hosts:
            host.start(listen=host.v6)
        self.check_serve(*hosts)

    def test_hosts_that_listen_at_all_addresses(self):
        hosts = self.cluster(2)
        for host in hosts:
            host.start(listen="*")
        self.check_serve(*hosts)

    def test_ranks_without_a_device_get_one_that_is_free(self):
        one, two = self.started(2)  # with two devices each
        identifier = one.new_id()
        self.assert_all_join(*((one, two)[rank // 2].start_rank(identifier, 4, rank, OP)
                               for rank in range(4)))

    def test_same_hosts_again_and_again(self):
        hosts = self.started(2)
        for _ in range(10):
            self.check_serve(*hosts)
        for host in hosts:
            self.until(lambda host=host: not self.ctl_json(host.daemon, "comms")["comms"])


class Refused(GatheringTest):
    def test_rank_counts_that_differ_name_both_ranks_and_harm_nobody(self):
        one, two = self.started(2)
        identifier = one.new_id()
        first = one.start_rank(identifier, 2, 0, OP)
        self.until(lambda: self.ctl_json(one.daemon, "comms")["comms"])
        other = two.start_rank(identifier, 3, 1, OP)
        self.assert_step(other.finish(), "init", "MISMATCH", "rank 1 on n2", "rank 0 on n1")
        self.assert_all_join(two.start_rank(identifier, 2, 1, OP), first)

    def test_rank_that_is_on_another_host_already(self):
        one, two = self.started(2)
        identifier = one.new_id()
        first = one.start_rank(identifier, 2, 0, OP)
        self.until(lambda: self.ctl_json(one.daemon, "comms")["comms"])
        self.assert_step(two.start_rank(identifier, 2, 0, OP).finish(), "init", "EXISTS", "n1")
        self.assert_all_join(two.start_rank(identifier, 2, 1, OP), first)

    def test_daemon_without_a_network_says_what_it_needs(self):
        one, = self.started(1)
        alone = self.daemon()
        rank = self.start_rank(alone, one.new_id(), 2, 0, [OP])
        self.assert_step(rank.finish(), "init", "UNSUPPORTED", r"\[network\] listen")

    def test_daemon_that_was_started_anew(self):
        one, two = self.started(2)
        identifier = one.new_id()
        one.daemon.stop()
        one.start()
        self.assert_step(two.start_rank(identifier, 2, 1, OP).finish(), "init", "PEER_LOST",
                         "the daemon that was there has ended: 'n1' is there now")
        self.assert_step(one.start_rank(identifier, 2, 0, OP).finish(), "init", "PEER_LOST", "has ended")
        self.check_serve(one, two)

    def test_home_where_nobody_listens(self):
        one, two = self.cluster(2)
        one.start()
        two.start(timeout_s=0.5)
        identifier = one.new_id()
        one.daemon.stop()
        self.assert_step(two.start_rank(identifier, 2, 1, OP).finish(), "init", "PEER_LOST",
                         "the host that the id names, where the ranks gather, is lost: no connection")

    def test_home_whose_first_packets_are_lost(self):
        """They come again after a second, which may be longer than a host may give no sign of life."""
        one, two = self.started(2, timeout_s=0.5)
        identifier = one.new_id()
        rank = one.start_rank(identifier, 2, 0, OP)
        one.filter(BLACK_HOLE)
        late = two.start_rank(identifier, 2, 1, OP)
        self.until(two.is_connecting)
        one.unfilter()
        self.assert_all_join(rank, late)

    def start_with_network(self, host, **network):
        """A daemon to which its topology says this of the network."""
        text = self.run_command([BLINKCTL, "topology", "1xdgx1v@5", "--json"])[1]
        topology = json.loads(text)
        next(node for node in topology["nodes"] if node["id"] == "net").update(network)
        host.start(topology=self.write_file("topology.json", json.dumps(topology)), devices=8)

    def test_topologies_that_contradict_each_other(self):
        """The network is one for all hosts: who says otherwise of it does not begin with them."""
        one, two, three = self.cluster(3)
        self.start_with_network(one, GBps_total=10)
        self.start_with_network(two, GBps_total=20)
        self.start_with_network(three, GBps_total=10)
        identifier = one.new_id()
        ranks = [host.start_rank(identifier, 2, rank, OP) for rank, host in enumerate((one, two))]
        for rank in ranks:
            self.assert_step(rank.finish(), "init", "INVALID_ARGUMENT",
                             "'n1' and 'n2' do not say the same of the network")
        self.check_serve(one, three)

    def test_address_that_its_daemon_does_not_name_leads_to_no_session(self):
        """A user's own relay there would otherwise have all that goes between the hosts."""
        one, two = self.started(2)
        identifier = one.new_id()
        one.inside("ip", "address", "add", "10.77.0.98/24", "dev", "eth0")
        relay = self.start(["ip", "netns", "exec", one.namespace, "python3", "-c", RELAY, "10.77.0.98",
                            one.v4])
        relay.wait_for("being up", lambda process: "up" in process.stdout())
        address = bytes([10, 77, 0, 1]).hex()
        self.assertIn("ffff" + address, identifier)
        moved = identifier.replace("ffff" + address, "ffff" + bytes([10, 77, 0, 98]).hex())
        self.assert_step(two.start_rank(moved, 2, 1, OP).finish(), "init", "PEER_LOST",
                         "does not name this address as its own")
        self.assertEqual(two.connected(), [])
        self.check_serve(one, two)


RELAY = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], 24655))
print("up", flush=True)
def pass_on(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)
while True:
    client, _ = server.accept()
    daemon = socket.create_connection((sys.argv[2], 24655))
    for pair in ((client, daemon), (daemon, client)):
        threading.Thread(target=pass_on, args=pair, daemon=True).start()
"""


class Ends(GatheringTest):
    def gather(self, *hosts, steps=(OP,)):
        """All ranks but the last one wait for it: their id, and they."""
        identifier = hosts[0].new_id()
        count = len(hosts) + 1
        ranks = [host.start_rank(identifier, count, rank, *steps) for rank, host in enumerate(hosts)]
        for host in hosts:
            self.until(lambda host=host: self.ctl_json(host.daemon, "comms")["comms"])
        return identifier, ranks

    def test_rank_killed_while_others_on_other_hosts_gather(self):
        one, two, three = self.started(3)
        identifier, ranks = self.gather(one, two)
        self.until(lambda: two.connected() == ["n1"])
        late = three.start_rank(identifier, 3, 1, OP)  # the place is taken: its host is a guest all the same
        self.assert_step(late.finish(), "init", "EXISTS", "n2")
        ranks[1].kill()
        self.assert_step(ranks[0].finish(), "init", "PEER_LOST", r"rank 1 \(pid \d+\) on n2 disconnected")
        self.assert_step(three.start_rank(identifier, 3, 2, OP).finish(), "init", "PEER_LOST", "on n2")
        self.check_serve(one, two, three)

    def test_rank_that_gives_up_while_others_on_other_hosts_gather(self):
        one, two = self.started(2)
        identifier = one.new_id()
        waiting = one.start_rank(identifier, 3, 0)
        begun = self.start_client(two.daemon, [f"begin:{identifier}:3:1", "gate:joined", "abort", "ready"])
        begun.wait_for_step("at-gate")
        for host in (one, two):
            self.until(lambda host=host: self.ctl_json(host.daemon, "comms")["comms"])
        begun.say()
        heard = r"rank 1 \(pid \d+\) on n2 gave up before all ranks had joined"
        self.assert_step(begun.finish(), "ready", "ABORTED", heard)
        self.assert_step(waiting.finish(), "init", "ABORTED", heard)
        for host in (one, two):
            self.assert_step(host.start_rank(identifier, 3, 2, OP).finish(), "init", "ABORTED", heard)
        self.check_serve(one, two)

    def test_home_killed_while_ranks_gather(self):
        one, two, three = self.started(3)
        identifier, ranks = self.gather(one, two)
        self.until(lambda: two.connected() == ["n1"])
        one.daemon.kill()
        self.assert_step(ranks[1].finish(), "init", "PEER_LOST",
                         "n1, where the ranks gather, is lost: it closed the connection")
        self.check_serve(two, three)

    def test_guest_killed_while_ranks_gather(self):
        one, two, three = self.started(3)
        identifier, ranks = self.gather(one, two)
        self.until(lambda: two.connected() == ["n1"])
        two.daemon.kill()
        self.assert_step(ranks[0].finish(), "init", "PEER_LOST", "n2, with rank 1, is lost")
        self.check_serve(three, one)

    def test_host_stopped_while_ranks_gather(self):
        one, two = self.started(2)
        identifier, ranks = self.gather(one, two)
        self.until(lambda: two.connected() == ["n1"])
        two.daemon.stop()
        self.assert_step(ranks[0].finish(), "init", "PEER_LOST", "n2, with rank 1, is lost")
        self.assert_step(ranks[1].finish(), "init", "DAEMON_LOST")

    def test_rank_that_never_comes_is_named_on_all_hosts(self):
        one, two = self.started(2)
        identifier = one.new_id()
        ranks = [self.start_client(host.daemon, [f"join:{identifier}:3:{rank}:0:{int(SHORT_S * 1000)}"])
                 for rank, host in enumerate((one, two))]
        for rank in ranks:
            self.assert_step(rank.finish(), "init", "TIMEOUT", "only 2 of 3 ranks", "missing: rank 2",
                             "n1, n2")

    def test_host_behind_a_cut_cable_while_ranks_gather(self):
        one, two = self.cluster(2, timeout_s=1)
        one.start()
        two.start()
        identifier, ranks = self.gather(one, two)
        self.until(lambda: two.connected() == ["n1"])
        two.plug(False)
        for rank in ranks:
            self.assert_step(rank.finish(), "init", "PEER_LOST", "is lost")

    def test_stopped_rank_keeps_nobody_from_the_next_communicator(self):
        one, two = self.started(2)
        identifier, ranks = self.gather(one, two)
        ranks[1].child.send_signal(signal.SIGSTOP)
        self.check_serve(one, two)
        ranks[1].child.send_signal(signal.SIGCONT)
        self.assert_all_join(two.start_rank(identifier, 3, 2, OP, device=0), *ranks)


if __name__ == "__main__":
    unittest.main()

"""Daemons of several hosts that know one another: how they meet, who is refused, and what an end looks like.
"""
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

from cluster import ENTERED, KEYS, OP, Host, NetTest, require_namespaces
from harness import BLINKCTL


def setUpModule():
    require_namespaces()


WITHOUT_ROOT = "import os, cluster; os.geteuid = lambda: 1000; cluster.require_namespaces()"


class Requirement(NetTest):
    def test_user_whom_the_kernel_gives_no_namespaces_is_told_that_tests_are_skipped(self):
        directory = self.directory()
        refusal = pathlib.Path(directory, "unshare")
        refusal.write_text("#!/bin/sh\necho unshare: not permitted >&2\nexit 1\n")
        refusal.chmod(0o755)
        environment = dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}")
        environment.pop(ENTERED, None)
        status, _, err = self.run_command([sys.executable, "-B", "-c", WITHOUT_ROOT], env=environment)
        self.assertEqual(status, 77, err)
        self.assertEqual(err, "SKIPPED: no network namespaces here: unshare: not permitted\n")


class Meeting(NetTest):
    def test_two_hosts_see_each_other(self):
        one, two = self.cluster(2)
        one.start()
        two.start(peers=one.v4)
        self.wait_connected(one, two)
        self.wait_connected(two, one)
        own, other = two.nodes()
        self.assertEqual((own["name"], own["state"], own["address"]), ("n2", "this host", f"{two.v4}:24655"))
        self.assertEqual(other["address"], f"{one.v4}:24655")
        self.assertIn({"name": "eth0", "address": one.v4, "has_moves": True}, other["nics"])
        self.assertIn({"name": "eth0", "address": one.v6, "has_moves": False}, other["nics"])

    def test_hosts_meet_over_ipv6(self):
        one, two = self.cluster(2)
        one.start(listen=f"[{one.v6}]:4000")
        two.start(listen=two.v6, peers=f"[{one.v6}]:4000")
        self.wait_connected(one, two)

    def test_all_hosts_may_have_the_same_list_of_peers(self):
        hosts = self.cluster(3)
        peers = ", ".join(host.v4 for host in hosts)
        for host in hosts:
            host.start(listen="*", peers=peers)
        for host in hosts:
            self.wait_connected(host, *(other for other in hosts if other is not host))
            self.until(lambda: not host.why_not())

    def test_one_host_alone_shows_no_nodes(self):
        daemon = self.daemon()
        self.assertEqual(self.ctl_json(daemon, "nodes")["nodes"], [])
        self.assertEqual(self.ctl(daemon, "nodes"), "This daemon knows no other host: [network] listen in "
                         "its blinkd.conf is empty.\n")

    def test_sixteen_hosts_meet(self):
        hosts = self.cluster(16)
        peers = " ".join(host.v4 for host in hosts)
        for host in hosts:
            host.start(peers=peers, wait=False)
        for host in hosts:
            host.daemon.wait_for("listening", lambda _: os.path.exists(host.daemon.socket))
        for host in hosts:
            self.wait_connected(host, *(other for other in hosts if other is not host))


class Refused(NetTest):
    def test_other_key_is_refused_on_both_sides_until_it_is_put_right(self):
        one, two = self.cluster(2)
        two.write_keys(KEYS[1])
        one.start()
        two.start(peers=one.v4)
        self.until(lambda: "does not accept this host's cluster key" in two.why_not().get(one.v4, ""))
        self.assertIn("it has another cluster key or cluster name, ", one.daemon.stderr())
        self.assertEqual(one.connected(), [])
        two.write_keys(KEYS[0])
        self.wait_connected(two, one)

    def test_keys_are_changed_without_ending_a_session(self):
        old, new = KEYS
        hosts = one, two = self.cluster(2)
        one.start()
        two.start(peers=one.v4)
        self.wait_connected(two, one)
        told = []
        for keys in ([old, new], [new, old], [new]):
            for host in hosts:
                host.daemon.err.clear()
                host.write_keys(*keys)
            for host in hosts:
                self.until(lambda: "[network] key: changed" in host.daemon.stderr())
            line, = re.findall(r"key: changed; (.*)", one.daemon.stderr())
            told.append((line, re.findall(r"[0-9a-f]{16}", line)))
        self.assertEqual(len({line for line, _ in told}), 3, "two steps are told alike")
        self.assertEqual(told[0][1], told[1][1][::-1])
        self.assertEqual(told[2][1], told[1][1][:1])
        self.assertGreater(two.nodes()[1]["since_s"], 5, "the session was made anew")
        two.daemon.stop()
        two.start(peers=one.v4)
        self.wait_connected(two, one)

    def test_two_hosts_of_one_name(self):
        one, two, three = self.cluster(3)
        one.start()
        two.start(peers=one.v4)
        self.wait_connected(one, two)
        three.start(peers=one.v4, host="n2")
        reasons = set()
        self.until(lambda: reasons.add(three.why_not().get(one.v4, "")) or len(reasons) > 3)
        self.assertIn("two daemons are named 'n2'", max(reasons))
        self.assertEqual(three.daemon.stderr().count("no session with"), 1, "a line for each try")
        self.wait_connected(one, two)

    def test_every_fault_of_the_key_file_is_told_and_its_end(self):
        host, = self.cluster(1)
        host.start()
        self.assertEqual(len(host.nodes()), 1)  # it has read the key: its socket is there before that
        os.chmod(host.key, 0o644)
        self.until(lambda: "has mode 0644" in host.daemon.stderr())
        host.write_keys(KEYS[0], KEYS[1], KEYS[0])
        self.until(lambda: host.daemon.stderr().count("the keys of before stay in use") == 2)
        host.write_keys(KEYS[0])
        self.until(lambda: "the file is in order again" in host.daemon.stderr())

    def test_other_cluster(self):
        one, two = self.cluster(2)
        one.start()
        two.start(peers=one.v4, cluster="other")
        self.until(lambda: one.v4 in two.why_not() and two.why_not()[one.v4])
        self.assertEqual(one.connected(), [])

    def test_what_cannot_be_is_named_at_the_start(self):
        host, = self.cluster(1)
        self.assertRegex(self.refused(host, listen="10.77.9.9"),
                         r"\[network\] listen: listen on 10.77.9.9:24655: this machine has no such address")
        self.assertRegex(self.refused(host, listen="n1:port"), "listen.*the port 'port' is no number")
        self.assertRegex(self.refused(host, peers="[10.0.0.1"),
                         r"blinkd.conf:\d+: peers = \[10.0.0.1: address '\[10.0.0.1'")
        self.assertRegex(self.refused(host, nics="eth0, eth7@5"),
                         r"\[network\] nics: this machine has no interface 'eth7'; it has lo, eth0")
        self.assertRegex(self.refused(host, listen="", peers="n2"), r"\[network\] has peers and no listen")
        self.assertRegex(self.refused(host, host="two words"), r"\[network\] host: .*'two words'")
        self.assertRegex(self.refused(host, timeout_s=0.1),
                         r"\[network\] timeout_s of 0.1: 0.5 to 3600 are allowed")
        self.assertRegex(self.refused(host, key="/nowhere/key"),
                         "no cluster key at /nowhere/key.*blinkctl key new")
        os.chmod(host.key, 0o644)
        self.assertRegex(self.refused(host), r"\[network\] key: .*0600")

    def test_missing_rdma_device_is_told_at_the_start_and_once_to_ranks(self):
        if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("this machine has an RDMA device")
        hosts = self.cluster(2)
        for host in hosts:
            host.start(transport="rdma")
            self.until(lambda: "[network] transport = rdma, and this machine has no RDMA device" in
                       host.daemon.stderr())
        identifier = hosts[0].new_id()
        ranks = [host.start_rank(identifier, 2, rank, OP) for rank, host in enumerate(hosts)]
        for number, rank in enumerate(ranks):
            gone = f"^n{2 - number}, with rank {1 - number}, is lost: "
            self.assert_step(rank.finish(), OP, "PEER_LOST", gone + "(?!.*host n).*no RDMA connections")

    def test_port_in_use(self):
        host, = self.cluster(1)
        host.start()
        self.assertRegex(self.refused(host), "listen on 10.77.0.1:24655: another program does already")
        self.assertEqual(host.nodes()[0]["state"], "this host")


SILENT_NAME_SERVER = """
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
print("up", flush=True)
time.sleep(3600)
"""


class Names(NetTest):
    def silence_name_servers(self, host, at):
        """Whoever looks a name up on the host waits for minutes."""
        directory = f"/etc/netns/{host.namespace}"
        if not os.access("/etc", os.W_OK):
            self.skipTest("only root can give a namespace another /etc/resolv.conf")
        os.makedirs(directory)
        self.addCleanup(shutil.rmtree, directory)
        with open(f"{directory}/resolv.conf", "w", encoding="utf-8") as file:
            file.write(f"nameserver {at.v4}\noptions timeout:30 attempts:5\n")
        server = self.start(["ip", "netns", "exec", at.namespace, sys.executable, "-c", SILENT_NAME_SERVER,
                             at.v4])
        server.wait_for("being up", lambda process: "up" in process.stdout())

    def test_name_that_nobody_knows_keeps_neither_other_hosts_nor_the_stop_waiting(self):
        one, two = self.cluster(2)
        self.silence_name_servers(one, two)
        two.start()
        one.start(peers=" ".join(f"h{i}.example" for i in range(100)) + " " + two.v4)
        self.wait_connected(one, two)
        self.assertIn("h99.example", one.why_not())
        self.assertLess(len(os.listdir(f"/proc/{one.daemon.pid}/task")), 50)  # a few names at a time
        one.daemon.stop()

    def test_two_daemons_on_one_host_are_two(self):
        one, _ = self.cluster(2)
        one.inside("ip", "address", "add", "10.77.0.100/24", "dev", "eth0")
        one.start()
        other = Host(one.cluster, 1)
        other.start(listen="10.77.0.100", host="other", peers=f"10.77.0.100 {one.v4}")
        self.until(lambda: other.connected() == ["n1"])
        self.assertEqual(other.why_not(), {}, "it dials itself")


class Ends(NetTest):
    def meet(self, **options):
        one, two = self.cluster(2, **options)
        one.start()
        two.start(peers=one.v4)
        self.wait_connected(one, two)
        self.wait_connected(two, one)
        return one, two

    def test_stopped_host_says_so_and_is_found_again(self):
        one, two = self.meet()
        one.daemon.stop()
        self.until(lambda: one.v4 in two.why_not())
        self.assertIn("host n1 (10.77.0.1:24655): its daemon was stopped", two.daemon.stderr())
        one.start()
        self.wait_connected(two, one)

    def test_killed_host_is_missed_at_once(self):
        one, two = self.meet(timeout_s=3600)
        one.daemon.kill()
        self.until(lambda: one.v4 in two.why_not())
        self.assertTrue(two.why_not()[one.v4], "no reason is shown")
        os.unlink(one.daemon.socket)
        one.start()
        self.wait_connected(two, one)

    def test_host_that_hangs_is_given_up_and_found_again(self):
        one, two = self.meet(timeout_s=1)
        one.daemon.child.send_signal(signal.SIGSTOP)
        self.until(lambda: "host n1 (10.77.0.1:24655): it has given no sign of life for 1 s"
                   in two.daemon.stderr())
        self.until(lambda: one.v4 in two.why_not())
        one.daemon.child.send_signal(signal.SIGCONT)
        self.wait_connected(two, one)
        self.wait_connected(one, two)

    def test_cut_cable_is_noticed_on_both_sides(self):
        one, two = self.meet(timeout_s=1)
        one.plug(False)
        self.until(lambda: not one.connected() and not two.connected())
        one.plug(True)
        self.wait_connected(two, one)
        self.wait_connected(one, two)

    def test_nothing_is_left_of_peers_that_came_and_went(self):
        one, two = self.meet()
        before = one.daemon.descriptors()
        for _ in range(5):
            two.daemon.stop()
            self.until(lambda: not one.connected())
            two.start(peers=one.v4)
            self.wait_connected(one, two)
        self.until(lambda: one.daemon.descriptors() <= before)


class Key(NetTest):
    def test_key_new_makes_a_file_that_daemons_take(self):
        host, = self.cluster(1)
        path = os.path.join(self.directory(), "cluster.key")
        status, out, _ = self.run_command([BLINKCTL, "key", "new", path])
        self.assertEqual(status, 0)
        self.assertIn(path, out)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        host.start(key=path)
        status, _, err = self.run_command([BLINKCTL, "key", "new", path])
        self.assertEqual((status, "a key is never overwritten" in err), (1, True), err)

    def test_key_without_a_verb(self):
        status, _, err = self.run_command([BLINKCTL, "key"])
        self.assertEqual((status, "it takes new, " in err), (2, True), err)


if __name__ == "__main__":
    unittest.main()

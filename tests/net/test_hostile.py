"""Strangers at the port where daemons listen, daemons that do not belong, and users who make ids up: each is
refused in a line, and the communicators of others go on.
"""
import ipaddress
import os
import re
import subprocess
import sys
import unittest

from cluster import KEYS, OP, Host, RanksTest, require_namespaces
from raw import COMM_INIT, QUOTA, RawClient, message

PORT = 24655

#: What a stranger does with one connection after the other, by its name, and what the log says of that.
STRANGERS = {
    "scan": ("pass", "it closed the connection during the handshake"),
    "garbage": ("one.sendall(os.urandom(random.randrange(1, 70000))); one.recv(1)",
                "no TLS handshake with a cluster key|more than \\d+ bytes before it has shown"),
    "http": ("one.sendall(b'GET / HTTP/1.1\\r\\nHost: n1\\r\\n\\r\\n'); one.recv(1)",
             "no TLS handshake with a cluster key: http request"),
    "tls": ("tls.wrap_socket(one)", "no TLS handshake with a cluster key"),
    "half-open": ("kept.append(one)", "it has too many handshakes under way"),
    "data": ("one.sendall(hello + os.urandom(32)); one.recv(1)",
             "a data connection without the token of its session|is not to be dialled there"),
}

STRANGER = """
import collections, os, random, socket, ssl, sys
at = (sys.argv[1], int(sys.argv[2]))
hello = b"BLKD" + bytes([1, 1, 0, 0]) + bytes.fromhex(sys.argv[4])
kept = collections.deque(maxlen=200)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
act = compile(sys.argv[3], "act", "exec")
print("up", flush=True)
while True:
    one = socket.create_connection(at)
    try:
        exec(act)
    except OSError:
        pass
    if one not in kept:
        one.close()
"""


def setUpModule():
    require_namespaces()


class HostileTest(RanksTest):
    def goes_on(self, ranks, host):
        op_count = lambda: self.ctl_json(host.daemon, "comms")["comms"][0]["op_count"]
        before = op_count()
        self.until(lambda: op_count() > before + 20)
        for rank in ranks:
            self.assertEqual([step for step in rank.steps() if step["result"] != "BLINK_OK"], [])


class Strangers(HostileTest):
    def start_stranger(self, host, at, name, instance=bytes(8)):
        """instance: of a daemon that has a session with the one that is attacked."""
        stranger = self.start(["ip", "netns", "exec", host.namespace, sys.executable, "-c", STRANGER, at.v4,
                               PORT, STRANGERS[name][0], instance.hex()])
        stranger.wait_for("being up", lambda process: "up" in process.stdout())
        return stranger

    def test_they_harm_no_communicator_and_leave_nothing(self):
        places = self.places(1, 1)
        one, outside = places[0][0], Host(places[0][0].cluster, 9)
        outside.make()
        self.check_serve(places)
        self.until(lambda: not self.ctl_json(one.daemon, "comms")["comms"])
        before = one.daemon.descriptors()
        instance = bytes.fromhex(places[1][0].new_id())[8:16]
        ranks = self.start_at(places, f"times:1000000:{OP}")
        self.until(lambda: self.ctl_json(one.daemon, "comms")["comms"])
        for name in STRANGERS:
            with self.subTest(stranger=name):
                stranger = self.start_stranger(outside, one, name, instance)
                self.until(lambda: re.search(f"{outside.v4}.*({STRANGERS[name][1]})", one.daemon.stderr()))
                self.goes_on(ranks, one)
                self.assertIsNone(stranger.child.poll(), stranger.describe())
                stranger.kill()
                one.daemon.err.clear()
        for rank in ranks:
            rank.kill()
        self.until(lambda: one.daemon.descriptors() <= before)
        self.check_serve(places)

    def test_lines_about_a_flood_of_them_are_withheld_and_counted(self):
        one, outside = self.cluster(2)
        one.start()
        stranger = self.start_stranger(outside, one, "garbage")
        self.until(lambda: re.search(r"withheld about this address before: \d+", one.daemon.stderr()))
        stranger.kill()


#: Connects from so many addresses of a network, says nothing, and waits until all that was closed.
CROWD = """
import socket, sys
at, port, network, count = (sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
kept = [socket.create_connection((at, port), source_address=(f"{network}a{i:x}", 0)) for i in range(count)]
for one in kept:
    while one.recv(4096):
        pass
"""


class Crowds(HostileTest):
    """Many hosts of one IPv6 network come at once."""
    COUNT = 20

    def addresses(self, network):
        return [f"{network}a{i:x}" for i in range(self.COUNT)]

    def are_dropped(self, one, outside, network):
        one.daemon.err.clear()
        crowd = ["ip", "netns", "exec", outside.namespace, sys.executable, "-c", CROWD, one.v6, PORT, network,
                 self.COUNT]
        status, out, err = self.run_command(crowd)
        self.assertEqual(status, 0, out + err)
        refused = lambda: re.search(f"refused .{network}.*", one.daemon.stderr())
        self.until(refused)
        return "too many handshakes" in refused().group()

    def test_hosts_of_the_same_network_and_hosts_that_are_dialled_do_not_give_way(self):
        one, = self.cluster(1, timeout_s=1)
        outside = Host(one.cluster, 9)
        outside.make()
        for network in ("fd77::", "fd78::"):
            for address in self.addresses(network):
                outside.inside("ip", "address", "add", f"{address}/128", "dev", "eth0", "nodad")
        one.inside("ip", "route", "add", "fd78::/64", "dev", "eth0")
        one.start(listen=one.v6)
        self.assertFalse(self.are_dropped(one, outside, "fd77::"))
        self.assertTrue(self.are_dropped(one, outside, "fd78::"))
        one.daemon.stop()
        one.start(listen=one.v6, peers=" ".join(self.addresses("fd78::")))
        self.assertFalse(self.are_dropped(one, outside, "fd78::"))


#: Prints whom each data connection is dialled at that it sees, and the hello that opens it.
LISTENER = """
import socket
ETH_P_ALL = 3
cable = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
print("up", flush=True)
while True:
    packet = cable.recv(65536)
    if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
        continue
    tcp = packet[4 * (packet[0] & 15):]
    said = tcp[4 * (tcp[12] >> 4):]
    if said.startswith(b"BLKD"):
        print(socket.inet_ntoa(packet[16:20]), said[:48].hex(), flush=True)
"""

REPLAY = """
import socket, sys
again = socket.create_connection((sys.argv[1], int(sys.argv[2])))
again.sendall(bytes.fromhex(sys.argv[3]))
try:
    print("heard", again.recv(1))
except ConnectionResetError:
    print("heard", b"")
"""


class Replays(HostileTest):
    """Data go in clear: who can listen has seen the token of each data connection."""

    def replay(self, outside, at, hellos, text):
        """Until the log has said so of each, which withholds lines that come fast one after the other."""
        for hello in hellos:
            at.daemon.err.clear()
            while not re.search(f"{outside.v4}.*{text}", at.daemon.stderr()):
                status, out, err = self.run_command(["ip", "netns", "exec", outside.namespace,
                                                     sys.executable, "-c", REPLAY, at.v4, PORT, hello])
                self.assertEqual((status, out), (0, "heard b''\n"), err)

    def test_token_opens_one_connection_once(self):
        one, two = self.started(2)
        outside = Host(one.cluster, 9)
        outside.make()
        listener = self.start(["ip", "netns", "exec", one.namespace, sys.executable, "-c", LISTENER])
        listener.wait_for("being up", lambda process: "up" in process.stdout())
        ranks = self.start_at([(one, 0), (two, 0)], f"times:1000000:{OP}")
        self.until(lambda: listener.stdout().count("\n") == 4)
        seen = [line.split() for line in listener.stdout().splitlines()[1:]]
        at, = {host for host in (one, two) for address, _ in seen if host.v4 == address}
        other = two if at is one else one
        hellos = [hello for _, hello in seen]
        self.assertEqual(len(set(hellos)), 3)
        self.goes_on(ranks, at)
        self.replay(outside, at, hellos, r"data connection \d is there already")
        self.goes_on(ranks, at)
        for rank in ranks:
            rank.kill()
        other.daemon.kill()
        self.until(lambda: at.connected() == [])
        self.replay(outside, at, hellos, "of a daemon that has no session here")
        other.restart()
        self.check_serve([(one, 0), (two, 0)])


#: A new clock is the children's.
LATER = """trap 'kill "$!"' TERM; setpriv --pdeathsig KILL "$@" & wait; wait "$!" """


class Daemons(HostileTest):
    def refused_join(self, host, identifier, result, *texts):
        rank = host.start_rank(identifier, 2, 1, OP)
        self.assert_step(rank.finish(), "init", result, *texts)

    def test_home_with_another_key(self):
        one, two = self.cluster(2)
        two.write_keys(KEYS[1])
        one.start()
        two.start(timeout_s=0.5)
        self.refused_join(two, one.new_id(), "PEER_LOST", "does not accept this host's cluster key")
        self.until(lambda: "it has another cluster key or cluster name, " in one.daemon.stderr())

    def test_home_of_another_cluster(self):
        one, two = self.cluster(2)
        one.start()
        two.start(timeout_s=0.5, cluster="other")
        self.refused_join(two, one.new_id(), "PEER_LOST", "does not accept this host's cluster key")

    def test_two_hosts_of_one_name(self):
        one, two, three = self.cluster(3)
        one.start()
        two.start(peers=one.v4)
        self.wait_connected(one, two)
        three.start(host="n2", timeout_s=0.5)
        self.refused_join(three, one.new_id(), "PEER_LOST", "two daemons are named 'n2'")
        self.until(lambda: "two daemons are named 'n2'" in one.daemon.stderr())
        self.check_serve([(one, 0), (two, 0)])

    def test_id_whose_home_is_this_daemon_under_another_instance(self):
        one, = self.started(1, timeout_s=0.5)
        identifier = one.new_id()
        other = identifier[:16] + f"{int(identifier[16:32], 16) ^ 1:016x}" + identifier[32:]
        self.refused_join(one, other, "PEER_LOST", "'n1' itself|has ended")

    def test_id_that_names_a_stranger(self):
        one, two = self.started(2, timeout_s=1)
        server = self.start(["ip", "netns", "exec", two.namespace, sys.executable, "-m", "http.server",
                             "--bind", two.v4, "8000"])
        connects = lambda: subprocess.run(["ip", "netns", "exec", one.namespace, "bash", "-c",
                                           f"</dev/tcp/{two.v4}/8000"], capture_output=True)
        self.until(lambda: connects().returncode == 0)
        self.refused_join(one, made_up_id(1, 8000, two.v4).hex(), "PEER_LOST",
                          "where the ranks gather, is lost")
        self.check_serve([(one, 0), (two, 0)])

    def test_hosts_whose_clocks_differ(self):
        """By eleven days, and they run for as long as the test does."""
        one, two = self.cluster(2, timeout_s=1)
        one.start()
        two.start(prefix=["unshare", "--time", "--monotonic", "1000000", "sh", "-c", LATER, "sh"],
                  peers=one.v4)
        self.wait_connected(one, two)
        places = [(one, 0), (two, 0)]
        self.check_serve(places)
        self.until(lambda: two.nodes()[1]["since_s"] > 3)
        self.assertEqual((one.connected(), two.connected()), (["n2"], ["n1"]))
        self.check_serve(places)


class Mute(HostileTest):
    def test_a_host_that_tells_no_topology_is_left(self):
        """Ranks would wait for it as long as it gives signs of life."""
        one, two = self.cluster(2, timeout_s=1)
        one.start()
        mute = self.start(["ip", "netns", "exec", two.namespace, os.environ["BLINK_MUTE"], two.key, "n2",
                           one.v4])
        self.until(lambda: one.connected() == ["n2"])
        self.assertEqual(mute.wait(), 0, mute.describe())
        self.assertIn("it has not told its topology within 1 s", mute.stdout())
        self.until(lambda: one.connected() == [])
        self.check_serve([(one, 0), (one, 1)])


def made_up_id(instance, port, address):
    """As proto/unique_id.h."""
    packed = ipaddress.ip_address(address)
    packed = packed.packed if packed.version == 6 else bytes(10) + b"\xff\xff" + packed.packed
    return (b"\1\0" + port.to_bytes(2, "little") + bytes(4) + instance.to_bytes(8, "little") + packed +
            bytes(16) + os.urandom(16))


class Users(HostileTest):
    def test_ids_of_homes_that_are_not_there_take_few_connections(self):
        """A user who makes ids up has the daemon dial whoever they name, and has a bound for that."""
        places = self.places(1, 1, limits={"connections_per_tenant": 40})
        one = places[0][0]
        self.check_serve(places)
        before = one.daemon.descriptors()
        client = RawClient(one.daemon)
        self.addCleanup(client.close)
        self.assertEqual(client.hello().code, 0)
        for instance in range(1, 201):
            client.send(COMM_INIT, message(_1=made_up_id(instance, PORT, "10.77.0.200"), _2=2, _3=0, _4=0))
        refused = [client.receive() for _ in range(161)]
        self.assertEqual({reply.code for reply in refused}, {QUOTA})
        self.assertIn("connections_per_tenant", refused[0].text)
        self.assertLess(one.daemon.descriptors(), before + 50)
        client.close()
        self.until(lambda: one.daemon.descriptors() <= before)
        self.check_serve(places)


if __name__ == "__main__":
    unittest.main()

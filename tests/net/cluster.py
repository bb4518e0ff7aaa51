"""Several hosts on one machine: network namespaces joined by a bridge, with a daemon in each.

Namespaces need root, or a user namespace: unittest is then started anew inside one. Where the kernel gives
neither the tests are SKIPPED, with exit status 77. Without the tool they need, ip of iproute2, they fail.
"""
import contextlib
import itertools
import json
import os
import subprocess
import sys

from harness import BLINKD, Daemon, IntegrationTest

ENTERED = "BLINK_TEST_IN_USER_NAMESPACE"
OP = "allreduce:1000:float32:sum"
KEYS = ["A" * 43 + "=", "B" * 42 + "A="]


def run(*arguments):
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def can_make_namespaces():
    name = f"blink-{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "netns", "exec", name, "true")  # not in a chroot, whose root folder is no mount
        finally:
            run("ip", "netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return error.stderr.strip()
    return None


def skip(why):
    print(f"SKIPPED: no network namespaces here: {why}", file=sys.stderr)
    os._exit(77)


def enter_user_namespace():
    """Starts unittest anew inside one."""
    inside = ["unshare", "-rnm", "sh", "-c", "mount -t tmpfs none /run && exec \"$@\"", "sh"]
    tried = subprocess.run([*inside, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=False)
    if tried.returncode != 0:
        skip(tried.stderr.strip())
    os.execvpe("unshare", [*inside, sys.executable, "-B", "-m", "unittest", *sys.argv[1:]],
               dict(os.environ, **{ENTERED: "1"}))


def require_namespaces():
    """For setUpModule()."""
    if os.geteuid() != 0 and ENTERED not in os.environ:
        enter_user_namespace()
    why = can_make_namespaces()
    if why:
        skip(why)


class Host:
    """One namespace, with a configuration and a key of its own; at most one daemon at a time."""

    def __init__(self, cluster, number):
        self.cluster, self.case = cluster, cluster.case
        self.name = f"n{number}"
        self.namespace = f"{cluster.prefix}-{number}"
        self.wire = f"{cluster.prefix}v{number}"  # its end at the bridge
        self.v4, self.v6 = f"10.77.0.{number}", f"fd77::{number}"
        self.directory = self.case.directory()
        self.key = os.path.join(self.directory, "cluster.key")
        self.daemon = None
        self.write_keys(KEYS[0])

    def add_nic(self, number=1):
        """Another NIC, eth1 and so on, which leads to all other hosts, too, over a switch of its own."""
        switch, wire, nic = f"br{number}", self.wire_of(number), f"eth{number}"
        self.cluster.add_switch(switch)
        run("ip", "link", "add", wire, "netns", self.cluster.switch, "type", "veth", "peer", "name", nic,
            "netns", self.namespace)
        self.cluster.at_switch("ip", "link", "set", wire, "master", switch, "up")
        self.inside("ip", "address", "add", f"10.{77 + number}.0.{self.v4.split('.')[-1]}/24", "dev", nic)
        self.inside("ip", "link", "set", nic, "up")

    def wire_of(self, number):
        """The end at the switch of the NIC that add_nic() made."""
        return self.wire + chr(ord("a") + number)

    def inside(self, *arguments):
        run("ip", "netns", "exec", self.namespace, *arguments)

    def make(self):
        run("ip", "netns", "add", self.namespace)
        self.case.addCleanup(run, "ip", "netns", "delete", self.namespace)
        run("ip", "link", "add", self.wire, "netns", self.cluster.switch, "type", "veth", "peer", "name",
            "eth0", "netns", self.namespace)
        self.cluster.at_switch("ip", "link", "set", self.wire, "master", "br0", "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "address", "add", f"{self.v4}/24", "dev", "eth0")
        self.inside("ip", "address", "add", f"{self.v6}/64", "dev", "eth0", "nodad")
        self.inside("ip", "link", "set", "eth0", "up")

    def plug(self, is_in, wire=None):
        """Put the cable in, or pull it out."""
        self.cluster.at_switch("ip", "link", "set", wire or self.wire, "up" if is_in else "down")

    def shape(self, *arguments):
        """What the host sends goes so: `tc qdisc add … root` with these arguments."""
        self.inside("tc", "qdisc", "add", "dev", "eth0", "root", *arguments)

    def unshape(self):
        self.inside("tc", "qdisc", "delete", "dev", "eth0", "root")

    def filter(self, program, nic="eth0"):
        """What comes to the host goes through a program of classic BPF, which returns what becomes of it."""
        self.inside("tc", "qdisc", "add", "dev", nic, "clsact")
        self.inside("tc", "filter", "add", "dev", nic, "ingress", "bpf", "da", "bytecode", program)

    def unfilter(self):
        self.inside("tc", "qdisc", "delete", "dev", "eth0", "clsact")

    def is_connecting(self):
        """Whether its daemon waits for the answer to a first packet."""
        with open(f"/proc/{self.daemon.pid}/net/tcp", encoding="ascii") as sockets:
            return any(line.split()[3] == "02" for line in sockets)

    def sent_bytes(self, nic="eth0"):
        """Since the host was made."""
        file = f"/sys/class/net/{nic}/statistics/tx_bytes"
        output = subprocess.run(["ip", "netns", "exec", self.namespace, "cat", file], check=True,
                                capture_output=True)
        return int(output.stdout)

    def write_keys(self, *keys):
        """As a new file that takes the old one's place, so that nobody reads half of it."""
        new = self.key + ".new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("".join(key + "\n" for key in keys))
        os.replace(new, self.key)

    def configure(self, **network):
        settings = {"listen": self.v4, "host": self.name, "key": self.key,
                    "timeout_s": self.cluster.timeout_s}
        settings.update(network)
        path = os.path.join(self.directory, "blinkd.conf")
        with open(path, "w", encoding="utf-8") as file:
            for section, values in (("network", settings), ("limits", self.cluster.limits)):
                file.write(f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()))
        return path

    def start(self, *flags, **options):
        self.started = flags, options
        return self.start_daemon(*flags, **options)

    def start_daemon(self, *flags, wait=True, topology=None, devices=2, prefix=(), env=None, **network):
        self.daemon = self.case.daemon("--config", self.configure(**network), "--workers", "1", *flags,
                                       topology=topology, devices=devices, directory=self.directory, env=env,
                                       wait=wait, prefix=["ip", "netns", "exec", self.namespace, *prefix])
        if wait and network.get("listen", self.v4):  # clients can connect before
            self.daemon.wait_for("being there for other hosts",
                                 lambda daemon: "listening for other hosts on" in daemon.stderr())
        return self.daemon

    def restart(self):
        """As it was started, after the daemon was killed or stopped."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.daemon.socket)
        flags, options = self.started
        return self.start_daemon(*flags, **options)

    def nodes(self):
        return self.case.ctl_json(self.daemon, "nodes")["nodes"]

    def new_id(self):
        """An id whose home is this host."""
        client = self.case.start_client(self.daemon, ["id"])
        return self.case.find(client.finish(), "id")["text"]

    def start_rank(self, identifier, rank_count, rank, *steps, **options):
        return self.case.start_rank(self.daemon, identifier, rank_count, rank, steps, **options)

    def connected(self):
        return sorted(node["name"] for node in self.nodes() if node["state"] == "connected")

    def why_not(self):
        """By the name that is dialled: why there is no session."""
        return {node["name"]: node["why"] or "" for node in self.nodes() if node["state"] == "dialling"}


#: For Host.filter(): nothing comes through; a packet in a hundred is lost (TC_ACT_SHOT by `ld rand`).
BLACK_HOLE = "1,6 0 0 2,"
LOSSY = "4,32 0 0 4294963256,53 0 1 4252017622,6 0 0 2,6 0 0 4294967295,"


#: Clusters of one test are there at the same time, each with namespaces of its own.
CLUSTER_NUMBERS = itertools.count()


class Cluster:
    def __init__(self, case, host_count, timeout_s=20, limits=None):
        """A sanitizer's daemon may be slow, so hosts are given time unless a test is about that. limits: what
        stands in the settings' section of this name."""
        self.case, self.timeout_s, self.limits = case, timeout_s, limits or {}
        self.prefix = f"bl{os.getpid() % 100000:05}{next(CLUSTER_NUMBERS):03}"
        self.switch = f"{self.prefix}-switch"
        run("ip", "netns", "add", self.switch)
        case.addCleanup(run, "ip", "netns", "delete", self.switch)
        self.bridges = set()
        self.add_switch("br0")
        self.hosts = [Host(self, number) for number in range(1, host_count + 1)]
        for host in self.hosts:
            host.make()

    def add_switch(self, name):
        """Unless it is there."""
        if name in self.bridges:
            return
        self.at_switch("ip", "link", "add", name, "type", "bridge")
        self.at_switch("ip", "link", "set", name, "up")
        self.bridges.add(name)

    def at_switch(self, *arguments):
        run("ip", "netns", "exec", self.switch, *arguments)


class NetTest(IntegrationTest):
    def cluster(self, host_count, **options):
        return Cluster(self, host_count, **options).hosts

    def started(self, host_count, **options):
        hosts = self.cluster(host_count, **options)
        for host in hosts:
            host.start()
        return hosts

    def wait_connected(self, host, *others):
        self.until(lambda: host.connected() == sorted(other.name for other in others))

    def refused(self, at, **network):
        """What a daemon says that does not start there."""
        path = at.configure(**network)
        status, _, err = self.run_command(["ip", "netns", "exec", at.namespace, BLINKD, "--config", path,
                                           "--socket", os.path.join(self.directory(), "blinkd.sock"),
                                           "--devices", "host:2"])
        self.assertEqual(status, 1, err)
        return err


class RanksTest(NetTest):
    """Communicators with ranks on several hosts."""

    def places(self, *ranks_of_host, **options):
        """Hosts with so many ranks each: by rank its host and device."""
        hosts = self.started(len(ranks_of_host), **options)
        return [(host, device) for host, count in zip(hosts, ranks_of_host) for device in range(count)]

    def start_at(self, places, *steps, own=None, **options):
        """A process for each rank that joins one communicator. own: by rank, the steps of one that has
        others."""
        identifier = places[0][0].new_id()
        return [host.start_rank(identifier, len(places), rank, *(own or {}).get(rank, steps), device=device,
                                **options)
                for rank, (host, device) in enumerate(places)]

    def wait_at_gates(self, ranks):
        for rank in ranks:
            rank.wait_for_step("at-gate")

    def open_gates(self, ranks):
        """All at once, when all have come to theirs."""
        self.wait_at_gates(ranks)
        for rank in ranks:
            rank.say()

    def start_waiting(self, places, *steps, **options):
        """Ranks that are at the gate once they have done the steps."""
        ranks = self.start_at(places, *steps, "gate", "destroy", **options)
        self.wait_at_gates(ranks)
        return ranks

    def finish(self, ranks):
        """Those that wait at gates go on, and all is well with them."""
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def run_at(self, places, *steps, own=None):
        return [rank.finish() for rank in self.start_at(places, *steps, own=own)]

    def check_serve(self, places):
        for steps in self.run_at(places, OP, "destroy"):
            self.assert_all_ok(steps)

    def assert_lost(self, rank, *texts):
        steps = rank.finish()
        failed = [step for step in steps if step["result"] != "BLINK_OK"]
        self.assertTrue(failed, steps)
        self.assertEqual(failed[0]["result"], "BLINK_ERR_PEER_LOST", failed)
        for text in texts:
            self.assertRegex(failed[0]["text"], text)


class EndsTests:
    """How communicators end, whatever their ranks are on: for a class that is a RanksTest, too."""
    WORK = ["gate", f"times:1000000:{OP}", "untouched", "destroy"]
    OPPOSITE_OPS = 1000

    def working(self, places):
        """Ranks that do one op after the other for longer than any test takes."""
        ranks = self.start_at(places, *self.WORK)
        self.open_gates(ranks)
        comms = lambda: self.ctl_json(places[0][0].daemon, "comms")["comms"]
        self.until(lambda: comms()[0]["op_count"] > 20)
        return ranks

    def test_killed_rank_is_named_everywhere(self):
        places = self.places(2, 1)
        ranks = self.working(places)
        ranks[1].kill()
        for rank in (ranks[0], ranks[2]):
            self.assert_lost(rank, "rank 1")
        self.check_serve(places)

    def test_killed_daemon_is_named_with_its_ranks(self):
        places = self.places(1, 1, 1)
        ranks = self.working(places)
        places[2][0].daemon.kill()
        for rank in ranks[:2]:
            self.assert_lost(rank, "n3", "rank 2")
        ranks[2].kill()
        self.check_serve(places[:2])

    def test_abort_is_heard_everywhere(self):
        places = self.places(2, 1)
        own = {1: [OP, "abort", OP, "destroy"]}
        for steps in self.run_at(places, OP, OP, "destroy", own=own):
            failed = [step for step in steps if step["result"] != "BLINK_OK"]
            self.assertEqual(failed[0]["result"], "BLINK_ERR_ABORTED", steps)
        self.check_serve(places)

    def test_two_communicators_in_opposite_orders(self):
        one, two = [host for host, _ in self.places(1, 1)]
        ids = [one.new_id(), two.new_id()]
        ranks = []
        for rank, host in enumerate((one, two)):
            join = [f"join:{identifier}:2:{rank}:0" for identifier in ids]
            use = [f"use:{rank}", f"submit:{OP}", f"use:{1 - rank}", f"submit:{OP}", "wait"]
            ranks.append(self.start_client(host.daemon, join + self.OPPOSITE_OPS * use))
        for rank in ranks:
            self.assert_all_ok(rank.finish())

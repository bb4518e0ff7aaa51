"""Hosts on one machine: network and host names of their own, joined by a cable, or by a bridge if there are
more than two. To be used inside enter()."""
import pathlib
import subprocess
import time

from peerlib.programs import Failure

PREFIX_BITS = 24
BURST_BYTES = 512 << 10
QUEUE_S = 0.004  # how long a packet may wait at a shaped interface before it is dropped


def run(*words):
    """What it prints."""
    try:
        return subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True).stdout
    except OSError as error:
        raise Failure(f"{words[0]}: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        raise Failure(f"{' '.join(words)}: {error.stderr.strip()}") from None


class Host:
    """One host. It is there as long as a process that does nothing lives in it."""

    def __init__(self, number):
        self.name = f"n{number}"
        self.address = f"10.77.0.{number}"
        self.port = f"port{number}"  # its end at the bridge
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", f"hostname {self.name} && echo && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if not self.holder.stdout.readline():
            raise Failure("unshare: no namespaces for a host")

    @property
    def pid(self):
        return str(self.holder.pid)

    def command(self, *words):
        """The words of a command that runs `words` on this host."""
        return ["nsenter", "--target", self.pid, "--net", "--uts", "--", *map(str, words)]

    def inside(self, *words):
        run(*self.command(*words))

    def come_up(self):
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "address", "add", f"{self.address}/{PREFIX_BITS}", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")

    def set_congestion(self, name):
        self.inside("sh", "-c", f"echo {name} >/proc/sys/net/ipv4/tcp_congestion_control")

    def plug(self, is_in):
        """Put the cable in at the bridge, or pull it out there. The kernel takes its time to see that a cable
        is in, and drops what is sent before."""
        run("ip", "link", "set", self.port, "up" if is_in else "down")
        while is_in and not all("LOWER_UP" in seen and "state UP" in seen for seen in (
                run("ip", "link", "show", "dev", self.port),
                run(*self.command("ip", "link", "show", "dev", "eth0")))):
            time.sleep(0.01)

    def end(self):
        self.holder.kill()
        self.holder.wait()


class Network:
    """`count` hosts, n1 and so on. GBps: of every interface, each way; None: as fast as the machine is."""

    def __init__(self, count, GBps=None, congestion=None, bridge=None):
        self.GBps = GBps
        self.hosts = [Host(number) for number in range(1, count + 1)]
        self.has_bridge = count > 2 if bridge is None else bridge
        self._join()
        for host in self.hosts:
            host.come_up()
            if congestion:
                host.set_congestion(congestion)
        if GBps:
            self._shape()

    def _join(self):
        if not self.has_bridge:
            one, two = self.hosts
            run("ip", "link", "add", "name", "eth0", "netns", one.pid, "type", "veth", "peer", "name", "eth0",
                "netns", two.pid)
            return
        run("ip", "link", "add", "name", "br0", "type", "bridge")
        run("ip", "link", "set", "br0", "up")
        for host in self.hosts:
            run("ip", "link", "add", "name", host.port, "type", "veth", "peer", "name", "eth0", "netns",
                host.pid)
            run("ip", "link", "set", host.port, "master", "br0", "up")

    def _shape(self):
        """What leaves a host at its end of the cable, and what comes to it at the other one, which of two
        hosts is the other's."""
        rule = ["root", "tbf", "rate", f"{self.GBps * 8:.3f}gbit", "burst", str(BURST_BYTES), "limit",
                str(int(BURST_BYTES + self.GBps * 1e9 * QUEUE_S))]
        for host in self.hosts:
            host.inside("tc", "qdisc", "add", "dev", "eth0", *rule)
            if self.has_bridge:
                run("tc", "qdisc", "add", "dev", host.port, *rule)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """The kernel takes its time with a host's own end of a cable; the other end goes at once."""
        for host in self.hosts:
            if self.has_bridge:
                run("ip", "link", "delete", host.port)
            host.end()
        if self.has_bridge:
            run("ip", "link", "delete", "br0")


def congestion_controls():
    """Those that a host may have, by what the kernel says that anybody may."""
    path = pathlib.Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    return path.read_text(encoding="ascii").split()

"""What hosts and communicators cost: the time to make the next one, memory and descriptors."""
import os
import re
import statistics
import subprocess
import sys
import time

from hostlib.cluster import RUN_LIMIT_S, Cluster
from hostlib.hosts import Network
from netlib import echo
from peerlib.programs import Failure

HOSTS = 4
COMMS = 99  # the program does more with 100


def round_trip_us(network):
    """Of 8 bytes over TCP between two hosts; both ends are in Python and sleep until something comes."""
    one, two = network.hosts[:2]
    server = subprocess.Popen(two.command(sys.executable, "-B", echo.__file__, "answer", two.address),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        server.stdout.readline()
        asking = one.command(sys.executable, "-B", echo.__file__, "ask", two.address)
        return float(subprocess.run(asking, check=True, capture_output=True, text=True).stdout)
    finally:
        server.kill()
        server.wait()


def status_kib(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(name + ":")), 0)


def usage(daemon):
    return status_kib(daemon.pid, "RssAnon"), len(os.listdir(f"/proc/{daemon.pid}/fd"))


def usage_at_rest(daemon):
    """Once it has closed what its clients had: nothing has changed for half a second."""
    last, since = usage(daemon), time.monotonic()
    while time.monotonic() < since + 0.5:
        time.sleep(0.05)
        now = usage(daemon)
        if now != last:
            last, since = now, time.monotonic()
    return last


def make_communicators(cluster):
    """Microseconds to make one when the hosts have met before, KiB and descriptors of the first host's daemon
    for each."""
    sockets = ",".join(daemon.socket for daemon, _ in cluster.places())
    done = subprocess.run([cluster.bin / "communicators", str(cluster.ranks), str(COMMS),
                           str(cluster.daemons[0].pid)],
                          env={**os.environ, "BLINK_SOCKETS": sockets}, capture_output=True, text=True,
                          check=False, timeout=RUN_LIMIT_S)
    found = re.search(r": (\d+) us each.*?, (-?[\d.]+) KiB and (-?[\d.]+) descriptors", done.stdout)
    if done.returncode or not found:
        raise Failure(f"communicators: {done.stderr.strip() or done.stdout}")
    return tuple(map(float, found.groups()))


def measure(binaries, directory, rounds):
    """By name: what was found."""
    network, made, trips_us = Network(HOSTS), [], []
    with network, Cluster(network, 1, binaries, directory) as cluster:
        before_kib, before_descriptors = usage(cluster.daemons[0])
        cluster.perf("allreduce", "-b", "8", "-e", "8", "-n", "20", "-w", "3", "--in-place=no")
        after_kib, after_descriptors = usage_at_rest(cluster.daemons[0])
        for _ in range(rounds):
            trips_us.append(round_trip_us(network))
            made.append(make_communicators(cluster))
    medians = [statistics.median(values) for values in zip(*made)]
    return {"trip_us": statistics.median(trips_us), "made_us": medians[0],
            "made_least_us": min(us for us, _, _ in made), "comm_kib": medians[1],
            "comm_descriptors": medians[2], "peer_kib": (after_kib - before_kib) / (HOSTS - 1),
            "peer_descriptors": (after_descriptors - before_descriptors) / (HOSTS - 1)}

"""How long many hosts that know nothing of each other take until a communicator of all of them begins."""
import re
import subprocess
import time

from hostlib.cluster import Cluster
from hostlib.hosts import Network
from netlib.losses import OP, start_ranks, wait_for
from peerlib.programs import Failure

HOSTS = 64
# The kernel has one table of neighbours for all namespaces, and drops packets of who has no place there.
NEIGHBOURS = 2 * HOSTS * HOSTS


def check_neighbours():
    shown = subprocess.run(["ip", "ntable", "show", "name", "arp_cache"], check=True, capture_output=True,
                           text=True).stdout
    if int(re.search(r"thresh3 (\d+)", shown)[1]) < NEIGHBOURS:
        raise Failure(f"{HOSTS} hosts on one machine need a larger table of neighbours, as root: sysctl -w "
                      f"net.ipv4.neigh.default.gc_thresh3={NEIGHBOURS}")


def meet_once(cluster):
    """Seconds from the start of the first rank until the last one has joined, and until all have had their
    first op."""
    begun_s = time.monotonic()
    ranks = start_ranks(cluster, OP)
    try:
        met = wait_for(ranks, "init")
        done = wait_for(ranks, OP)
    finally:
        for rank in ranks:
            rank.end()
    if wrong := {line["text"] for _, line in done if line["result"] != "BLINK_OK"}:
        raise Failure(f"the first op failed: {min(wrong)}")
    return max(at for at, _ in met) - begun_s, max(at for at, _ in done) - begun_s


def measure(binaries, directory, times):
    """Such pairs of seconds, each of hosts and daemons that are new."""
    check_neighbours()
    directory.mkdir()
    found = []
    for number in range(times):
        network = Network(HOSTS)
        with network, Cluster(network, 1, binaries, directory / str(number)) as cluster:
            found.append(meet_once(cluster))
    return found

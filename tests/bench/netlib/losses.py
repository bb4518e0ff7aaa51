"""How long survivors wait for the news that a host is gone."""
import json
import subprocess
import threading
import time

from hostlib.cluster import RUN_LIMIT_S, Cluster
from hostlib.hosts import Network
from peerlib.programs import Failure

HOSTS, RANKS = 3, 2
LOST = 1  # the number of the host that goes, from 0
OP = "allreduce:1000:float32:sum"
STEPS = [f"times:3:{OP}", f"times:100000000:{OP}"]  # the second one does not end by itself


class Rank:
    """One process of blink-rank, and when it said what."""

    def __init__(self, arguments):
        self.lines = []
        self.child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            self.lines.append((time.monotonic(), json.loads(line)))

    def told(self, step):
        """When it said how that step ended, and how; None: it has not."""
        return next(((at, line) for at, line in self.lines if line["step"] == step), None)

    def end(self):
        self.child.kill()
        self.child.wait()
        self.reader.join()


def wait_for(ranks, step):
    """What each said of it, as soon as all have. Raises Failure with the first bad word of one about how it
    began."""
    deadline = time.monotonic() + RUN_LIMIT_S
    while not all(told := [rank.told(step) for rank in ranks]):
        begun = [line for rank in ranks if (line := rank.told("init")) and line[1]["result"] != "BLINK_OK"]
        if begun:
            raise Failure(f"a rank does not begin: {min(begun, key=lambda said: said[0])[1]['text']}")
        if time.monotonic() > deadline:
            raise Failure(f"ranks never ended their step {step}")
        time.sleep(0.001)
    return told


def new_id(cluster, daemon):
    told = subprocess.run([cluster.bin / "blink-rank", "--socket", daemon.socket, "id"], check=True,
                          capture_output=True, text=True).stdout
    return next(line["text"] for line in map(json.loads, told.splitlines()) if line["step"] == "id")


def start_ranks(cluster, *steps):
    identifier = new_id(cluster, cluster.daemons[0])
    return [Rank([cluster.bin / "blink-rank", "--socket", daemon.socket, "--id", identifier, "--ranks",
                  str(cluster.ranks), "--rank", str(rank), "--device", str(device), *steps])
            for rank, (daemon, device) in enumerate(cluster.places())]


def lose_once(cluster, lose, survivors):
    """Milliseconds from the loss until each of the survivors, rank numbers, was told."""
    ranks = start_ranks(cluster, *STEPS)
    try:
        wait_for(ranks, STEPS[0])
        lost_s = time.monotonic()
        lose()
        heard = wait_for([ranks[number] for number in survivors], STEPS[1])
    finally:
        for rank in ranks:
            rank.end()
    wrong = {line["result"] for _, line in heard} - {"BLINK_ERR_PEER_LOST"}
    if wrong:
        raise Failure(f"a survivor heard {wrong}")
    return [(at - lost_s) * 1e3 for at, _ in heard]


def kill_daemon(cluster):
    daemon = cluster.daemons[LOST]
    daemon.child.kill()
    daemon.child.wait()


def measure_killed(binaries, directory, times):
    """Milliseconds, of all survivors and all times."""
    network, delays_ms = Network(HOSTS), []
    with network, Cluster(network, RANKS, binaries, directory) as cluster:
        survivors = [rank for rank in range(cluster.ranks) if rank // RANKS != LOST]
        for _ in range(times):
            delays_ms += lose_once(cluster, lambda: kill_daemon(cluster), survivors)
            cluster.start_anew(LOST)
    return delays_ms


def measure_cut(binaries, directory, times, timeout_s):
    """The same; ranks of the host that is cut off survive, too."""
    network, delays_ms = Network(HOSTS), []
    host = network.hosts[LOST]
    with network, Cluster(network, RANKS, binaries, directory, timeout_s=timeout_s) as cluster:
        for _ in range(times):
            delays_ms += lose_once(cluster, lambda: host.plug(False), range(cluster.ranks))
            host.plug(True)
    return delays_ms

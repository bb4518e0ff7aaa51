"""How long survivors wait for the news that a host is gone."""
import json
import subprocess
import threading
import time

from hostlib.cluster import RUN_LIMIT_S, Cluster
from hostlib.hosts import Network, run
from peerlib.programs import Failure

HOSTS, RANKS = 3, 2
LOST = 1  # the number of the host that goes, from 0
OP = "allreduce:1000:float32:sum"


class Rank:
    """One process of blink-rank, and when it said what."""

    def __init__(self, arguments):
        self.lines, self.condition = [], threading.Condition()
        self.child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            heard_s = time.monotonic()
            with self.condition:
                self.lines.append((heard_s, json.loads(line)))
                self.condition.notify_all()

    def wait_for(self, step):
        """When it said how that step ended, and what the result was."""
        def told():
            return next(((at, line) for at, line in self.lines if line["step"] == step), None)

        with self.condition:
            if not self.condition.wait_for(told, RUN_LIMIT_S):
                raise Failure(f"a rank never ended its step {step}: {self.lines}")
            at, line = told()
            return at, line["result"]

    def end(self):
        self.child.kill()
        self.child.wait()
        self.reader.join()


def new_id(cluster, daemon):
    told = subprocess.run([cluster.bin / "blink-rank", "--socket", daemon.socket, "id"], check=True,
                          capture_output=True, text=True).stdout
    return next(line["text"] for line in map(json.loads, told.splitlines()) if line["step"] == "id")


def start_ranks(cluster):
    """All work without a pause once they are returned."""
    identifier = new_id(cluster, cluster.daemons[0])
    steps = [f"times:3:{OP}", f"times:100000000:{OP}"]
    ranks = [Rank([cluster.bin / "blink-rank", "--socket", daemon.socket, "--id", identifier, "--ranks",
                   str(cluster.ranks), "--rank", str(rank), "--device", str(device), *steps])
             for rank, (daemon, device) in enumerate(cluster.places())]
    for rank in ranks:
        _, result = rank.wait_for(steps[0])
        if result != "BLINK_OK":
            raise Failure(f"the ranks do not begin: {result}")
    return ranks, steps[1]


def lose_once(cluster, lose, survivors):
    """Milliseconds from the loss until each of the survivors, rank numbers, was told."""
    ranks, step = start_ranks(cluster)
    try:
        time.sleep(0.05)
        lost_s = time.monotonic()
        lose()
        heard = [ranks[number].wait_for(step) for number in survivors]
    finally:
        for rank in ranks:
            rank.end()
    wrong = {result for _, result in heard} - {"BLINK_ERR_PEER_LOST"}
    if wrong:
        raise Failure(f"a survivor heard {wrong}")
    return [(at - lost_s) * 1e3 for at, _ in heard]


def kill_daemon(cluster):
    daemon = cluster.daemons[LOST]
    daemon.child.kill()
    daemon.child.wait()


def measure_killed(binaries, directory, times):
    """Milliseconds, of all survivors and all times."""
    network = Network(HOSTS)
    cluster = Cluster(network, RANKS, binaries, directory)
    survivors = [rank for rank in range(cluster.ranks) if rank // RANKS != LOST]
    delays_ms = []
    for _ in range(times):
        delays_ms += lose_once(cluster, lambda: kill_daemon(cluster), survivors)
        cluster.start_anew(LOST)
    cluster.end()
    network.end()
    return delays_ms


def measure_cut(binaries, directory, times, timeout_s):
    network = Network(HOSTS)
    cluster = Cluster(network, RANKS, binaries, directory, timeout_s=timeout_s)
    port = network.hosts[LOST].port
    delays_ms = []
    for _ in range(times):
        delays_ms += lose_once(cluster, lambda: run("ip", "link", "set", port, "down"), range(cluster.ranks))
        run("ip", "link", "set", port, "up")
    cluster.end()
    network.end()
    return delays_ms

"""hosts.py BIN HOSTS RANKS GBIT: what scripts/demo-hosts does once blinkd is built."""
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from hostlib import bound, contestants, enter, hosts  # noqa: E402
from hostlib.cluster import Cluster  # noqa: E402
from peerlib.programs import Failure  # noqa: E402
from peerlib.rounds import WARMUP, Job  # noqa: E402

SIZES = {64 << 20: ("64 MiB", 5), 1 << 20: ("1 MiB", 50), 8: ("8 B", 200)}  # bytes: name, iterations
LARGE_BYTES = 1 << 20
FORMAT = "{:7} {:16} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9}"


def algorithms(size):
    """By what the table calls them: large payloads go by packed trees if the daemon may choose."""
    return {"ring": "ring", "packed trees": "trees"} if size >= LARGE_BYTES else {"auto": "auto"}


def print_row(cluster, size, name, time_us, planned, most):
    GBps = size / time_us * 1e-3
    bus_GBps = GBps * 2 * (cluster.ranks - 1) / cluster.ranks
    rates = [f"{GBps:.3f}", f"{bus_GBps:.3f}", planned, f"{most:.3f}", f"{100 * GBps / most:.0f} %"]
    print(FORMAT.format(SIZES[size][0], name, f"{time_us:.0f}", *(rates if size >= LARGE_BYTES else "-----")),
          flush=True)


def measure(cluster, peers, size):
    job = Job("allreduce", cluster.ranks, size, size < LARGE_BYTES)
    iterations = SIZES[size][1]
    for name, algorithm in algorithms(size).items():
        rate, most = bound.plan(cluster, algorithm)
        row = contestants.Blinkd(cluster, algorithm, check=True).measure(job, iterations, WARMUP)
        print_row(cluster, size, name, row["time_us"], f"{rate:.3f}", most)
    for peer in peers:
        if not peer.why_not:
            print_row(cluster, size, peer.name, peer.time_us(job, iterations, WARMUP), "", most)


def show(cluster):
    print("4/4 AllReduce of float32 over all ranks, which compare the sums with a reference (of 64 MiB a")
    print("    sample). GB/s are of payload, and \"bus\" as nccl-tests counts it; \"plan\" is what the")
    print("    planner expects, \"bound\" what no plan can pass")
    if shutil.which("iperf3"):
        iperf_GBps = contestants.Iperf(cluster.network).GBps(2)
        print(f"    TCP alone, both ways between two hosts (iperf3): {iperf_GBps:.3f} GB/s each of "
              f"{cluster.network.GBps:.3f}")
    peers = contestants.build_peers(cluster, ROOT / "tests/bench/peers", ROOT / "build/peers")
    for peer in peers:
        if peer.why_not:
            print(f"    {peer.name} is left out: {peer.why_not}")
    print()
    print(FORMAT.format("size", "algorithm", "time us", "GB/s", "bus", "plan", "bound", "of bound"),
          flush=True)
    for size in SIZES:
        measure(cluster, peers, size)


def main():
    binaries, host_count, ranks, gbit = sys.argv[1:]
    why_not = enter.why_not()
    if why_not:
        sys.exit(f"demo-hosts: no namespaces for this user here ({why_not}); try it as root")
    directory = enter.enter()
    try:
        network = hosts.Network(int(host_count), GBps=float(gbit) / 8)
        with network, Cluster(network, int(ranks), binaries, directory / "cluster") as cluster:
            show(cluster)
    except Failure as failure:
        sys.exit(f"demo-hosts: {failure}")


if __name__ == "__main__":
    main()

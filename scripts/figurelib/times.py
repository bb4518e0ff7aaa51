"""What depends on the size, from blinkctl simulate and explain: a DGX-2's small messages, chains and stars,
and the sizes where the choice changes. Sections as in dgx1.py.
"""
from figurelib import chart
from figurelib.blinkctl import Refused
from figurelib.text import number, size, table

PROTOCOLS = ("ll", "ll128", "simple")

# ---- DGX-2 ----

LATENCY_ALGORITHMS = {"blink": "Blink (one hop)", "ring": "ring", "double-binary-tree": "double binary tree",
                      "trees": "optimal trees", "recursive-doubling": "recursive doubling"}
PUBLISHED_LATENCY_RATIO, PUBLISHED_THROUGHPUT_RATIO = 3.32, 3.5
SIZE_NAMES = {1 << power: size(1 << power, 1024) for power in range(10, 31, 4)}


def nccl_over_blink(us, payload):
    """The faster of ring and double binary tree, as a multiple of Blink."""
    return min(us["ring", payload], us["double-binary-tree", payload]) / us["blink", payload]


def dgx2(blinkctl, save):
    cases = [(a, p) for a in LATENCY_ALGORITHMS for p in PROTOCOLS]
    runs = blinkctl.map(lambda case: blinkctl.simulate("dgx2", "allreduce", "-a", case[0], "--protocol",
                                                       case[1]), cases)
    times_us = {(a, point["bytes"], p): point["time_us"] for (a, p), points in zip(cases, runs)
                for point in points}
    sizes = sorted({payload for _, payload, _ in times_us})
    keys = [(a, payload) for a in LATENCY_ALGORITHMS for payload in sizes]
    protocol = {key: min(PROTOCOLS, key=lambda p, key=key: times_us[(*key, p)]) for key in keys}
    best = {key: times_us[(*key, protocol[key])] for key in keys}
    simple = {key: times_us[(*key, "simple")] for key in keys}
    rows = [[size(payload, 1024), *(f"{number(best[a, payload], 1)} {protocol[a, payload]}"
                                    for a in LATENCY_ALGORITHMS),
             number(nccl_over_blink(best, payload)), number(nccl_over_blink(simple, payload))]
            for payload in sizes]
    title = "AllReduce on a DGX-2, 16 GPUs, best protocol of each"
    picture = save("dgx2-latency", title, chart.lines(
        title, "payload", "time, µs",
        {name: [(payload, best[a, payload]) for payload in sizes] for a, name in LATENCY_ALGORITHMS.items()},
        SIZE_NAMES, log_y=True))
    top = max(sizes, key=lambda payload: nccl_over_blink(best, payload))
    top_simple = max(sizes, key=lambda payload: nccl_over_blink(simple, payload))
    behind = [size(payload, 1024) for payload in sizes if nccl_over_blink(best, payload) < 1]
    behind_text = "Blink is nowhere behind."
    if behind:
        behind_text = f"Blink's one hop is behind NCCL's best at {', '.join(behind)}."
    ring = blinkctl.plan("dgx2", "allreduce", "ring")
    return f"""`blinkctl simulate --topology dgx2 --algorithm A --protocol P`, µs and the protocol that is
fastest:

{table(["payload", *LATENCY_ALGORITHMS.values(), "NCCL ÷ Blink", "all Simple"], rows)}
{picture}
*NCCL* is the faster of ring and double binary tree; the last column has all of them use Simple. The largest
ratio is {number(nccl_over_blink(best, top))} at {size(top, 1024)}, with Simple alone
{number(nccl_over_blink(simple, top_simple))} at {size(top_simple, 1024)}; Blink measured up to
{PUBLISHED_LATENCY_RATIO}× against NCCL 2. The ratio is one of hops here, with the same constants for launch
and hop for all; what the measured kernels of either side cost besides is not in the model. NCCL's own cost
model, with its own constants, is what `blinkctl explain` prints beside ours; it is not compared here.

Large payloads: a ring's rate on a DGX-2 is {number(ring["rate_GBps"], 1)} GB/s and the proven bound
{number(ring["bound_GBps"], 1)} GB/s, so the {PUBLISHED_THROUGHPUT_RATIO}× in throughput that Blink measured
cannot come from the links. {behind_text} The optimal trees are of one hop too, but each is in a channel of
its own.
"""


# ---- chains and stars ----

LINK_GBps = 25.0
PAYLOADS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000, 300_000_000, 1_000_000_000)
TABLE_PAYLOADS = (10_000_000, 100_000_000, 1_000_000_000)
PAYLOAD_NAMES = {payload: size(payload) for payload in (PAYLOADS[0], *TABLE_PAYLOADS)}


def v100s(name, count, pairs):
    """GPUs with one 25 GB/s NVLink, both ways, between each of the pairs."""
    return {"schema": "blink-topology/1", "name": name,
            "nodes": [{"id": f"gpu{i}", "kind": "gpu", "host": "n0"} for i in range(count)],
            "links": [{"from": f"gpu{one}", "to": f"gpu{other}", "GBps": LINK_GBps, "kind": "nvlink"}
                      for one, other in pairs]}


def chain(count):
    return v100s(f"chain{count}", count, [(i, i + 1) for i in range(count - 1)])


def star(fan):
    """Ranks 0 to fan - 1 on one side of the centre (rank fan), one successor (rank fan + 1) on the other."""
    return v100s(f"star{fan}", fan + 2, [(i, fan) for i in range(fan)] + [(fan, fan + 1)])


#: name: (collective, its root by how many GPUs are in the chain or how wide the star is)
DEPTH_TESTS = {
    "chain forward": ("broadcast", lambda count: 0),
    "chain reduce+forward": ("reduce", lambda count: count - 1),
    "chain reduce+broadcast": ("allreduce", lambda count: None),
}
BREADTH_TESTS = {
    "fan-in forward": ("gather", lambda fan: fan + 1),
    "fan-in reduce+forward": ("reduce", lambda fan: fan + 1),
    "fan-out forward": ("broadcast", lambda fan: fan + 1),
}


def throughput(blinkctl, topology, ranks, collective, root, algorithm):
    """[(bytes, GB/s)] through one link. A gather's root keeps its own block, which crosses none."""
    crosses = (ranks - 1) / ranks if collective == "gather" else 1.0
    rooted = [] if root is None else ["--root", root]
    points = []
    for payload in PAYLOADS:
        point, = blinkctl.simulate(topology, collective, "-a", algorithm, "--protocol", "simple", *rooted,
                                   "--bytes", round(payload / crosses))
        points.append((payload, point["algbw_GBps"] * crosses))
    return points


def micro_benchmark(blinkctl, save, name, test, make, numbers, unit):
    """A picture and a table's rows of one test over topologies of several sizes; a sentence where blinkctl
    refuses."""
    collective, root = test
    algorithm = "auto" if collective == "gather" else "trees"

    def measure(count):
        topology = make(count)
        path = blinkctl.write_topology(topology)
        try:
            return throughput(blinkctl, path, len(topology["nodes"]), collective, root(count), algorithm)
        except Refused as refusal:
            return str(refusal)

    curves = blinkctl.map(measure, numbers)
    if any(isinstance(curve, str) for curve in curves):
        return f"No {name}: `blinkctl` says \"{curves[0]}\".\n", []
    title = f"{name.capitalize()}, 25 GB/s links"
    picture = save(name.replace(" ", "-").replace("+", "-"), title, chart.lines(
        title, "payload", "GB/s through a link",
        {f"{count} {unit}": curve for count, curve in zip(numbers, curves)},
        PAYLOAD_NAMES))
    rows = [[name, f"{count} {unit}", *(number(dict(curve)[payload], 2) for payload in TABLE_PAYLOADS)]
            for count, curve in zip(numbers, curves)]
    return picture, rows


def depth_and_breadth(blinkctl, save):
    pictures, rows = [], []
    for tests, make, numbers, unit in ((DEPTH_TESTS, chain, range(2, 9), "GPUs"),
                                       (BREADTH_TESTS, star, range(1, 4), "wide")):
        for name, test in tests.items():
            picture, more = micro_benchmark(blinkctl, save, name, test, make, numbers, unit)
            pictures.append(picture)
            rows += more
    gallery = "\n".join(pictures)
    return f"""`blinkctl simulate --protocol simple` on topologies made for this: chains of 2 to 8 V100 with
one NVLink of 25 GB/s each way between neighbours, and stars of 1 to 3 GPUs around a centre with one
successor. Forward is a broadcast from one end, reduce+forward a reduce to the other, reduce+broadcast an
AllReduce; fan-in forward is a gather, and its centre has a block of its own too. GB/s are those through one
link, one way: a chain's reduce+broadcast moves as much the other way at the same time.

{table(["test", "width", *(size(payload) for payload in TABLE_PAYLOADS)], rows, left=2)}
{gallery}
The paper finds forwarding near the links' maximum from 50 MB on at every depth and width; so does the
simulation, whose loss is the time to fill the chain. The paper's fan-in reduce+forward is 1 to 2 GB/s below
fan-in forward because of kernel launches on the centre; here a reduction is a step of a kernel that is
running anyway, so the difference is only what the device reads.
"""


# ---- crossovers ----

CROSSOVER_TOPOLOGIES = ("dgx1v", "dgx2", "dgx_h100", "2x_dgx1v_100g")
CROSSOVER_COLLECTIVES = ("allreduce", "broadcast", "allgather")


def crossovers(blinkctl, _):
    cases = [(t, c) for t in CROSSOVER_TOPOLOGIES for c in CROSSOVER_COLLECTIVES]
    answers = blinkctl.map(lambda case: blinkctl.explain(*case), cases)
    rows = [[topology, collective, size(c["bytes"], 1024), c["algorithm"], c["protocol"],
             number(c["predicted_us"], 1)]
            for (topology, collective), answer in zip(cases, answers) for c in answer["crossovers"]]
    return f"""`blinkctl explain --topology T --collective C --json`: the fastest algorithm and protocol from
each size on, 1 KiB to 1 GiB, all GPUs.

{table(["topology", "collective", "from", "algorithm", "protocol", "predicted µs"], rows, left=2)}"""

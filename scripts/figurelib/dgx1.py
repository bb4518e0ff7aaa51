"""What the papers measured on the DGX-1: all connected sets of GPUs, the poster's AllReduce, and NVLink and
PCIe together. Each section is (blinkctl, save) -> Markdown; save(name, svg) keeps a picture and gives its
Markdown.
"""
from figurelib import chart
from figurelib.subsets import connected_classes, fallback_GBps, geometric_mean, weights
from figurelib.text import number, size, table

SIZES = range(3, 9)
COLLECTIVES = ("broadcast", "allreduce", "allgather")
PICTURED = {"broadcast": "Broadcast", "allreduce": "AllReduce"}
ALGORITHMS = ("ring", "blink", "trees")
#: What a ring gets where NVLink closes none. The middle of what Blink says of PCIe, and its least.
FALLBACKS_GBps = (10.0, 8.0)

MACHINES = {
    # name: (title, classes expected, of them without a ring)
    "dgx1p": ("DGX-1P", 14, 5),
    "dgx1v": ("DGX-1V", 46, 21),
}

#: The optimum against rings at 10 (and 8) GB/s of PCIe by exact arithmetic: geometric mean and maximum.
ARITHMETIC = {
    ("dgx1p", "broadcast", 10.0): (1.40, 2.00), ("dgx1p", "broadcast", 8.0): (1.51, 2.50),
    ("dgx1v", "broadcast", 10.0): (1.78, 5.00), ("dgx1v", "broadcast", 8.0): (1.98, 6.25),
    ("dgx1p", "allgather", 10.0): (1.40, 2.00), ("dgx1v", "allgather", 10.0): (1.88, 5.00),
    ("dgx1p", "allreduce", 10.0): (1.71, 3.20), ("dgx1v", "allreduce", 10.0): (2.54, 8.00),
}
#: On the DGX-1V's sets that have rings: geometric mean, and the maximum where it is given.
ARITHMETIC_WITH_RINGS = {"broadcast": (1.14, None), "allreduce": (1.54, 2.08)}

#: Blink's measurements against NCCL 2: mean and maximum.
PUBLISHED = {("dgx1p", "broadcast"): (1.6, 3.0), ("dgx1v", "broadcast"): (2.0, 6.0),
             ("dgx1v", "allreduce"): (2.0, 8.0)}


class Set:
    """One class of GPU sets: its rates by (collective, algorithm), and its bounds by collective."""

    def __init__(self, blinkctl, machine, members):
        self.members = members
        self.name = "".join(map(str, members))
        self.rates, self.bounds = {}, {}
        for collective in COLLECTIVES:
            for algorithm in ALGORITHMS:
                plan = blinkctl.plan(machine, collective, algorithm, members)
                self.rates[collective, algorithm] = plan and plan["rate_GBps"]
                if algorithm == "trees":
                    self.bounds[collective] = plan["bound_GBps"]

    def has_ring(self):
        return self.rates["broadcast", "ring"] is not None

    def ring_GBps(self, collective, pcie_GBps):
        ring = self.rates[collective, "ring"]
        return fallback_GBps(collective, len(self.members), pcie_GBps) if ring is None else ring

    def speedup(self, collective, algorithm, pcie_GBps):
        return self.rates[collective, algorithm] / self.ring_GBps(collective, pcie_GBps)


def mean_and_maximum(values):
    values = list(values)
    return (geometric_mean(values), max(values)) if values else (None, None)


def pair(values, digits=2):
    return "–" if values is None else ", ".join(number(value, digits) for value in values
                                                if value is not None)


def summary(machines):
    rows = []
    for machine, sets in machines.items():
        for collective in COLLECTIVES:
            for pcie_GBps in FALLBACKS_GBps:
                blink, trees = (mean_and_maximum(s.speedup(collective, algorithm, pcie_GBps) for s in sets)
                                for algorithm in ("blink", "trees"))
                ours = pair(trees)
                expected = pair(ARITHMETIC.get((machine, collective, pcie_GBps)))
                rows.append([MACHINES[machine][0], collective, number(pcie_GBps, 0), pair(blink), ours,
                             expected,
                             pair(PUBLISHED.get((machine, collective)), 1)])
    return table(["machine", "collective", "PCIe GB/s", "Blink ÷ ring", "optimal ÷ ring", "exact arithmetic",
                  "Blink's paper ÷ NCCL 2"], rows, left=2)


def against_bound(machines):
    rows = []
    for machine, sets in machines.items():
        for collective in COLLECTIVES:
            ratios = {a: [s.rates[collective, a] / s.bounds[collective] for s in sets]
                      for a in ("blink", "trees")}
            with_rings = [s for s in sets if s.has_ring()]
            better = sum(trees > 1.005 * blink for trees, blink in zip(ratios["trees"], ratios["blink"]))
            known = ARITHMETIC_WITH_RINGS.get(collective) if machine == "dgx1v" else None
            rows.append([MACHINES[machine][0], collective,
                         *(number(f(ratios[a]), 4) for a in ("blink", "trees")
                           for f in (geometric_mean, min)),
                         f"{better} of {len(sets)}",
                         pair(mean_and_maximum(s.speedup(collective, "trees", 0) for s in with_rings)),
                         pair(known)])
    return table(["machine", "collective", "Blink ÷ bound, mean", "least", "optimal ÷ bound, mean", "least",
                  "optimal > Blink", "optimal ÷ ring where rings are", "exact arithmetic"], rows, left=2)


def by_size(machines):
    rows = []
    for machine, sets in machines.items():
        for count in SIZES:
            here = [s for s in sets if len(s.members) == count]
            rows.append([MACHINES[machine][0], count, len(here), sum(not s.has_ring() for s in here),
                         *(pair(mean_and_maximum(s.speedup(collective, algorithm, FALLBACKS_GBps[0])
                                                 for s in here))
                           for collective in COLLECTIVES for algorithm in ("blink", "trees"))])
    headers = [f"{collective}: {name} ÷ ring" for collective in COLLECTIVES for name in ("Blink", "optimal")]
    return table(["machine", "GPUs", "sets", "no ring", *headers], rows)


def every_set(machine, sets):
    """All the rates of one machine: the table at the end of the report."""
    rows = []
    for s in sets:
        rows.append([s.name, *(number(value, 1) for collective in COLLECTIVES for value in
                               (*(s.rates[collective, a] for a in ALGORITHMS), s.bounds[collective]))])
    return f"### {MACHINES[machine][0]}\n\n" + table(
        ["GPUs", *(f"{collective}: ring" if name == "ring" else name for collective in COLLECTIVES
                   for name in ("ring", "Blink", "optimal", "bound"))], rows)


def implied(machines):
    """What PCIe a ring must have had for Blink's published maximum, from the set with the greatest speed-up,
    and for its mean: without rings the speed-up goes as 1 / PCIe, so the mean goes as that to the power of
    those sets' share."""
    rows = []
    for (machine, collective), (mean, maximum) in PUBLISHED.items():
        sets = machines[machine]
        without = [s for s in sets if not s.has_ring()]
        worst = max(without, key=lambda s: s.speedup(collective, "blink", 1.0))
        at_one = geometric_mean([s.speedup(collective, "blink", 1.0) for s in sets])
        rows.append([MACHINES[machine][0], collective, f"{maximum:.0f}×", worst.name,
                     number(worst.speedup(collective, "blink", 1.0) / maximum, 1), f"{mean:g}×",
                     number((at_one / mean) ** (len(sets) / len(without)), 1)])
    return table(["machine", "collective", "maximum", "GPUs", "PCIe GB/s", "mean", "PCIe GB/s"], rows, left=2)


def figures(machines, save):
    lines = []
    for machine, sets in machines.items():
        for collective, name in PICTURED.items():
            series = {"ring (PCIe 10 GB/s where none)": [s.ring_GBps(collective, FALLBACKS_GBps[0])
                                                         for s in sets],
                      "Blink": [s.rates[collective, "blink"] for s in sets],
                      "optimal trees": [s.rates[collective, "trees"] for s in sets]}
            title = f"{name} on every connected set of {MACHINES[machine][0]} GPUs"
            lines.append(save(f"{machine}-{collective}", title, chart.bars(
                title, "GPUs (one set of each isomorphism class)", "payload GB/s", [s.name for s in sets],
                series,
                mark=("proven bound", [s.bounds[collective] for s in sets]), upright_labels=True)))
    return "\n".join(lines)


def measure_sets(blinkctl):
    machines = {}
    for machine, (title, count, without) in MACHINES.items():
        classes = connected_classes(weights(blinkctl.topology(machine)), SIZES)
        sets = blinkctl.map(lambda members, machine=machine: Set(blinkctl, machine, members), classes)
        found = len(sets), sum(not s.has_ring() for s in sets)
        if found != (count, without):
            raise RuntimeError(f"{title}: {found} sets and sets without a ring, not {(count, without)}")
        machines[machine] = sets
    return machines


def all_sets(blinkctl, save):
    """Section 1, and the tables for the end of the report."""
    machines = measure_sets(blinkctl)
    counts = "; ".join(f"{MACHINES[m][0]} {len(sets)}, of which {sum(not s.has_ring() for s in sets)} close "
                       f"no ring"
                       for m, sets in machines.items())
    text = f"""All connected sets of 3 to 8 GPUs, one of each isomorphism class: {counts}. Both counts are the
paper's and were checked by this run. *Ring* is `--algorithm ring`, *Blink* is `--algorithm blink`, *optimal*
is `--algorithm trees`; the root is the set's first GPU. Where NVLink closes no ring NCCL falls back to PCIe.
The built-ins `dgx1p` and `dgx1v` have no PCIe and `--algorithm ring` refuses there, so the ring is then taken
to have a bus bandwidth of 10 GB/s, and 8 GB/s for comparison. That is a constant, not a plan. Blink and
optimal use NVLink alone here.

Speed-ups over the ring, geometric mean and maximum:

{summary(machines)}
*Exact arithmetic* is the optimum computed independently of this program. *Blink's paper* is measured against
NCCL 2.

Against the proven bound, and against rings alone:

{against_bound(machines)}
By number of GPUs, PCIe at 10 GB/s, geometric mean and maximum:

{by_size(machines)}
{figures(machines, save)}
What a ring over PCIe would have to carry for Blink's published maxima and means to be those of Blink's plans
here:

{implied(machines)}
Where we differ from Blink's paper, and why:

- Broadcast: maxima and means ask for about the same PCIe, somewhat slower than our 10 GB/s (the paper gives 8
  to 12). With that our speed-ups are the paper's.
- AllReduce on the DGX-1V: the same maximum, but our mean is higher, and it would take faster PCIe than the
  paper gives to bring it down to 2×. So the measured trees stayed further below their rate than the rings
  did. Ours is the load model's rate of large payloads, with reductions that take no time; the paper's is
  measured, kernels and all.
- Full boxes gain nothing: their rings use every link. Where *optimal* is a little below a ring it gave up
  less than 1 % of the rate for fewer trees.
"""
    tables = "\n".join(every_set(machine, sets) for machine, sets in machines.items())
    return text, "Payload GB/s. A dash: no ring over NVLink.\n\n" + tables


# ---- the poster ----

#: The first k GPUs, and the one set of five that has a ring.
POSTER_SETS = [tuple(range(k)) for k in range(2, 9)] + [(0, 1, 2, 4, 5)]


def poster(blinkctl, save):
    def measure(members):
        rates = {a: blinkctl.rate_GBps("dgx1p", "allreduce", a, members) for a in ("ring", "blink")}
        trees = blinkctl.plan("dgx1p", "allreduce", "trees", members)
        rates |= {"trees": trees["rate_GBps"], "bound": trees["bound_GBps"]}
        has_ring = rates["ring"] is not None
        if not has_ring:
            rates["ring"] = fallback_GBps("allreduce", len(members), FALLBACKS_GBps[0])
        return rates, has_ring

    measured = dict(zip(POSTER_SETS, blinkctl.map(measure, POSTER_SETS)))
    rows = [[len(members), "".join(map(str, members)),
             number(rates["ring"], 1) + ("" if has_ring else " (PCIe)"),
             *(number(rates[name], 1) for name in ("blink", "trees", "bound")),
             *(number(rates[name] / rates["ring"]) for name in ("blink", "bound")),
             "about 2" if 4 <= len(members) <= 7 else "–"]
            for members, (rates, has_ring) in sorted(measured.items(),
                                                     key=lambda item: (len(item[0]), item[0]))]
    title = "AllReduce on a DGX-1P, 2 to 8 GPUs (the poster's figure 3)"
    series = {name: [measured[members][0][a] for members in POSTER_SETS[:7]]
              for a, name in zip(ALGORITHMS, ("ring", "Blink", "optimal trees"))}
    picture = save("poster-figure-3", title,
                   chart.bars(title, "GPUs (the first so many)", "payload GB/s", range(2, 9), series))
    between = [measured[members][0]["blink"] / measured[members][0]["ring"] for members in POSTER_SETS
               if 4 <= len(members) <= 7 and measured[members][1]]
    return f"""`blinkctl plan --topology dgx1p --collective allreduce`, large payloads. Blink takes the
poster's groups where they are faster than its packed trees.

{table(["GPUs", "set", "ring GB/s", "Blink GB/s", "optimal GB/s", "bound GB/s", "Blink ÷ ring",
        "bound ÷ ring", "poster"], rows, left=2)}
{picture}
Over the sets of 4 to 7 GPUs that have a ring the factor is {number(min(between))} to {number(max(between))};
the poster says about 2. By the links no scheme can do better than *bound ÷ ring*, so a measured 2 means that
NCCL 2 stayed below what its one bi-directional ring could carry. Five GPUs taken in order (01234) close no
ring at all, since GPU 4 has one link to them; then the factor is that against PCIe at 10 GB/s. The poster
does not say which sets it took.
"""


# ---- NVLink and PCIe together ----

HYBRID_PAYLOADS = (100_000_000, 500_000_000, 1_000_000_000)
#: What Blink measured that hybrid transfers add, GB/s; not given for 5 and 6 GPUs.
HYBRID_PUBLISHED = {3: "about 5", 4: "about 5", 7: "about 2", 8: "about 2"}


def switching_us(payload, nvlink_GBps, free_GBps, paid_GBps):
    """What switching costs by equation (8), from the rates with NVLink alone, with both for free, and with
    both paid for: NVLink's part takes payload / paid, and PCIe has that long for the rest and for
    switching."""
    over_pcie = payload * (1 - nvlink_GBps / paid_GBps)
    return (payload / paid_GBps - over_pcie / (free_GBps - nvlink_GBps)) / 1e3


def hybrid(blinkctl, save):
    def measure(count):
        members = range(count)
        nvlink, free = (blinkctl.rate_GBps(t, "broadcast", "blink", members)
                        for t in ("dgx1v", "dgx1v_hybrid"))
        paid = [blinkctl.rate_GBps("dgx1v_hybrid", "broadcast", "blink", members, b) for b in HYBRID_PAYLOADS]
        trees = blinkctl.plan("dgx1v_hybrid", "broadcast", "trees", members)
        return nvlink, free, paid, trees["rate_GBps"], trees["bound_GBps"]

    counts = list(SIZES)
    measured = blinkctl.map(measure, counts)
    rows = [[count, number(nvlink, 1), *(f"+{number(p - nvlink, 1)}" for p in paid),
             f"+{number(free - nvlink, 1)}",
             f"+{number(trees - nvlink, 1)}", f"+{number(bound - nvlink, 1)}",
             HYBRID_PUBLISHED.get(count, "–")]
            for count, (nvlink, free, paid, trees, bound) in zip(counts, measured)]
    nvlink, free, paid, *_ = measured[0]
    per_gpu_us = switching_us(HYBRID_PAYLOADS[-1], nvlink, free, paid[-1]) / counts[0]
    names = [f"Blink, {size(payload)}" for payload in HYBRID_PAYLOADS]
    series = {name: [paid[i] - nvlink for nvlink, _, paid, _, _ in measured] for i, name in enumerate(names)}
    series["Blink, no switching cost"] = [free - nvlink for nvlink, free, *_ in measured]
    series["optimal trees"] = [trees - nvlink for nvlink, _, _, trees, _ in measured]
    title = "What PCIe adds to a broadcast over NVLink, DGX-1V"
    picture = save("hybrid-gain", title, chart.bars(title, "GPUs (the first so many)", "gain, GB/s", counts,
                                                    series))
    return f"""Broadcast from GPU 0 to the first 3 to 8 GPUs. NVLink alone is `--topology dgx1v --algorithm
blink`; the gains are of `--topology dgx1v_hybrid --algorithm blink --bytes N`, where equation (8) splits the
payload and charges {number(per_gpu_us, 0)} µs per GPU for switching peer access off and on; then without that
charge (no `--bytes`); then of `--algorithm trees`, which drives both at once and needs no switching; then the
most that is possible.

{table(["GPUs", "NVLink GB/s", *names, "no switching", "optimal", "bound", "published"], rows)}
{picture}
The gain falls with the number of GPUs as the paper's does, since switching costs more, and with the share of
NVLink. The paper gives neither payload nor switching time. The time per GPU was chosen so that its gains come
out between 500 MB and 1 GB; so equation (8) explains them here, it does not predict them. On 3 GPUs ours is
more than the paper's 5 GB/s: NVLink's part takes long there, and a cost in proportion to the GPUs is then
small. The equation's second numerator as printed has no consistent unit; the split used here is from equal
finishing times.
"""

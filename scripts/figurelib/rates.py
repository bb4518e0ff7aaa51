"""What large payloads get on every built-in topology: against the ideal bus bandwidth, and against the proven
bound with how many trees. Sections as in dgx1.py.
"""
from figurelib.subsets import BUSBW_FACTOR, ideal_busbw_GBps, ideal_terms, plan_depth
from figurelib.text import number, table

COLLECTIVES = tuple(BUSBW_FACTOR)


def plans(blinkctl):
    """{(topology, collective): plan} of all built-ins with all their GPUs."""
    cases = [(t, c) for t in blinkctl.built_ins() for c in COLLECTIVES]
    return dict(zip(cases, blinkctl.map(lambda case: blinkctl.plan(*case, "trees"), cases)))


def busbw_GBps(plan):
    return plan["rate_GBps"] * BUSBW_FACTOR[plan["collective"]](len(plan["ranks"]))


# ---- the ideal ----

HOSTS, GPUS_PER_HOST, GPU_GBps = 2, 8, 450.0
#  The method's own examples: one such host; two of them, 100 GB/s each; its term for the GPUs' links, which
# is the
#: lesser where hosts have, say, ten times that.
PUBLISHED_IDEAL = {100.0: 187.5, 1000.0: 482.1}
PUBLISHED_ONE_HOST = 450.0


def example(host_GBps):
    """The method's example as a topology: hosts of eight GPUs behind an NVSwitch, each GPU with a NIC of its
    own."""
    nodes, links = [{"id": "net", "kind": "switch"}], []
    for host in range(HOSTS):
        nodes.append({"id": f"nvsw{host}", "kind": "switch", "host": f"n{host}"})
        for i in range(host * GPUS_PER_HOST, (host + 1) * GPUS_PER_HOST):
            nodes += [{"id": f"{kind}{i}", "kind": kind, "host": f"n{host}"} for kind in ("gpu", "nic")]
            nic_GBps = host_GBps / GPUS_PER_HOST
            links += [{"from": f"gpu{i}", "to": f"nvsw{host}", "GBps": GPU_GBps, "kind": "nvswitch"},
                      {"from": f"gpu{i}", "to": f"nic{i}", "GBps": nic_GBps, "kind": "pcie"},
                      {"from": f"nic{i}", "to": "net", "GBps": nic_GBps, "kind": "net", "latency_us": 5}]
    return {"schema": "blink-topology/1", "name": f"ideal_{host_GBps:.0f}", "nodes": nodes, "links": links}


def example_row(blinkctl, name, published, topology, path):
    plan = blinkctl.plan(path, "allreduce", "trees")
    best = ideal_busbw_GBps(*ideal_terms(topology))
    return [name, number(best, 1), number(published, 1), number(busbw_GBps(plan), 1)]


def example_rows(blinkctl):
    one = blinkctl.topology("dgx_h100")
    rows = [example_row(blinkctl, "one host: `dgx_h100`", PUBLISHED_ONE_HOST, one, "dgx_h100")]
    for host_GBps, published in PUBLISHED_IDEAL.items():
        topology = example(host_GBps)
        rows.append(example_row(blinkctl, f"two hosts, {host_GBps:.0f} GB/s each", published, topology,
                                blinkctl.write_topology(topology)))
    return rows


def ideal(blinkctl, _):
    planned = plans(blinkctl)
    rows = []
    for topology in blinkctl.built_ins():
        gpu_GBps, host_GBps, gpu_count, host_count = ideal_terms(blinkctl.topology(topology))
        best = ideal_busbw_GBps(gpu_GBps, host_GBps, gpu_count, host_count)
        rows.append([topology, number(gpu_GBps, 1), number(host_GBps if host_count > 1 else None, 1),
                     number(best, 1),
                     *(f"{100 * busbw_GBps(planned[topology, c]) / best:.1f} %" for c in COLLECTIVES)])
    return f"""The ideal bus bandwidth (B per GPU, I per host, N GPUs, Q hosts), computed here by its formula
from the topologies, and the bus bandwidth of our AllReduce plans. The two hosts are topologies made for this:
eight GPUs each behind an NVSwitch at B = 450 GB/s.

{table(["example", "ideal GB/s", "published", "planned GB/s"], example_rows(blinkctl))}
A plan can be above the ideal: the method has data cross to each other host no oftener than it must, and a
network that has room to spare can carry more of it.

Bus bandwidth of our plans (`--algorithm trees`, large payloads) as a share of the ideal, all GPUs:

{table(["topology", "B", "I", "ideal GB/s", *COLLECTIVES], rows)}
Broadcast and reduce between hosts are far below because the ideal has every host send at once, and in a
broadcast only the root's host needs to. How far their plans are from the proven bound is in the next section.
"""


# ---- trees ----

TIMINGS = 3

def tree_counts(blinkctl, _):
    planned = plans(blinkctl)
    # Timed again, one at a time.
    plan_ms = {case: min(blinkctl.plan(*case, "trees")["plan_ms"] for _ in range(TIMINGS))
               for case in planned}
    rows = [[*case, number(plan["rate_GBps"], 3), number(plan["bound_GBps"], 3),
             number(plan["rate_GBps"] / plan["bound_GBps"], 4), len(plan["trees"]), plan_depth(plan),
             number(plan_ms[case], 1)]
            for case, plan in planned.items()]
    blink = blinkctl.plan("dgx1v", "broadcast", "blink")
    ours = planned["dgx1v", "broadcast"]
    worst = min(plan["rate_GBps"] / plan["bound_GBps"] for plan in planned.values())
    return f"""`blinkctl plan --algorithm trees` on every built-in with all its GPUs. GB/s of payload; a
reduce and a broadcast tree count as two; depth is the deepest reduce and the deepest broadcast tree added; ms
to plan and prove are the least of {TIMINGS} runs on this machine.

{table(["topology", "collective", "rate", "bound", "ratio", "trees", "depth", "ms"], rows, left=2)}
The least ratio is {number(worst, 4)}; the longest planning took {number(max(plan_ms.values()), 1)} ms. Blink
needs 6 trees for a DGX-1V's broadcast where its packing first gave 181; `--algorithm blink` here ends with
{len(blink["trees"])} ({number(blink["rate_GBps"], 1)} GB/s) and `--algorithm trees` with {len(ours["trees"])}
({number(ours["rate_GBps"], 1)} GB/s).
"""

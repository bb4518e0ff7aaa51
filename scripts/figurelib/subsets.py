"""Which sets of GPUs there are, up to isomorphism, and the arithmetic of rates and ideals. Pure: topologies
as blink-topology/1 in, numbers out.
"""
import itertools
import math

#: nccl-tests' bus bandwidth as a multiple of the payload's bandwidth, for n ranks.
BUSBW_FACTOR = {
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "allgather": lambda n: (n - 1) / n,
    "reducescatter": lambda n: (n - 1) / n,
    "allreduce": lambda n: 2.0 * (n - 1) / n,
}


def gpus(topology):
    return [node["id"] for node in topology["nodes"] if node["kind"] == "gpu"]


def weights(topology):
    """Matrix of GB/s between GPUs by direct links, by their order in the file."""
    index = {name: i for i, name in enumerate(gpus(topology))}
    matrix = [[0.0] * len(index) for _ in index]
    for link in topology["links"]:
        if link["from"] in index and link["to"] in index:
            capacity = link["GBps"] * link.get("count", 1)
            one, other = index[link["from"]], index[link["to"]]
            matrix[one][other] += capacity
            if link.get("duplex", True):
                matrix[other][one] += capacity
    return matrix


def connected(matrix, members):
    reached, frontier = {members[0]}, [members[0]]
    while frontier:
        here = frontier.pop()
        for other in members:
            if other not in reached and matrix[here][other] > 0:
                reached.add(other)
                frontier.append(other)
    return len(reached) == len(members)


def canonical(matrix, members):
    """The same for two sets exactly if their links are isomorphic: the greatest matrix over all orders of the
    members. Orders are built member by member, and only those whose matrix so far is the greatest are
    kept."""
    orders, key = [()], []
    for _ in members:
        rows = {}
        for order in orders:
            for new in members:
                if new not in order:
                    rows.setdefault(tuple(matrix[new][old] for old in order), []).append((*order, new))
        greatest = max(rows)
        key.append(greatest)
        orders = rows[greatest]
    return tuple(key)


def connected_classes(matrix, sizes):
    """One connected set of each isomorphism class, the first in order, smallest sets first."""
    found = {}
    for size in sizes:
        for members in itertools.combinations(range(len(matrix)), size):
            if connected(matrix, members):
                found.setdefault(canonical(matrix, members), members)
    return list(found.values())


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def fallback_GBps(collective, rank_count, pcie_GBps):
    """The payload's rate on a ring whose slowest hop carries pcie_GBps."""
    return pcie_GBps / BUSBW_FACTOR[collective](rank_count)


def ideal_busbw_GBps(gpu_GBps, host_GBps, rank_count, host_count):
    """The ideal-bandwidth method: B for one host, else min(I(N-1)Q / (N(Q-1)), B(N-1) / (N-Q))."""
    if host_count == 1:
        return gpu_GBps
    n, q = rank_count, host_count
    between = host_GBps * (n - 1) * q / (n * (q - 1))
    return min(between, gpu_GBps * (n - 1) / (n - q)) if n > q else between


def ideal_terms(topology):
    """(B, I, N, Q): what the least GPU sends to others of its host, what the least host sends out, GPUs,
    hosts with GPUs. All GPUs of the file take part; I is 0 for one host."""
    host = {node["id"]: node.get("host") for node in topology["nodes"]}
    names = gpus(topology)
    hosts = sorted({host[name] for name in names})
    out = {name: [] for name in host}
    for link in topology["links"]:
        capacity = link["GBps"] * link.get("count", 1)
        out[link["from"]].append((link["to"], capacity))
        if link.get("duplex", True):
            out[link["to"]].append((link["from"], capacity))

    def leads_to_other(gpu, node):
        """Whether relays of this GPU's host lead from node to another GPU."""
        seen, frontier = set(), [node]
        while frontier:
            here = frontier.pop()
            if here == gpu or here in seen or (len(hosts) > 1 and host[here] != host[gpu]):
                continue
            if here in names:
                return True
            seen.add(here)
            frontier += [there for there, _ in out[here]]
        return False

    gpu_GBps = min(sum(c for node, c in out[gpu] if leads_to_other(gpu, node)) for gpu in names)
    leaving = {name: sum(c for node in host if host[node] == name for there, c in out[node]
                         if host[there] != name)
               for name in hosts}
    return gpu_GBps, min(leaving.values()) if len(hosts) > 1 else 0.0, len(names), len(hosts)


def tree_depth(tree):
    """Edges from the root to the farthest rank of a tree of blink-plan/1, or of a broadcast's mirror
    image."""
    parent = {}
    for edge in tree["edges"]:
        sender, receiver = edge["path"][0], edge["path"][-1]
        if tree["phase"] == "reduce":
            parent[sender] = receiver
        else:
            parent[receiver] = sender

    def depth(node):
        return 0 if node == tree["root"] else 1 + depth(parent[node])

    return max((depth(node) for node in parent), default=0)


def plan_depth(plan):
    """Edges that a byte crosses at most: the deepest reduce tree and the deepest broadcast tree added."""
    deepest = {}
    for tree in plan["trees"]:
        deepest[tree["phase"]] = max(deepest.get(tree["phase"], 0), tree_depth(tree))
    return sum(deepest.values())

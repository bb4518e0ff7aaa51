#!/usr/bin/env python3
"""clusters.py BLINKCTL DIR: write clusters as topologies into DIR, for bench_choice.

Each is one of those that blinkctl knows (`4xdgx1v`) with another network: rails that nothing joins, leaves
whose spine carries less than their hosts, a switch that is limited in all, one NIC for a whole host, NICs of
unequal speed. Prints the paths of what it wrote.
"""
import json
import pathlib
import subprocess
import sys


def nics_of(topology):
    """By host, in the order of the file."""
    hosts = {}
    for node in topology["nodes"]:
        if node["kind"] == "nic":
            hosts.setdefault(node["host"], []).append(node["id"])
    return list(hosts.values())


def hang(topology, switch_of):
    """Hang each NIC on the switch of its name instead of on `net`."""
    topology["nodes"] = [node for node in topology["nodes"] if node["id"] != "net"]
    topology["nodes"] += [{"id": name, "kind": "switch"} for name in sorted(set(switch_of.values()))]
    for link in topology["links"]:
        if link["to"] == "net":
            link["to"] = switch_of[link["from"]]


def rails(topology):
    hang(topology, {nic: f"net/rail{i}" for nics in nics_of(topology) for i, nic in enumerate(nics)})


def leaves(spine_GBps):
    """Two leaves with half of the hosts each, under one spine."""
    def change(topology):
        hosts = nics_of(topology)
        hang(topology, {nic: f"net/leaf{2 * i // len(hosts)}"
                        for i, nics in enumerate(hosts) for nic in nics})
        topology["nodes"].append({"id": "net/spine", "kind": "switch"})
        topology["links"] += [{"from": f"net/leaf{leaf}", "to": "net/spine", "kind": "net",
                               "GBps": spine_GBps, "latency_us": 1} for leaf in range(2)]
    return change


def limited(total_GBps):
    def change(topology):
        next(node for node in topology["nodes"] if node["id"] == "net")["GBps_total"] = total_GBps
    return change


def one_nic(topology):
    lost = {nic for nics in nics_of(topology) for nic in nics[1:]}
    topology["nodes"] = [node for node in topology["nodes"] if node["id"] not in lost]
    topology["links"] = [link for link in topology["links"] if not {link["from"], link["to"]} & lost]


def unequal(topology):
    """The last host's NICs have a quarter of the others' speed."""
    slow = set(nics_of(topology)[-1])
    for link in topology["links"]:
        if link["to"] == "net" and link["from"] in slow:
            link["GBps"] /= 4


CLUSTERS = {
    "2xdgx1v-one-nic": ("2xdgx1v", one_nic),
    "2xdgx_a100-rails": ("2xdgx_a100", rails),
    "4xdgx1v-rails": ("4xdgx1v", rails),
    "4xdgx1v-spine-2to1": ("4xdgx1v", leaves(50)),
    "8xpcie4-spine-4to1": ("8xpcie4", leaves(12.5)),
    "4xpcie4-limited": ("4xpcie4", limited(25)),
    "4xpcie4-unequal": ("4xpcie4", unequal),
    "4xgh200x4-spine-8to1": ("4xgh200x4", leaves(25)),
}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    blinkctl, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for name, (base, change) in CLUSTERS.items():
        shown = subprocess.run([blinkctl, "topology", "--json", base], check=True, capture_output=True)
        topology = json.loads(shown.stdout)
        topology["name"] = name
        change(topology)
        path = directory / f"{name}.json"
        path.write_text(json.dumps(topology, indent=1) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()

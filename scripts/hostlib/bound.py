"""What the planner thinks of the hosts of a cluster: the rate of a plan, and the bound that none can pass."""
import json
import subprocess

from peerlib.programs import Failure

NIC_LATENCY_US = 5


def ask(cluster, *arguments):
    done = subprocess.run([cluster.bin / "blinkctl", *arguments, "--json"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Failure(f"blinkctl {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def joined(cluster):
    """The topology of all hosts, made of what the first one's daemon says of its own: its devices hang on one
    switch, its memory, and so does the NIC."""
    local = ask(cluster, "topology", "--socket", cluster.daemons[0].socket)
    switch = next(node["id"] for node in local["nodes"] if node["kind"] == "switch")
    fastest = max(link["GBps"] for link in local["links"])
    nodes, links = [{"id": "net", "kind": "switch"}], []
    for host in (daemon.host.name for daemon in cluster.daemons):
        nodes += [{**node, "id": f"{host}/{node['id']}", "host": host} for node in local["nodes"]]
        nodes.append({"id": f"{host}/eth0", "kind": "nic", "host": host})
        links += [{**link, "from": f"{host}/{link['from']}", "to": f"{host}/{link['to']}"}
                  for link in local["links"]]
        way = {"count": 1, "latency_us": NIC_LATENCY_US, "duplex": True}
        links.append({**way, "from": f"{host}/{switch}", "to": f"{host}/eth0", "GBps": fastest,
                      "kind": "pcie"})
        links.append({**way, "from": f"{host}/eth0", "to": "net", "GBps": cluster.network.GBps,
                      "kind": "net"})
    return {"schema": "blink-topology/1", "name": "hosts", "nodes": nodes, "links": links}


def plan(cluster, algorithm):
    """Of an AllReduce over all ranks: the rate of the plan and the bound, in GB/s of payload."""
    path = cluster.directory / "topology.json"
    path.write_text(json.dumps(joined(cluster)), encoding="utf-8")
    told = ask(cluster, "plan", "--topology", path, "--algorithm", algorithm)
    return told["rate_GBps"], told["bound_GBps"]

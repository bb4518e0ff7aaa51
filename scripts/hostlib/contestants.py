"""Who is measured on the hosts of a cluster: blinkd, and over the same interfaces Open MPI and gloo by their
programs of peerlib, and iperf3, which shows what TCP makes of the wire."""
import json
import subprocess

from peerlib import machine, programs
from peerlib.programs import Failure


class Blinkd(programs.Program):
    name = "blinkd"

    def __init__(self, cluster, algorithm="auto", check=False):
        super().__init__()
        self.cluster, self.algorithm, self.check = cluster, algorithm, check

    def version(self):
        return machine.first_line(self.cluster.bin / "blinkd", "--version")

    def measure(self, job, iterations, warmup):
        row = self.cluster.perf(job.collective, "-b", str(job.bytes), "-e", str(job.bytes), "-n",
                                str(iterations), "-w", str(warmup), "--in-place=no", "--algorithm",
                                self.algorithm, f"--check={int(self.check)}")[0]
        if row["wrong"]:
            raise Failure(f"{row['wrong']} wrong elements of {job.bytes} bytes")
        return row


class OpenMpi(programs.OpenMpi):
    """mpirun runs on the first host and reaches the others by an agent in the place of ssh."""

    def __init__(self, cluster, sources, binaries):
        super().__init__(sources, binaries, "ordinary")
        self.cluster = cluster
        self.agent = cluster.directory / "agent"
        cases = "".join(f"    {host.address}) pid={host.pid} ;;\n" for host in cluster.network.hosts)
        self.agent.write_text(f'#!/bin/sh\ncase $1 in\n{cases}esac\nshift\n'
                              'exec nsenter --target "$pid" --net --uts -- sh -c "$*"\n', encoding="ascii")
        self.agent.chmod(0o755)

    def command(self, job, iterations, warmup):
        hosts = self.cluster.network.hosts
        slots = ",".join(f"{host.address}:{self.cluster.ranks_per_host}" for host in hosts)
        settings = {"plm_rsh_agent": self.agent, "pml": "ob1", "btl": "tcp,vader,self",
                    "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": "1",
                    "orte_keep_fqdn_hostnames": "1"}
        words = [word for key, value in settings.items() for word in ("--mca", key, value)]
        return hosts[0].command("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to",
                                "none", *words, "--host", slots, "-n", job.ranks, self.path,
                                *self.words(job, iterations, warmup))


class Gloo(programs.Gloo):
    def __init__(self, cluster, sources, binaries):
        super().__init__(sources, binaries, "ordinary")
        self.cluster = cluster

    def command(self, job, iterations, warmup):
        files = ",".join(f"/proc/{host.pid}/ns/net" for host in self.cluster.network.hosts)
        return ["env", f"PEER_NETWORKS={files}", *super().command(job, iterations, warmup)]


class Iperf:
    """Both ways at once between the first two hosts, over as many connections as blinkd has for moves."""
    STREAMS = 2

    def __init__(self, network):
        self.one, self.two = network.hosts[:2]

    def GBps(self, seconds):
        """What has come, of the slower way. Raises Failure."""
        server = subprocess.Popen(self.two.command("iperf3", "--server", "--one-off", "--forceflush"),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True)
        try:
            while "listening" not in (line := server.stdout.readline()):
                if not line:
                    raise Failure("iperf3 --server ended")
            told = programs.run(self.one.command("iperf3", "--client", self.two.address, "--bidir",
                                                 "--parallel", self.STREAMS, "--time", seconds, "--json"))
            server.communicate(timeout=programs.TIMEOUT_S)
        except programs.Failure as failure:
            raise Failure(f"iperf3: {failure}") from None
        finally:
            server.kill()
            server.wait()
        end = json.loads(told)["end"]
        ways = (end["sum_received"], end["sum_received_bidir_reverse"])
        return min(way["bits_per_second"] for way in ways) / 8e9


def build_peers(cluster, sources, binaries):
    """Open MPI and gloo; who would not build carries the reason."""
    binaries.mkdir(parents=True, exist_ok=True)
    peers = [kind(cluster, sources, binaries) for kind in (OpenMpi, Gloo)]
    for peer in peers:
        try:
            peer.build()
        except programs.Failure as failure:
            peer.why_not = str(failure)
    return peers

"""A daemon on every host of a network, and the ranks of blink-perf that work with them."""
import json
import os
import pathlib
import socket
import subprocess
import time

from peerlib.programs import Failure

START_LIMIT_S = 30
RUN_LIMIT_S = 120


class Daemon:
    """blinkd on a host, with host devices, one for each rank."""

    def __init__(self, cluster, host):
        self.host = host
        self.directory = cluster.directory / host.name
        self.directory.mkdir(exist_ok=True)
        self.socket = str(self.directory / "blinkd.sock")
        config = self.directory / "blinkd.conf"
        config.write_text(self._settings(cluster), encoding="ascii")
        self.log = self.directory / "log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                host.command(cluster.bin / "blinkd", "--config", config, "--socket", self.socket, "--devices",
                             f"host:{cluster.ranks_per_host}"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def _settings(self, cluster):
        lines = [f"listen = {self.host.address}", f"host = {self.host.name}", f"key = {cluster.key}",
                 f"timeout_s = {cluster.timeout_s}"]
        if cluster.network.GBps:
            lines.append(f"nics = eth0@{cluster.network.GBps}")
        return "\n".join(["[network]", *lines, ""])

    @property
    def pid(self):
        """nsenter becomes what it starts."""
        return self.child.pid

    def accepts(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def wait_until_it_serves(self):
        deadline = time.monotonic() + START_LIMIT_S
        while not self.accepts():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"blinkd on {self.host.name} does not start: {self.complaint()}")
            time.sleep(0.02)

    def complaint(self):
        return self.log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]

    def end(self):
        self.child.terminate()
        try:
            self.child.wait(RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Cluster:
    """All daemons of the network; `binaries` is where the build has its programs."""

    def __init__(self, network, ranks_per_host, binaries, directory, timeout_s=20):
        self.network, self.ranks_per_host, self.timeout_s = network, ranks_per_host, timeout_s
        self.bin, self.directory = pathlib.Path(binaries).resolve(), pathlib.Path(directory)
        self.directory.mkdir()
        self.key = self.directory / "cluster.key"
        subprocess.run([self.bin / "blinkctl", "key", "new", self.key], check=True, stdout=subprocess.DEVNULL)
        self.daemons = [Daemon(self, host) for host in network.hosts]
        for daemon in self.daemons:
            daemon.wait_until_it_serves()
        self.runs = 0

    def start_anew(self, number):
        """The daemon of a host, which has ended."""
        self.daemons[number] = Daemon(self, self.network.hosts[number])
        self.daemons[number].wait_until_it_serves()

    @property
    def ranks(self):
        return self.ranks_per_host * len(self.daemons)

    def places(self):
        """By rank: its daemon and device."""
        return [(daemon, device) for daemon in self.daemons for device in range(self.ranks_per_host)]

    def start_perf(self, *arguments):
        """blink-perf's processes; the first one prints."""
        self.runs += 1
        id_file = self.directory / f"id{self.runs}"
        devices = ",".join(str(device) for _, device in self.places())
        return [subprocess.Popen([self.bin / "blink-perf", "--socket", daemon.socket, "--id-file", id_file,
                                  "--devices", devices, *arguments],
                                 env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self.ranks)},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
                for rank, (daemon, _) in enumerate(self.places())]

    def perf(self, *arguments):
        """What blink-perf measured, a dict for each size. Raises Failure."""
        processes = self.start_perf("--json", *arguments)
        try:
            told = [process.communicate(timeout=RUN_LIMIT_S) for process in processes]
        except subprocess.TimeoutExpired:
            raise Failure(f"blink-perf {' '.join(arguments)}: not done after {RUN_LIMIT_S} s") from None
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for process, (_, errors) in zip(processes, told):
            if process.returncode != 0:
                raise Failure(f"blink-perf {' '.join(arguments)}: {errors.strip()[-500:]}")
        return [json.loads(line) for line in told[0][0].splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for daemon in self.daemons:
            daemon.end()

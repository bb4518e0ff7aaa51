"""The built blinkctl, asked for JSON. A refusal of plan or simulation is an answer like any other here: rings
refuse where no ring closes, and a table says so.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile

#: Short programs, one thread each: as many at once as a small machine has cores.
PARALLEL = 2


class Refused(Exception):
    """blinkctl answered with a sentence instead of a result."""


class Blinkctl:
    """Runs blinkctl, two at a time. Topologies of our own are written to a directory that lives as long as
    this."""

    def __init__(self, path):
        self.path = str(path)
        self.pool = concurrent.futures.ThreadPoolExecutor(PARALLEL)
        self.scratch = tempfile.TemporaryDirectory(prefix="figures.")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown()
        self.scratch.cleanup()

    def run(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode == 1:
            raise Refused(done.stderr.strip().removeprefix("blinkctl: "))
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(done.args)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def map(self, function, items):
        """[function(item) for each item], two at a time. Not from within such a function."""
        return list(self.pool.map(function, items))

    def built_ins(self):
        """The names that `blinkctl topology --help` lists."""
        listed = self.run("topology", "--help").partition("Built-in topologies:")[2].partition(".\n")[0]
        return listed.split()

    def topology(self, name):
        return json.loads(self.run("topology", "--format", "json", name))

    def write_topology(self, topology):
        """The file of a topology of our own."""
        path = pathlib.Path(self.scratch.name, topology["name"] + ".json")
        path.write_text(json.dumps(topology), encoding="utf-8")
        return path

    def plan(self, topology, collective, algorithm, ranks=None, payload_bytes=None):
        """blink-plan/1, or None where blinkctl refuses."""
        arguments = ["plan", "--json", "-t", topology, "-c", collective, "-a", algorithm]
        arguments += [] if ranks is None else ["-r", ",".join(map(str, ranks))]
        arguments += [] if payload_bytes is None else ["--bytes", payload_bytes]
        try:
            return json.loads(self.run(*arguments))
        except Refused:
            return None

    def rate_GBps(self, *arguments, **options):
        """What the plan's loads allow, or None where blinkctl refuses."""
        plan = self.plan(*arguments, **options)
        return plan and plan["rate_GBps"]

    def simulate(self, topology, collective, *options):
        """The points of a blink-simulation/1."""
        return json.loads(self.run("simulate", "--json", "-t", topology, "-c", collective,
                                   *options))["results"]

    def contest(self):
        """What bench_contest prints about each built-in; it stands beside blinkctl."""
        program = pathlib.Path(self.path).with_name("bench_contest")
        done = subprocess.run([program, "--json"], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def explain(self, topology, collective, *options):
        """A blink-explain/1."""
        return json.loads(self.run("explain", "--json", "-t", topology, "-c", collective, *options))

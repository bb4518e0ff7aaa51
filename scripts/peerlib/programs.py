"""The programs that are compared: how each is built and started, and which version it is. All print JSON
lines with the same keys."""
import json
import os
import pathlib
import signal
import subprocess

from peerlib import machine

TIMEOUT_S = 180


class Failure(Exception):
    """A program that could not be built or run; the text is its first complaint."""


def complaint(output, errors, status):
    lines = [line.strip() for line in (errors or output).splitlines() if line.strip().strip("-")]
    return next((line for line in lines if "rror" in line), lines[0] if lines else f"exit status {status}")


def end(process):
    """A program that was given too long, and all that it started: asked first, so that mpirun can end its
    ranks."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, how)
        try:
            process.communicate(timeout=5)
            return
        except subprocess.TimeoutExpired:
            pass


def run(command, timeout_s=TIMEOUT_S):
    """What it prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            end(process)
            raise Failure(f"not done after {timeout_s} s") from None
    if process.returncode != 0:
        raise Failure(complaint(output, errors, process.returncode))
    return output


class Program:
    """One of those compared. `why_not` says why it is left out, if it is."""
    name = ""
    measures_latency = True
    timeout_s = TIMEOUT_S

    def __init__(self):
        self.why_not = ""

    def build(self):
        """Raises Failure."""

    def version(self):
        return ""

    def command(self, job, iterations, warmup):
        raise NotImplementedError

    def measure(self, job, iterations, warmup):
        """What it prints of the iterations: time_us, their median, and time_us_min. Raises Failure."""
        output = run(self.command(job, iterations, warmup), self.timeout_s)
        rows = [json.loads(line) for line in output.splitlines() if line[:1] == "{"]
        row = next((row for row in rows if not row.get("in_place")), None)
        if row is None:
            raise Failure("printed no measurement")
        if (row["collective"], row["ranks"], row["bytes"]) != (job.collective, job.ranks, job.bytes):
            raise Failure(f"measured {row['collective']}, {row['ranks']} ranks, {row['bytes']} bytes instead")
        return row

    def time_us(self, job, iterations, warmup):
        """Median over the iterations. Raises Failure."""
        return self.measure(job, iterations, warmup)["time_us"]


class MemoryLimit(Program):
    name = "limit"
    measures_latency = False

    def __init__(self, binaries):
        super().__init__()
        self.path = binaries / "memory_limit"

    def command(self, job, iterations, warmup):
        return [self.path, "--json", "--collective", job.collective, "--ranks", str(job.ranks), "--sizes",
                str(job.bytes), "--iterations", str(iterations)]


class Blinkd(Program):
    name = "blinkd"

    def __init__(self, path):
        super().__init__()
        self.path = path.resolve()

    def version(self):
        return machine.first_line(self.path, "--version")

    def command(self, job, iterations, warmup):
        return [self.path, job.collective, "--private", "--ranks", str(job.ranks), "-b", str(job.bytes), "-e",
                str(job.bytes), "-n", str(iterations), "-w", str(warmup), "--check=0", "--json"]


class Driver(Program):
    """Another library, through a small program of ours."""
    compiler = ()
    source = ""
    libraries = ()

    def __init__(self, sources, binaries, pages):
        super().__init__()
        self.code = sources / self.source
        self.path = binaries / self.name.lower().replace(" ", "")
        self.pages = pages

    def build(self):
        try:
            run([*self.compiler, "-O3", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-o", self.path, self.code,
                 *self.libraries])
        except OSError as error:
            raise Failure(f"{self.compiler[0]}: {error.strerror}") from None

    def words(self, job, iterations, warmup):
        return [job.collective, str(iterations), str(warmup), self.pages, str(job.bytes)]


class OpenMpi(Driver):
    name = "Open MPI"
    compiler = ("mpicc.openmpi", "-std=c17")
    source = "mpi_perf.c"

    def version(self):
        return "Open MPI " + machine.first_line("mpirun.openmpi", "--version").rpartition(" ")[2]

    def command(self, job, iterations, warmup):
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                "btl",
                "vader,self", "--mca", "mpi_yield_when_idle", "1", "-n", str(job.ranks), self.path,
                *self.words(job, iterations, warmup)]


class Mpich(Driver):
    name = "MPICH"
    compiler = ("mpicc.mpich", "-std=c17")
    source = "mpi_perf.c"

    def version(self):
        return "MPICH " + machine.first_line("mpichversion").removeprefix("MPICH Version:").strip()

    def command(self, job, iterations, warmup):
        return ["mpirun.mpich", "-n", str(job.ranks), self.path, *self.words(job, iterations, warmup)]


class Gloo(Driver):
    name = "gloo"
    compiler = ("g++", "-std=c++17")
    source = "gloo_perf.cc"
    libraries = ("-lgloo", "-lpthread")

    def version(self):
        return "gloo " + machine.version_of_package("libgloo-dev")

    def command(self, job, iterations, warmup):
        return [self.path, str(job.ranks), *self.words(job, iterations, warmup)]


def build_ours(root, targets):
    """The release build of the named targets; returns where the programs are."""
    print(f"building {', '.join(targets)}", flush=True)
    run(["cmake", "-S", root, "--preset", "release"], timeout_s=600)
    run(["cmake", "--build", root / "build/release", "--target", *targets], timeout_s=3600)
    return root / "build/release/bin"


def prepare(root, blink_perf, pages):
    """All programs, built; those that would not build carry the reason."""
    ours = build_ours(root, ["memory_limit"] if blink_perf else ["memory_limit", "blink-perf", "blinkd"])
    binaries = root / "build/peers"
    binaries.mkdir(parents=True, exist_ok=True)
    sources = root / "tests/bench/peers"
    programs = [MemoryLimit(ours), Blinkd(pathlib.Path(blink_perf or ours / "blink-perf"))]
    programs += [kind(sources, binaries, pages) for kind in (OpenMpi, Mpich, Gloo)]
    for program in programs:
        try:
            program.build()
        except Failure as failure:
            program.why_not = str(failure)
            print(f"{program.name} is left out: {failure}", flush=True)
    return programs

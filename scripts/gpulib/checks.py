"""The rows of gpu-test: what is asked of blinkd on GPUs, grouped by the daemon they are asked of."""
import contextlib
import os
import signal
import subprocess
import time

from . import machine, mps
from .processes import Daemon, Failure, begin, finish, run, shown
from .results import PROTOCOLS
from .rows import Row, Skip

REDUCING = ["allreduce", "reduce", "reducescatter"]
COLLECTIVES = [*REDUCING, "broadcast", "allgather", "gather", "scatter", "alltoall", "alltoallv", "sendrecv",
               "allgatherv", "reducescatterv", "gatherv", "scatterv"]
ORDERS = {"waited for": [], "on streams": ["--stream"], "in graphs": ["--stream=graph"]}
SANITIZER_START_S = 120

# What applications do, played by forked ranks (tests/gpu/gpu_scenarios.h), and how many.
SCENARIOS = {"device-memory": 4, "reuse": 4, "extents": 4, "many-extents": 2, "pools": 3, "released": 3,
             "pools-promised": 3, "host-memory": 3, "stream": 4, "two-streams": 4, "many-streams": 2,
             "stream-group": 3, "staged-stream": 2, "late": 3, "graph": 4, "bad-arguments": 2,
             "never-ready": 2}


class Group:
    """Rows for one daemon, or for none. `prepare(stack)` enters what has to be there before, or raises
    Skip."""

    def __init__(self, daemon, rows, prepare=None, ends=True):
        self.daemon, self.rows, self.prepare, self.ends = daemon, rows, prepare, ends

    def begin(self, stack):
        if self.prepare:
            self.prepare(stack)
        if self.daemon:
            stack.enter_context(self.daemon)

    def end(self, _):
        status = self.daemon.end()
        if status != 0:
            raise Failure(f"status {status}: {' '.join(self.daemon.log()[-400:].split())}")

    def run(self, table):
        with contextlib.ExitStack() as stack:
            try:
                if table.left_s() > 0:
                    self.begin(stack)
            except Skip as skip:
                table.skip_all(self.rows, str(skip))
                return
            except Failure as failure:
                table.fail_all(self.rows, str(failure))
                return
            for row in self.rows:
                table.run(row)
            if self.daemon and self.ends and table.left_s() > 0:
                table.run(Row("the daemon ends in order", shown(["blinkd", "--devices", self.daemon.devices,
                                                                 *self.daemon.flags]), self.end))


class Checks:
    """`environment` finds the driver; `stand_in`: that it is the tests' own, which has as many GPUs as it is
    asked for."""

    def __init__(self, programs, environment, stand_in, gpu_count):
        self.programs, self.environment, self.stand_in = programs, environment, stand_in
        self.gpu_count = gpu_count

    def daemon(self, devices, *flags, **options):
        return Daemon(self.programs, devices, self.environment, *flags, **options)

    # ---- kinds of rows ----

    def perf(self, daemon, name, *arguments, quick=False, limit_s=120, lacking=None):
        """blink-perf, every element checked. `lacking`: what a machine that cannot do it says."""
        command = [self.programs / "blink-perf", *arguments]

        def check(limit_s):
            done = run([*command, "--socket", daemon.socket, "--check=1"], daemon.environment, limit_s)
            if lacking and lacking in done.err:
                raise Skip(" ".join(done.err.split()))
            done.must_succeed()
            if "# Out of bounds values : 0 OK" not in done.out:
                raise Failure("nothing was checked")
        return Row(name, shown(command), check, quick, limit_s)

    def scenario(self, daemon, name, ranks, what=None, check=None, quick=False):
        command = [self.programs / "blink-gpu-api", name, ranks]

        def plain(limit_s):
            finish(self.begin_scenario(daemon, command), limit_s).must_succeed()
        return Row(what or f"scenario {name}", shown(command),
                   (lambda limit_s: check(daemon, command, limit_s)) if check else plain, quick)

    def begin_scenario(self, daemon, command):
        return begin(command, daemon.environment | {"BLINK_SOCKET": daemon.socket})

    def still_serves(self, daemon, limit_s):
        run([self.programs / "blink-perf", "allreduce", "--device-memory", "--stream", "-b", "1M", "-e", "1M",
             "-n", 2,
             "--socket", daemon.socket], daemon.environment, limit_s).must_succeed()

    # ---- faults ----

    def killed_rank(self, daemon, command, limit_s):
        """The last rank kills itself; what the others do not find as it has to be, they print."""
        done = finish(self.begin_scenario(daemon, command), limit_s)
        if done.status != 1 or "rank " in done.err:
            raise Failure(done.reason())
        self.still_serves(daemon, limit_s)

    def under_way(self, daemon, command, limit_s, end):
        """`end` what ranks depend on, while they are at work; they check what they then get."""
        child = self.begin_scenario(daemon, command)
        said = child.stdout.readline()
        if "under way" in said:
            end()
        done = finish(child, limit_s)
        if "under way" not in said:
            raise Failure(f"ranks did not come to work: {done.reason()}")
        done.must_succeed()

    def killed_worker(self, daemon, command, limit_s):
        restarts = daemon.status()["gpu_worker_restarts"]
        self.under_way(daemon, command, limit_s,
                       lambda: os.kill(daemon.status()["gpu_worker_pid"], signal.SIGKILL))
        if daemon.status()["gpu_worker_restarts"] != restarts + 1:
            raise Failure(f"{daemon.status()['gpu_worker_restarts']} restarts instead of {restarts + 1}")
        self.still_serves(daemon, limit_s)

    def killed_daemon(self, daemon, command, limit_s):
        self.under_way(daemon, command, limit_s, daemon.child.kill)

    # ---- groups ----

    def groups(self):
        """What is most particular comes first: the budget may not last."""
        return [self.several(), self.switches(), self.orders(),
                *(self.links(protocol) for protocol in PROTOCOLS),
                self.memory(), self.faults(), self.lost(), self.mps(), self.sanitizer(),
                *(self.elements(devices) for devices in (4, 2, 8))]

    def several(self):
        """GPUs that are devices each, as on most machines: links between them, memory of one that another
        reads, launches on all of them at once."""
        environment = self.environment | ({"STANDIN_CUDA_GPUS": "4"} if self.stand_in else {})
        daemon = Daemon(self.programs, "cuda:all", environment)
        rows = [self.perf(daemon, f"several GPUs: {collective}", collective, "--device-memory=vmm",
                          "--stream", "-b", "64", "-e", "16M", "-f", 512, "-n", 5)
                for collective in COLLECTIVES]
        rows += [self.perf(daemon, f"several GPUs: memory of {kind}, {order}", "allreduce",
                           f"--device-memory={kind}", *flags, "-b", "1K", "-e", "1M", "-f", 32, "-n", 3,
                           quick=kind == "malloc")
                 for kind in ("malloc", "pool") for order, flags in ORDERS.items()]
        rows.append(self.scenario(daemon, "killed-rank", 2, "several GPUs: kill -9 of a rank under load",
                                  self.killed_rank))
        return Group(daemon, rows, self.need_several)

    def need_several(self, _):
        if not self.stand_in and self.gpu_count < 2:
            raise Skip("this machine has one GPU")

    def switches(self):
        """GPUs that are joined by switches which reduce and copy, with whatever these can do."""
        switched = {"STANDIN_CUDA_GPUS": "4", "STANDIN_CUDA_SWITCH": "128"}
        environment = self.environment | (switched if self.stand_in else {})
        daemon = Daemon(self.programs, "cuda:all", environment,
                        *(["--topology", "dgx_h100"] if self.stand_in else []))
        rows = [self.perf(daemon, f"switches: {operator} of {datatype}", "allreduce", "--device-memory=vmm",
                          "--algorithm", "multicast", "-d", datatype, "-o", operator, "-b", "4K",
                          "-e", "256K", "-f", 64, "-n", 3, quick=datatype == "float32", lacking="a switch")
                for datatype, operator in (("float32", "sum"), ("bfloat16", "avg"), ("float64", "sum"),
                                           ("int32", "max"), ("uint64", "min"))]
        return Group(daemon, rows, self.need_several)

    def elements(self, devices):
        """Every collective, type and operator."""
        daemon = self.daemon(f"cuda:0x{devices}")
        rows = []
        for collective in COLLECTIVES:
            kinds = ["-d", "all", *(["-o", "all"] if collective in REDUCING else [])]
            rows.append(self.perf(daemon, f"{devices} devices: {collective}, all types", collective,
                                  "--device-memory", *kinds,
                                  "-b", "48K", "-e", "3M", "-f", 64, "-n", 1, "-w", 1))
        if devices == 4:
            rows.append(self.perf(daemon, "4 devices: allreduce, all types, small", "allreduce",
                                  "--device-memory", "-d", "all",
                                  "-o", "all", "-b", "8K", "-e", "8K", "-n", 1, "-w", 0, quick=True))
        return Group(daemon, rows)

    def orders(self):
        """Every collective on streams and in graphs."""
        daemon = self.daemon("cuda:0x4")
        rows = []
        for collective in [*COLLECTIVES, "barrier"]:
            for order, flags in ORDERS.items():
                if flags:
                    rows.append(self.perf(daemon, f"{collective} {order}", collective, "--device-memory=vmm",
                                          *flags, "-b", "1K",
                                          "-e", "16M", "-f", 128, "-n", 5))
        for order, flags in ORDERS.items():
            rows.append(self.perf(daemon, f"groups on communicators, {order}", "allreduce",
                                  "--device-memory=vmm", *flags,
                                  "--groups", 3, "--comms", 2, "-b", "64K", "-e", "64K", "-n", 3, quick=True))
            rows.append(self.perf(daemon, f"threads, {order}", "allreduce", "--device-memory=vmm", *flags,
                                  "--threads", "-b",
                                  "64K", "-e", "64K", "-n", 3, quick=True))
        return Group(daemon, rows)

    def links(self, protocol):
        """The plans of a machine with links, whose lanes wait for one another, in every format of their
        slots."""
        daemon = self.daemon("cuda:0x4", "--topology=dgx1v", f"--protocol={protocol}")
        rows = [self.perf(daemon, f"links, {protocol}: {collective}", collective, "--device-memory", "-b",
                          "64", "-e", "4M", "-f",
                          256, "-n", 2) for collective in COLLECTIVES]
        rows.append(self.perf(daemon, f"links, {protocol}: allreduce, all types", "allreduce",
                              "--device-memory", "-d", "all",
                              "-o", "all", "-b", "48K", "-e", "48K", "-n", 1, "-w", 0))
        rows.append(self.perf(daemon, f"links, {protocol}: allreduce in graphs", "allreduce",
                              "--device-memory=vmm",
                              "--stream=graph", "-b", "4K", "-e", "1M", "-f", 256, "-n", 3, quick=True))
        return Group(daemon, rows)

    def memory(self):
        """Every kind of memory, and payloads large and odd."""
        daemon = self.daemon("cuda:0x8")
        rows = []
        for kind in ["malloc", "vmm", "pool"]:
            for order, flags in ORDERS.items():
                rows.append(self.perf(daemon, f"memory of {kind}, {order}", "allreduce",
                                      f"--device-memory={kind}", *flags, "-b",
                                      "1K", "-e", "1M", "-f", 32, "-n", 3, quick=True))
        for kind in ["registered", "malloc"]:
            rows.append(self.perf(daemon, f"{kind} memory of the host", "allreduce", "--memory", kind, "-b",
                                  "1K", "-e", "1M",
                                  "-f", 32, "-n", 3))
        rows.append(self.perf(daemon, "odd sizes", "allreduce", "--device-memory", "-b", 4, "-e", "3M", "-f",
                              7, "-n", 2))
        rows.append(self.perf(daemon, "256 MiB", "allreduce", "--device-memory", "--stream", "-b", "256M",
                              "-e", "256M", "-n", 2))
        return Group(daemon, rows)

    def faults(self):
        daemon = self.daemon("cuda:0x4")
        rows = [self.scenario(daemon, name, ranks, quick=name in ("stream", "graph", "late"))
                for name, ranks in SCENARIOS.items()]
        rows.append(self.scenario(daemon, "killed-rank", 4, "kill -9 of a rank under load", self.killed_rank,
                                  quick=True))
        rows.append(self.scenario(daemon, "until-lost", 4, "kill -9 of the GPU worker under load",
                                  self.killed_worker,
                                  quick=True))
        return Group(daemon, rows)

    def lost(self):
        daemon = self.daemon("cuda:0x4")
        return Group(daemon, [self.scenario(daemon, "until-lost", 4, "kill -9 of blinkd under load",
                                            self.killed_daemon,
                                            quick=True)], ends=False)

    def mps(self):
        """A little of everything, GPUs shared by MPS."""
        daemon = self.daemon("cuda:0x8", "--gpu-sharing=mps")
        rows = [self.perf(daemon, f"MPS: allreduce {order}", "allreduce", "--device-memory=vmm", *flags, "-b",
                          "1K", "-e", "16M",
                          "-f", 128, "-n", 5) for order, flags in ORDERS.items()]
        rows += [self.scenario(daemon, name, 4, f"MPS: scenario {name}") for name in ("stream", "graph")]

        def prepare(stack):
            if self.stand_in:
                raise Skip("the stand-in driver knows no MPS")
            pipe, why_not = stack.enter_context(mps.daemon())
            if not pipe:
                raise Skip(why_not)
            daemon.environment = daemon.environment | {"CUDA_MPS_PIPE_DIRECTORY": pipe}
        return Group(daemon, rows, prepare)

    def sanitizer(self):
        """The worker's kernels under compute-sanitizer's memcheck."""
        tool = machine.find_tool("compute-sanitizer")
        command = ["compute-sanitizer", "--target-processes", "all", "blinkd", "--devices", "cuda:0x4"]

        def prepare(_):
            if self.stand_in:
                raise Skip("the stand-in driver runs nothing that compute-sanitizer could watch")
            if not tool:
                raise Skip("there is no compute-sanitizer on this machine")

        def check(limit_s):
            deadline = time.monotonic() + limit_s
            daemon = self.daemon("cuda:0x4", wrapper=[tool, "--target-processes", "all"],
                                 start_s=SANITIZER_START_S)
            try:
                with daemon:
                    self.use_under_sanitizer(daemon, deadline)
            except Failure:
                if "Device not supported" in daemon.said:
                    raise Skip("compute-sanitizer does not support this device") from None
                raise
            if "ERROR SUMMARY: 0 errors" not in daemon.said:
                raise Failure(f"compute-sanitizer says: {' '.join(daemon.said.split())[-600:]}")
        return Group(None, [Row("memcheck of the GPU worker", shown(command), check, limit_s=240)], prepare)

    def use_under_sanitizer(self, daemon, deadline):
        for collective in ["allreduce", "alltoall", "broadcast"]:
            run([self.programs / "blink-perf", collective, "--device-memory", "-b", "1K", "-e", "1M", "-f",
                 32, "-n", 1, "-w", 0,
                 "--socket", daemon.socket], daemon.environment, deadline - time.monotonic()).must_succeed()
        os.kill(daemon.status()["pid"], signal.SIGTERM)  # the tool itself would not pass it on
        try:
            daemon.child.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure("the daemon does not end under compute-sanitizer") from None

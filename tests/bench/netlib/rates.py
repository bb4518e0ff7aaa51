"""AllReduce on hosts beside TCP, other libraries and the planner's bound: who takes turns in a row, and what
its bars are."""
import dataclasses
import statistics

from hostlib import bound, contestants
from peerlib.programs import Failure
from peerlib.rounds import WARMUP, Job, iterations_within

MiB = 1 << 20
GBIT_5 = 0.625
FIRST_ITERATIONS = 5


@dataclasses.dataclass(frozen=True)
class Bar:
    """By what factor blinkd is to be faster than `other`, at least: rates by rates, times by times."""
    other: str
    factor: float


@dataclasses.dataclass(frozen=True)
class Rate:
    name: str
    hosts: int
    ranks: int  # on each host
    GBps: float | None  # of each cable, each way
    bytes: int
    bars: tuple

    def network(self):
        return {"count": self.hosts, "GBps": self.GBps}

    @property
    def is_latency(self):
        return self.bytes < 1024


RATES = [
    Rate("64M-2x1", 2, 1, GBIT_5, 64 * MiB, (Bar("iperf3", 0.9), )),
    Rate("64M-2x4", 2, 4, GBIT_5, 64 * MiB, (Bar("iperf3", 0.85), )),
    Rate("64M-4x2", 4, 2, GBIT_5, 64 * MiB, (Bar("bound", 0.8), )),
    Rate("64M-free", 2, 1, None, 64 * MiB, (Bar("iperf3", 0.6), Bar("Open MPI", 1.5), Bar("gloo", 1.5))),
    Rate("1M-free", 2, 1, None, MiB, (Bar("Open MPI", 1.5), Bar("gloo", 1.5))),
    Rate("8B-2x1", 2, 1, None, 8, (Bar("Open MPI", 1 / 3), Bar("gloo", 2))),
    Rate("8B-2x4", 2, 4, None, 8, (Bar("Open MPI", 1), Bar("gloo", 2))),
]


class Turns:
    """Times in microseconds of those who take turns, by name: of each turn the median and the least."""

    def __init__(self, row, cluster, peers, seconds):
        self.row, self.seconds = row, seconds
        self.job = Job("allreduce", cluster.ranks, row.bytes, row.is_latency)
        self.iperf = contestants.Iperf(cluster.network)
        wanted = {bar.other for bar in row.bars}
        self.programs = [contestants.Blinkd(cluster, check=row.bytes <= MiB)]
        self.programs += [peer for peer in peers if peer.name in wanted]
        self.takes_iperf = "iperf3" in wanted
        self.times_us = {}
        self.failures = {program.name: program.why_not for program in self.programs if program.why_not}
        if row.GBps:
            self.times_us["bound"] = [(self.us_at(bound.plan(cluster, "trees")[1]), ) * 2]

    def us_at(self, GBps):
        return self.row.bytes / GBps * 1e-3

    def add(self, name, measure):
        if name in self.failures:
            return
        try:
            self.times_us.setdefault(name, []).append(measure())
        except Failure as failure:
            self.failures[name] = str(failure)

    def iterations(self, name):
        before = self.times_us.get(name)
        if not before:
            return FIRST_ITERATIONS * (20 if self.row.is_latency else 1)
        return iterations_within(self.seconds, before[-1][0])

    def measure_program(self, program):
        told = program.measure(self.job, self.iterations(program.name), WARMUP)
        return told["time_us"], told["time_us_min"]

    def measure_iperf(self):
        return (self.us_at(self.iperf.GBps(max(1, round(self.seconds)))), ) * 2

    def take(self):
        for program in self.programs:
            self.add(program.name, lambda program=program: self.measure_program(program))
        if self.takes_iperf:
            self.add("iperf3", self.measure_iperf)

    def median_us(self, name):
        """Of the turns; of more than one the first, which was short, does not count."""
        turns = self.times_us.get(name, [])
        return statistics.median(median for median, _ in turns[1:] or turns) if turns else None

    def least_us(self, name):
        return min((least for _, least in self.times_us.get(name, [])), default=None)

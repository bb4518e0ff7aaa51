"""Measuring side by side: every program in turn for every collective, number of ranks and size, several times
over, so that a disturbance of the machine meets all of them."""
import dataclasses
import statistics
import time

from figurelib.text import size
from peerlib.programs import Failure

FEW = 5  # iterations of a first run, which shows how many fit
MOST = 2000
WARMUP = 3


@dataclasses.dataclass(frozen=True)
class Job:
    collective: str
    ranks: int
    bytes: int
    is_latency: bool


def iterations_within(budget_s, time_us):
    """A barrier takes about as long as a small operation, hence the 2."""
    return max(FEW, min(MOST, int(budget_s * 1e6 / (2 * time_us))))


class Measurements:
    """Times by job and program."""

    def __init__(self):
        self.times_us = {}
        self.failures = {}  # by program and job: why

    def add(self, job, name, time_us):
        self.times_us.setdefault((job, name), []).append(time_us)

    def time_us(self, job, name):
        """The median of the rounds; of more than one the first, which was short, does not count. None: no
        number."""
        times_us = self.times_us.get((job, name), [])
        return statistics.median(times_us[1:] or times_us) if times_us else None

    def GBps(self, job, name):
        time_us = self.time_us(job, name)
        return None if time_us is None else job.bytes / time_us * 1e-3


def measure_once(measurements, program, job, budget_s):
    if program.why_not or (program.name, job) in measurements.failures or not (
            program.measures_latency or not job.is_latency):
        return
    before_us = measurements.times_us.get((job, program.name))
    iterations = iterations_within(budget_s,
                                   before_us[-1]) if before_us else FEW * (20 if job.is_latency else 1)
    try:
        measurements.add(job, program.name, program.time_us(job, iterations, WARMUP))
    except Failure as failure:
        measurements.failures[(program.name, job)] = str(failure)


def told(programs, job, measurements):
    """What the last turn of a job gave, and how much faster blinkd was than the fastest other library."""
    times_us = {program.name: measurements.times_us[(job, program.name)][-1]
                for program in programs if (job, program.name) in measurements.times_us}
    others = {name: time_us for name, time_us in times_us.items() if name not in ("blinkd", "limit")}
    unit = "µs" if job.is_latency else "GB/s"
    numbers = [f"{name} {time_us:.1f}" if job.is_latency else f"{name} {job.bytes / time_us * 1e-3:.2f}"
               for name, time_us in times_us.items()]
    text = f"{job.collective}, {job.ranks} ranks, {size(job.bytes, 1024)}, {unit}: {', '.join(numbers)}"
    if "blinkd" in times_us and others:
        best = min(others, key=others.get)
        text += f"; blinkd is {others[best] / times_us['blinkd']:.2f} times as fast as {best}"
    return text


def measure(programs, jobs, rounds, budget_s, limit_s=None):
    """After limit_s no more jobs begin."""
    measurements, started = Measurements(), time.monotonic()
    for turn in range(rounds):
        for job in jobs:
            if limit_s and time.monotonic() - started > limit_s:
                print(f"{limit_s:g} s are over: the rest is left out", flush=True)
                return measurements
            for program in programs:
                measure_once(measurements, program, job, budget_s)
            print(f"round {turn + 1} of {rounds}, {told(programs, job, measurements)}", flush=True)
    return measurements

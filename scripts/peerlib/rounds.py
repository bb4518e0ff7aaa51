"""Measuring side by side: every program in turn for every collective, number of ranks and size, several times
over, so that a disturbance of the machine meets all of them."""
import dataclasses
import statistics

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


def measure(programs, jobs, rounds, budget_s):
    measurements = Measurements()
    for turn in range(rounds):
        for job in jobs:
            for program in programs:
                measure_once(measurements, program, job, budget_s)
            told = ", ".join(f"{program.name} {measurements.times_us[(job, program.name)][-1]:.1f}"
                             for program in programs if (job, program.name) in measurements.times_us)
            print(f"round {turn + 1} of {rounds}, {job.collective}, {job.ranks} ranks, {job.bytes} bytes, "
                  f"us: {told}",
                  flush=True)
    return measurements

"""scripts/bench-peers: whose numbers count, which targets they meet, and what the report keeps. With
programs that print set times instead of measuring."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from peerlib import programs, report, rounds

MiB = 1 << 20


class Scripted(programs.Program):
    """Takes the given times, one by one; says in `log` when it ran."""

    def __init__(self, name, times_us, log=None):
        super().__init__()
        self.name, self.left, self.log = name, list(times_us), [] if log is None else log

    def command(self, job, iterations, warmup):
        self.log.append(self.name)
        time_us = self.left.pop(0)
        if time_us is None:
            return ["sh", "-c", "echo no such collective >&2; exit 2"]
        return ["echo", f'{{"collective": "{job.collective}", "ranks": {job.ranks}, "bytes": {job.bytes}, '
                        f'"time_us": {time_us}}}']


def rates_of(job, **GBps):
    measurements = rounds.Measurements()
    for name, rate in GBps.items():
        measurements.add(job, name.replace("_", " "), job.bytes / rate * 1e-3)
    return measurements


class RoundsTest(unittest.TestCase):
    job = rounds.Job("allreduce", 4, 64 * MiB, False)

    def test_programs_take_turns(self):
        log = []
        rounds.measure([Scripted("a", [1, 1], log), Scripted("b", [1, 1], log)], [self.job], 2, 0.001)
        self.assertEqual(log, ["a", "b", "a", "b"])

    def test_the_median_leaves_out_the_first_of_several_rounds(self):
        several = rounds.measure([Scripted("a", [900, 3, 1, 2])], [self.job], 4, 0.001)
        one = rounds.measure([Scripted("a", [900])], [self.job], 1, 0.001)
        self.assertEqual(several.time_us(self.job, "a"), 2)
        self.assertEqual(one.time_us(self.job, "a"), 900)

    def test_a_program_that_fails_is_reported_and_not_tried_again(self):
        failing = Scripted("a", [None])
        measurements = rounds.measure([failing, Scripted("b", [1, 1])], [self.job], 2, 0.001)
        self.assertIsNone(measurements.time_us(self.job, "a"))
        self.assertEqual(measurements.time_us(self.job, "b"), 1)
        self.assertIn("a, allreduce, 1 of the cells: no such collective",
                      report.failures([failing], measurements))

    def test_a_measurement_of_something_else_is_no_measurement(self):
        program = Scripted("a", [1])
        program.command = lambda *_: ["echo",
                                      '{"collective": "allreduce", "ranks": 2, "bytes": 8, "time_us": 1}']
        with self.assertRaisesRegex(programs.Failure, "2 ranks, 8 bytes"):
            program.time_us(self.job, 1, 1)

    def test_a_program_that_hangs_is_ended(self):
        with self.assertRaisesRegex(programs.Failure, "not done after 0.2 s"):
            programs.run(["sleep", "60"], timeout_s=0.2)


    def test_rates_and_the_gain_are_told_as_they_come(self):
        measurements = rates_of(self.job, limit=10, blinkd=8, gloo=1, Open_MPI=2)
        compared = [Scripted(name, []) for name in ("limit", "blinkd", "Open MPI", "gloo")]
        self.assertEqual(rounds.told(compared, self.job, measurements),
                         "allreduce, 4 ranks, 64 MiB, GB/s: limit 10.00, blinkd 8.00, Open MPI 2.00, "
                         "gloo 1.00; blinkd is 4.00 times as fast as Open MPI")

    def test_no_job_begins_when_the_time_is_over(self):
        slow = Scripted("a", [1, 1])
        slow.command = lambda *_: ["sh", "-c", "sleep 0.2; exit 1"]
        jobs = [self.job, rounds.Job("allreduce", 2, MiB, False)]
        measurements = rounds.measure([slow], jobs, 1, 0.001, 0.1)
        self.assertEqual(len(measurements.failures), 1)


class ScriptTest(unittest.TestCase):
    def test_a_tracked_file_is_not_written(self):
        top = pathlib.Path(__file__).resolve().parents[2]
        before = (top / "docs/results/host.md").read_text()
        run = subprocess.run([top / "scripts/bench-peers", "--out", top / "docs/results/host.md"],
                             capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, "git tracks that file" in run.stderr), (2, True), run.stderr)
        self.assertEqual((top / "docs/results/host.md").read_text(), before)


class TargetsTest(unittest.TestCase):
    def judge(self, job, **GBps):
        verdicts = report.Verdicts()
        text = report.large_table([job], ["limit", "blinkd", "Open MPI", "gloo"], rates_of(job, **GBps),
                                  verdicts)
        return verdicts.met, len(verdicts.missed), text

    def test_allreduce_of_64_MiB(self):
        job = rounds.Job("allreduce", 8, 64 * MiB, False)
        self.assertEqual(self.judge(job, limit=10, blinkd=8.6, Open_MPI=1, gloo=1)[:2], (3, 0))
        self.assertEqual(self.judge(job, limit=10, blinkd=8.4, Open_MPI=1.1, gloo=1.1)[:2], (0, 3))

    def test_another_collective_has_its_own_limit_as_target_alone(self):
        job = rounds.Job("broadcast", 8, 16 * MiB, False)
        self.assertEqual(self.judge(job, limit=10, blinkd=7.9, Open_MPI=7, gloo=7)[:2], (0, 1))

    def test_what_was_not_measured_is_neither_met_nor_missed(self):
        met, missed, text = self.judge(rounds.Job("allreduce", 2, MiB, False), limit=10, blinkd=9)
        self.assertEqual((met, missed), (0, 0))
        self.assertIn("≥ 1.5: no number", text)

    def test_small_messages_against_open_mpi_but_with_two_ranks_against_a_time(self):
        verdicts, measurements = report.Verdicts(), rounds.Measurements()
        two, four = rounds.Job("allreduce", 2, 8, True), rounds.Job("allreduce", 4, 8, True)
        for job in (two, four):
            measurements.add(job, "blinkd", 7.0)
            measurements.add(job, "Open MPI", 1.0)
        report.small_table([two, four], ["blinkd", "Open MPI"], measurements, verdicts)
        self.assertEqual((verdicts.met, len(verdicts.missed)), (1, 1))
        self.assertIn("4 ranks", verdicts.missed[0])


class ReportTest(unittest.TestCase):
    def test_what_was_written_by_hand_stays(self):
        job = rounds.Job("allreduce", 2, MiB, False)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "results/host.md"
            report.write(path, "# First", [job], [Scripted("blinkd", [])], rates_of(job, blinkd=1))
            path.write_text(path.read_text().replace(report.NO_NOTES,
                                                     "## Notes\n\nLong lines  stay.\n\n| a |"))
            report.write(path, "# Second", [job], [Scripted("blinkd", [])], rates_of(job, blinkd=2))
            text = path.read_text()
            elsewhere = pathlib.Path(directory) / "host.md"
            report.write(elsewhere, "# Third", [job], [Scripted("blinkd", [])], rates_of(job, blinkd=2), path)
            self.assertIn("Long lines  stay.", elsewhere.read_text())
        self.assertTrue(text.startswith("# Second"))
        self.assertIn(f"{report.BEGIN}\n## Notes\n\nLong lines  stay.\n\n| a |\n{report.END}", text)
        self.assertIn("2.00", text)


if __name__ == "__main__":
    unittest.main()

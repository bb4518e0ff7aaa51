"""scripts/gpu-bench and gpu-test without a GPU: what the report says of given times, and that nothing is
said without any."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from gpulib import machine, packages, report, toolkit
from gpulib.processes import Failure
from gpulib.results import ISOLATED, MPS, STREAM, Cell, MiB, Results, moved_bytes
from gpulib.rows import Row, Skip, Table


def line(collective="allreduce", devices=8, count=256 * MiB, time_us=1000.0, wrong=0):
    return {"collective": collective, "ranks": devices, "bytes": count, "time_us": time_us,
            "time_us_p99": 2 * time_us, "wrong": wrong}


class ToolkitTest(unittest.TestCase):
    """One table says to both what kernels are compiled to."""
    def code_by_cmake(self, version):
        with tempfile.NamedTemporaryFile("w", suffix=".cmake") as script:
            script.write(f"include({SCRIPTS.parent}/cmake/cuda.cmake)\nblink_cuda_code({version} code)\n"
                         "foreach(one IN LISTS code)\nmessage(${one})\nendforeach()\n")
            script.flush()
            done = subprocess.run(["cmake", "-DBLINK_CUDA=OFF", "-P", script.name], capture_output=True,
                                  text=True, check=True)
        return done.stderr.split()

    def test_what_each_toolkit_compiles_to(self):
        for version, added in [("12.0", ["70"]), ("12.6", ["70"]), ("12.8", ["70", "100", "120"]),
                               ("12.9", ["70", "100", "120"]), ("13.0", ["100", "120"]),
                               ("13.5", ["100", "120"])]:
            code = toolkit.code(version)
            made = re.findall(r"sm_(\d+)", " ".join(code))
            self.assertEqual(sorted(made, key=int), sorted(["75", "80", "86", "89", "90", *added], key=int))
            self.assertEqual("".join(code).count("compute_90"), 2)  # the target, and the PTX for later GPUs
            self.assertEqual(self.code_by_cmake(version), code)
        self.assertEqual(toolkit.code("11.8"), [])


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.results = Results("nobody was there")
        self.results.copy_GBps = 4000.0

    def row(self, beginning):
        text = report.write("# Head", self.results)
        [found] = [row for row in text.splitlines() if row.startswith(f"| {beginning} ")]
        return [cell.strip() for cell in found.strip("|").split("|")]

    def test_what_has_to_move(self):
        for collective, blocks in [("allreduce", 16), ("broadcast", 9), ("reduce", 9), ("allgather", 9),
                                   ("reducescatter", 9), ("alltoall", 16), ("sendrecv", 16)]:
            self.assertEqual(moved_bytes(Cell(ISOLATED, STREAM, collective, 8, 1000)), 1000 * blocks)

    def test_bars_are_judged(self):
        moved = 2 * 8 * 256 * MiB
        for sharing, ratio, verdict in [(ISOLATED, 0.86, "met"), (MPS, 0.84, "not met")]:
            self.results.add(sharing, STREAM, line(time_us=moved / (ratio * 4000.0) / 1e3))
            cells = self.row(f"allreduce, 256 MiB, 8 devices, {sharing}, of the copy")
            self.assertEqual(cells[-2:], [str(ratio), verdict])
        self.results.add(MPS, STREAM, line(count=8, time_us=25.0))
        self.assertEqual(self.row("allreduce, 8 B, 8 devices, mps, call to end on a stream, µs")[-2:],
                         ["25.0", "met"])

    def test_what_is_not_there_has_its_reason(self):
        self.results.refuse_sharing(MPS, "no MPS")
        self.results.refuse_run(ISOLATED, STREAM, "allreduce", 4, "it hung")
        self.results.add(ISOLATED, STREAM, line(wrong=3))
        text = report.write("# Head", self.results)
        for reason in ["nobody was there", "no MPS", "allreduce, 4 devices, isolated: it hung",
                       "3 elements were wrong"]:
            self.assertRegex(text, rf"- \(\d+\) {reason}\.")
        self.assertEqual(self.row("allreduce, 256 MiB, 8 devices, isolated, of the copy")[-1], "–")

    def test_the_report_that_is_there_is_one_of_these(self):
        written = (SCRIPTS.parent / "docs/results/gpu.md").read_text(encoding="utf-8")
        headings = [part for part in report.write("", Results("x")).splitlines() if part.startswith("## ")]
        self.assertEqual([part for part in written.splitlines() if part.startswith("## ")], headings)


class TableTest(unittest.TestCase):
    def run_rows(self, budget_s, *checks):
        table = Table(budget_s)
        table.say = table.lines.append
        for i, check in enumerate(checks):
            table.run(Row(f"row {i}", "command", check))
        return table

    def test_verdicts(self):
        def fails(_):
            raise Failure("it broke")

        def cannot(_):
            raise Skip("no such tool")
        table = self.run_rows(60, lambda _: None, fails, cannot)
        self.assertEqual(table.summary(), "1 passed, 1 failed, 1 skipped")
        self.assertIn("it broke", "\n".join(table.lines))
        self.assertIn("no such tool", "\n".join(table.lines))

    def test_nothing_begins_when_the_budget_is_spent(self):
        table = self.run_rows(0, lambda _: self.fail("it began"))
        self.assertEqual(table.summary(), "0 passed, 0 failed, 1 skipped")


class ScriptsTest(unittest.TestCase):
    @unittest.skipIf(machine.find_driver(), "there is a CUDA driver")
    def test_without_a_gpu_they_say_so_and_write_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            out = pathlib.Path(directory, "gpu.md")
            for command in (["gpu-test"], ["gpu-bench", "--out", str(out)]):
                done = subprocess.run([SCRIPTS / command[0], *command[1:]], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn("GPU", done.stderr)
            self.assertFalse(out.exists())

    def test_all_that_a_build_needs_is_carried_along(self):
        """But for what the other machine has, or nothing would help."""
        carried = packages.roots()
        self.assertIn("libncurses-dev", carried)
        self.assertNotIn("gcc", carried)
        for name in [*carried, "nettle-dev", "zlib1g-dev"]:
            self.assertTrue(packages.is_carried(name), name)
        for name in ("  Depends: libgmp-dev", "libc6-dev", "linux-libc-dev"):
            self.assertFalse(packages.is_carried(name), name)

    def test_packages_never_replace_files_and_go_through_links(self):
        with tempfile.TemporaryDirectory() as directory:
            source, target = pathlib.Path(directory, "source"), pathlib.Path(directory, "target")
            for place in (source / "lib", target / "usr/lib"):
                place.mkdir(parents=True)
            (target / "lib").symlink_to("usr/lib")
            (target / "usr/lib/here").write_text("old")
            (source / "lib/here").write_text("new")
            (source / "lib/missing").write_text("new")
            packages.copy_missing(source, target)
            self.assertEqual((target / "usr/lib/here").read_text(), "old")
            self.assertEqual((target / "usr/lib/missing").read_text(), "new")

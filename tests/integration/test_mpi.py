"""Programs of Open MPI and MPICH over blinkd's library, compared with what MPI itself does: blink-mpi-openmpi
and blink-mpi-mpich, which are linked with it, and Python with mpi4py, before which blink-mpi-run puts it."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from harness import IntegrationTest

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
MPI4PY_RANKS = pathlib.Path(__file__).parent / "programs" / "mpi4py_ranks.py"
ONLY_FEW = "4096"  # bytes; the scenarios have smaller calls, too
#: More ranks than cores, any user; and MPI's libraries leak what they have at the end.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",  # so that a sender has to do something
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "ASAN_OPTIONS": "detect_leaks=0", "BLINK_DEBUG": "info",
}


class MpiTest(IntegrationTest):
    def start_mpi(self, mpi, ranks, command, socket, **variables):
        return self.start([f"mpirun.{mpi}", "-n", ranks, *command],
                          env={**os.environ, **ENVIRONMENT, "BLINK_SOCKET": socket, **variables})

    def start_scenario(self, mpi, scenarios, socket, ranks, **variables):
        program = BUILD / "bin" / f"blink-mpi-{mpi}"
        if not program.exists():
            print(f"SKIPPED: {mpi} is not installed (scripts/setup test installs it)", file=sys.stderr)
            raise unittest.SkipTest(f"no {mpi}")
        return self.start_mpi(mpi, ranks, [program, *scenarios], socket, **variables)

    def finish(self, process):
        """How many calls of each collective blinkd and MPI have done, as rank 0 tells."""
        self.assertEqual(process.wait(), 0, process.describe())
        return {name: (int(by_blinkd), int(by_mpi)) for name, by_blinkd, by_mpi in re.findall(
            r"(MPI_\w+): (\d+) calls \(\d+ bytes\) by blinkd, (\d+) by MPI", process.stderr())}


class Collectives(MpiTest):
    def check_all(self, mpi, ranks):
        """Until the daemon is lost, in the same job."""
        daemon = self.daemon()
        process = self.start_scenario(mpi, ["collectives", "progress", "lost"], daemon.socket, ranks,
                                      BLINK_MPI_MIN_BYTES=ONLY_FEW)
        process.wait_for("ready", lambda job: "ready" in job.stdout())
        daemon.kill()
        process.say()
        counts = self.finish(process)
        self.assertEqual(len(counts), 9, counts)
        for name, (by_blinkd, by_mpi) in counts.items():
            self.assertGreater(by_blinkd, 0, name)
            self.assertEqual(by_mpi > 0, name != "MPI_Allgatherv", name)

    def test_of_open_mpi(self):
        self.check_all("openmpi", 3)

    def test_of_mpich(self):
        self.check_all("mpich", 2)

    def test_memory_counts_only_if_all_ranks_have_it_from_the_daemon(self):
        counts = self.finish(self.start_scenario("openmpi", ["memory"], self.daemon().socket, 2))
        self.assertEqual(counts["MPI_Bcast"], (3, 3))

    def test_a_rank_that_keeps_no_record_holds_up_nobody(self):
        counts = self.finish(self.start_scenario("openmpi", ["unkept"], self.daemon().socket, 2,
                                                 BLINK_MPI_MIN_BYTES=ONLY_FEW))
        self.assertEqual(counts, {"MPI_Allreduce": (2, 0)})

    def test_ranks_that_were_started_later_are_for_mpi(self):
        counts = self.finish(self.start_scenario("openmpi", ["spawn"], self.daemon().socket, 1,
                                                 BLINK_MPI_MIN_BYTES=ONLY_FEW))
        self.assertEqual(counts, {})

    @unittest.skipIf(os.environ.get("SANITIZE"), "a sanitizer has to be the first library of a process")
    def test_of_mpi4py(self):
        python = next((each for each in (sys.executable, "/usr/bin/python3") if subprocess.run(
            [each, "-c", "import mpi4py, numpy"], capture_output=True, check=False).returncode == 0), None)
        self.assertIsNotNone(python, "no Python here has mpi4py and NumPy: scripts/setup test installs both")
        command = [BUILD / "bin" / "blink-mpi-run", python, MPI4PY_RANKS]
        counts = self.finish(self.start_mpi("openmpi", 2, command, self.daemon().socket))
        self.assertEqual({name: by_blinkd for name, (by_blinkd, _) in counts.items() if by_blinkd},
                         {"MPI_Allreduce": 2, "MPI_Bcast": 1})


class WithoutDaemon(MpiTest):
    def test_there_is_none(self):
        process = self.start_scenario("mpich", ["memory"], "/nowhere", 2, BLINK_MPI_MIN_BYTES="0")
        self.assertEqual(self.finish(process)["MPI_Bcast"], (0, 1))
        self.assertIn("MPI does all collectives of a communicator of 2 ranks: rank 0 has no daemon",
                      process.stderr())


class Settings(MpiTest):
    def test_what_they_should_be_is_told(self):
        process = self.start_scenario("mpich", ["memory"], "/nowhere", 1, BLINK_DEBUG="", BLINK_MPI="of",
                                      BLINK_MPI_MIN_BYTES="1X")
        self.assertEqual(process.wait(), 0, process.describe())
        self.assertRegex(process.stderr(), 'BLINK_MPI is "of", but should be on or off: MPI does everything')
        self.assertRegex(process.stderr(), 'BLINK_MPI_MIN_BYTES is "1X", but should be a number of bytes')

    def test_the_script_does_not_guess(self):
        status, _, err = self.run_command([BUILD / "bin" / "blink-mpi-run", "true"],
                                          env={"PATH": os.environ["PATH"]})
        self.assertEqual(status, 127)
        self.assertIn('as in "mpirun -n 4 blink-mpi-run true"', err)


if __name__ == "__main__":
    unittest.main()

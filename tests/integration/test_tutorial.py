"""The programs of docs/tutorial.md, built and run as they stand there, with an installed library."""
import os
import pathlib
import re
import subprocess

from harness import IntegrationTest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tutorial.md"
RANKS = 4


class TutorialTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(self.directory())
        prefix = self.place / "prefix"
        status, _, err = self.run_command(
            [os.environ["CMAKE"], "--install", os.environ["BUILD_DIR"], "--prefix", str(prefix)])
        self.assertEqual(status, 0, err)
        for name, text in re.findall(r"<!-- file: (\S+) -->\n```c\n(.*?)```", PAGE.read_text(), re.S):
            (self.place / name).write_text(text)
        packages = next(prefix.rglob("blinkclient.pc")).parent
        self.flags = subprocess.check_output(
            ["pkg-config", "--cflags", "--libs", "blinkclient"], text=True,
            env=dict(os.environ, PKG_CONFIG_PATH=str(packages))).split()
        self.libraries = str(next(prefix.rglob("libblinkclient.so")).parent)
        self.served = self.daemon(devices=RANKS)

    def run_program(self, name, *options):
        """What its ranks printed, sorted, and blinkrun's exit status."""
        program = str(self.place / name)
        sanitize = [f"-fsanitize={os.environ['SANITIZE']}"] if os.environ.get("SANITIZE") else []
        status, _, err = self.run_command(["cc", "-Wall", "-Wextra", program + ".c", *self.flags, *sanitize,
                                           "-o", program])
        self.assertEqual((status, err), (0, ""))
        environment = dict(os.environ, BLINK_SOCKET=self.served.socket, LD_LIBRARY_PATH=self.libraries)
        status, out, err = self.run_command([os.environ["BLINKRUN"], "-n", str(RANKS), *options, program],
                                            env=environment)
        return sorted(out.splitlines()), status, err

    def check(self, name, *lines):
        out, status, err = self.run_program(name)
        self.assertEqual((out, status), (sorted(lines), 0), err)

    def test_programs_print_what_the_page_says(self):
        self.check("sum", *[f"[{rank}] the sum is 6" for rank in range(RANKS)])
        self.check("overlap", *[f"[{rank}] averages from 1.5 to 8.5" for rank in range(RANKS)])
        self.check("ring", *[f"[{rank}] received from rank {(rank - 1) % RANKS}" for rank in range(RANKS)])
        self.check("loop", *[f"[{rank}] done, whatever else there was to do" for rank in range(RANKS)])

    def test_survivors_go_on(self):
        out, status, _ = self.run_program("survive", "--keep-going")
        self.assertNotEqual(status, 0)
        for rank in range(RANKS):
            rounds = [line for line in out if line.startswith(f"[{rank}] ")]
            before = [f"[{rank}] round {number}: 4 ranks" for number in range(3)]
            after = [f"[{rank}] round {number}: 3 ranks" for number in range(4, 6)]
            # What rank 2 had printed was in its process.
            self.assertEqual(rounds, [] if rank == 2 else before + after)

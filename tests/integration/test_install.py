"""What an application meets: an installed library that exports only its own names, and the example of
docs/program.md."""
import os
import pathlib
import re
import subprocess
import unittest

from harness import LIMIT_S, IntegrationTest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "program.md"


class InstallTest(IntegrationTest):
    def install(self):
        """The build installed under a temporary prefix."""
        prefix = os.path.join(self.directory(), "prefix")
        status, _, err = self.run_command(
            [os.environ["CMAKE"], "--install", os.environ["BUILD_DIR"], "--prefix", prefix]
        )
        self.assertEqual(status, 0, err)
        return pathlib.Path(prefix)

    def test_only_public_names_are_exported(self):
        library = next((self.install()).rglob("libblinkclient.so"))
        _, out, _ = self.run_command(["nm", "-D", "--defined-only", str(library)])
        names = {line.split()[-1] for line in out.splitlines()} - {"BLINK_0.1"}
        self.assertIn("blink_all_reduce@@BLINK_0.1", names)
        self.assertEqual([name for name in names if not re.fullmatch(r"blink_\w+@@BLINK_0\.1", name)], [])

    def test_example_of_the_page_builds_as_shown_and_runs(self):
        prefix = self.install()
        text = re.search(r"```c\n(.*?)```", PAGE.read_text(), re.S)[1]
        source = self.write_file("example.c", text)
        program = source.removesuffix(".c")
        packages = next(prefix.rglob("blinkclient.pc")).parent
        environment = dict(os.environ, PKG_CONFIG_PATH=str(packages))
        flags = subprocess.check_output(
            ["pkg-config", "--cflags", "--libs", "blinkclient"], env=environment, text=True,
        ).split()
        sanitize = [f"-fsanitize={os.environ['SANITIZE']}"] if os.environ.get("SANITIZE") else []
        status, _, err = self.run_command(["cc", source, *flags, *sanitize, "-o", program])
        self.assertEqual(status, 0, err)
        daemon = self.daemon()
        libraries = str(next(prefix.rglob("libblinkclient.so")).parent)
        done = subprocess.run(
            [program], env=dict(os.environ, BLINK_SOCKET=daemon.socket, LD_LIBRARY_PATH=libraries),
            capture_output=True, text=True, timeout=LIMIT_S, check=True,
        )
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank}: 6" for rank in range(4)])


if __name__ == "__main__":
    unittest.main()

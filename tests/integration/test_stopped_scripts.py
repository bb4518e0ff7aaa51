"""scripts/demo, scripts/demo-hosts and scripts/readme-test that are stopped: what they started ends, and what
they made goes."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from hostlib import enter  # noqa: E402

SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
# What a root needs for a user's shell that sleeps, and for its owner to be set.
ROOT_PROGRAMS = ["bash", "chown", "env", "setpriv", "sleep"]


def may_make_roots():
    unshared = ["unshare", "--mount", "--pid", "--fork", "true"]
    return os.getuid() == 0 and \
        subprocess.run(unshared, stderr=subprocess.DEVNULL, check=False).returncode == 0


def copy_into(root, program):
    """The program and the libraries that it is linked with, at their own places."""
    path = shutil.which(program)
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    for file in [path] + [word for word in listed.split() if word.startswith("/")]:
        target = root / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def make_base(base):
    for folder in ("proc", "sys", "dev", "etc", "usr/bin", "usr/lib", "usr/lib64", "home/you"):
        (base / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (base / link).symlink_to(f"usr/{link}")
    for program in ROOT_PROGRAMS:
        copy_into(base, program)
    (base / "etc/passwd").write_text("root:x:0:0::/:/bin/bash\nyou:x:1000:1000::/home/you:/bin/bash\n")
    (base / "etc/group").write_text("root:x:0:\nyou:x:1000:\n")


class StoppedScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.log = self.top / "log"
        (self.top / "scripts").mkdir()
        (self.top / "tmp").mkdir()
        self.second = 100000 + os.getpid() # by what `sleep` is known
        self.addCleanup(self.end_sleepers)

    def sleepers(self):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cmdline").read_bytes() == f"sleep\0{self.second}\0".encode():
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    def end_sleepers(self):
        for pid in self.sleepers():
            os.kill(pid, signal.SIGKILL)

    def wait_until(self, condition, what):
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what}; the log: {self.log.read_text()}")
            time.sleep(0.02)

    def write(self, name, text, mode=0o755):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def stop_while_asleep(self, script, number, asleep=1):
        """Starts the script, sends it the signal when so many sleep, and waits for its end."""
        def heed_signals(): # a shell cannot trap what its parent had it ignore
            for heeded in SIGNALS:
                signal.signal(heeded, signal.SIG_DFL)

        environment = dict(os.environ, TMPDIR=str(self.top / "tmp"),
                           PATH=f"{self.top}/bin:{os.environ['PATH']}")
        with self.log.open("w") as log:
            process = subprocess.Popen([self.top / "scripts" / script], stdout=log, stderr=log,
                                       env=environment, preexec_fn=heed_signals)
        try:
            self.wait_until(lambda: len(self.sleepers()) == asleep or process.poll() is not None,
                            f"{asleep} never slept")
            self.assertIsNone(process.poll(), self.log.read_text())
            process.send_signal(number)
            self.assertEqual(process.wait(120), 128 + number, self.log.read_text())
        finally:
            process.kill()
            process.wait()
        self.wait_until(lambda: not self.sleepers(), "somebody sleeps on")
        self.assertEqual(os.listdir(self.top / "tmp"), [])

    def prepare_demo(self, targets=""):
        for name in ("demo", "demo-hosts"):
            shutil.copy(SCRIPTS / name, self.top / "scripts")
        for name in ("demolib", "figurelib", "hostlib", "peerlib"):
            shutil.copytree(SCRIPTS / name, self.top / "scripts" / name)
        self.write("scripts/setup", "#!/bin/sh\n")
        self.write("CMakeLists.txt",
                   "cmake_minimum_required(VERSION 3.25)\nproject(standin NONE)\n" + targets)

    def test_demo_while_it_builds(self):
        self.prepare_demo(f"add_custom_target(slow ALL COMMAND sleep {self.second})\n")
        for script in ("demo", "demo-hosts"):
            for number in SIGNALS:
                with self.subTest(script=script, signal=number.name):
                    self.stop_while_asleep(script, number)

    def test_demo_while_it_measures(self):
        self.prepare_demo()
        sleeps = f"#!/bin/sh\nexec sleep {self.second}\n"
        self.write("build/demo/bin/blinkd", sleeps)
        self.write("build/demo/bin/blink-perf", sleeps)
        self.write("build/demo/bin/blinkctl", "#!/bin/sh\n"
                   "printf '\"%s\": 1\\n' pace_scale rate_GBps bound_GBps\n")
        for number in SIGNALS:
            with self.subTest(signal=number.name):
                self.stop_while_asleep("demo", number, asleep=2)

    @unittest.skipIf(enter.why_not(), "needs namespaces")
    def test_demo_hosts_while_a_daemon_starts_on_each_host(self):
        self.prepare_demo()
        self.write("build/demo/bin/blinkd", f"#!/bin/sh\nexec sleep {self.second}\n")
        self.write("build/demo/bin/blinkctl", "#!/bin/sh\n")
        for number in SIGNALS:
            with self.subTest(signal=number.name):
                self.stop_while_asleep("demo-hosts", number, asleep=2)

    @unittest.skipIf(enter.why_not(), "needs namespaces")
    def test_demo_hosts_that_fails_says_why(self):
        self.prepare_demo()
        self.write("build/demo/bin/blinkd",
                   f"#!/bin/sh\nsleep {self.second} &\necho it is too cold >&2\nexit 1\n")
        self.write("build/demo/bin/blinkctl", "#!/bin/sh\n")
        done = subprocess.run([self.top / "scripts/demo-hosts"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, TMPDIR=str(self.top / "tmp")))
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("blinkd on n1 does not start: it is too cold", done.stderr)
        self.assertEqual((self.sleepers(), os.listdir(self.top / "tmp")), ([], []))

    @unittest.skipUnless(os.getuid() == 0 and not enter.why_not(), "needs root and namespaces")
    def test_demo_hosts_by_root_leaves_what_it_built_to_the_owner_of_the_checkout(self):
        self.prepare_demo()
        owner = 1000
        os.chown(self.top, owner, owner)
        done = subprocess.run([self.top / "scripts/demo-hosts"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, TMPDIR=str(self.top / "tmp")))
        self.assertEqual(done.returncode, 1, done) # the project has no daemon
        build = self.top / "build"
        built = [build, *build.rglob("*")]
        self.assertIn(build / "demo/CMakeCache.txt", built)
        self.assertEqual([path for path in built if path.lstat().st_uid != owner], [])

    def prepare_readme_test(self):
        shutil.copy(SCRIPTS / "readme-test", self.top / "scripts")
        self.write("README.md", f"```sh\nsleep {self.second} &\nsleep {self.second}\n```\n")
        for page in ("docs/run.md", "docs/program.md", "docs/measure.md", "docs/gpu.md", "CONTRIBUTING.md"):
            self.write(page, "")
        subprocess.run(["git", "init", "-q", self.top], check=True)

    @unittest.skipUnless(may_make_roots(), "needs root and namespaces")
    def test_readme_test_while_commands_run(self):
        self.prepare_readme_test()
        make_base(self.top / "build/readme/base")
        for number in SIGNALS:
            with self.subTest(signal=number.name):
                self.stop_while_asleep("readme-test", number, asleep=2)
                self.assertEqual(sorted(os.listdir(self.top / "build/readme")), ["base", "log"])

    @unittest.skipUnless(may_make_roots(), "needs root and namespaces")
    def test_readme_test_while_it_makes_the_base(self):
        self.prepare_readme_test()
        self.write("bin/apt-get", "#!/bin/sh\n. /etc/os-release\necho http://mirror $VERSION_CODENAME\n")
        self.write("bin/debootstrap", f'#!/bin/sh\nmkdir -p "$4/proc"\nmount -t proc proc "$4/proc"\n'
                   f'sleep {self.second}\n')
        for number in SIGNALS:
            with self.subTest(signal=number.name):
                self.stop_while_asleep("readme-test", number)
                self.assertEqual(os.listdir(self.top / "build/readme"), ["base.log"])


if __name__ == "__main__":
    unittest.main()

"""blinkrun: what it starts, what it passes on, and that nothing is left when it has ended."""
import json
import os
import re
import signal
import sys

from harness import BLINK_PERF, BLINK_RANK, is_alive
from launchers import STEPS, LaunchTest, untold

BLINKRUN = os.environ["BLINKRUN"]

#: Says its number, and waits to be ended.
WAIT = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(1)"
#: The same, deaf to SIGTERM.
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT


class RunTest(LaunchTest):
    def start_run(self, *arguments, **told):
        return self.start([BLINKRUN, *arguments], env={**untold(), **told})

    def start_python(self, rank_count, program, *arguments):
        return self.start_run("-n", rank_count, *arguments, sys.executable, "-c", program)

    def pids(self, run, count):
        """Of so many processes that have said their number."""
        def said(run):
            return [int(line.split()[-1]) for line in run.stdout().splitlines()]
        run.wait_for(f"{count} processes", lambda run: len(said(run)) == count)
        return said(run)

    def check_gone(self, pids):
        self.until(lambda: not any(map(is_alive, pids)))

    def failing(self, rank, status):
        """What has this rank fail once the gate is there, and the gate."""
        gate = os.path.join(self.directory(), "gate")
        return ("import os, sys, time\n"
                f"if os.environ['BLINK_RANK'] == '{rank}':\n"
                f"  while not os.path.exists({gate!r}): time.sleep(0.01)\n"
                f"  sys.exit({status})\n"), gate

    def open_gate(self, gate):
        with open(gate, "w", encoding="utf-8"):
            pass

    def fake_ssh(self, body='shift; exec sh -c "$*"'):
        path = self.write_file("ssh", f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)
        return path


class Here(RunTest):
    def test_ranks_meet(self):
        daemon = self.daemon()
        run = self.start_run("-n", 4, "--no-prefix", BLINK_RANK, "--socket", daemon.socket, *STEPS)
        self.assertEqual(run.wait(), 0, run.describe())
        steps = [json.loads(line) for line in run.stdout().splitlines()]
        self.assertEqual({step["result"] for step in steps}, {"BLINK_OK"}, steps)
        self.assertEqual(sorted(step["text"] for step in steps if step["step"] == "launched"),
                         sorted(2 * [f"{rank} of 4, local {rank}, device {rank}" for rank in range(4)]))

    def test_blink_perf_prints_one_table(self):
        daemon = self.daemon()
        run = self.start_run("-n", 2, BLINK_PERF, "--socket", daemon.socket, "allreduce", "-b", "1K", "-e",
                             "1K", "-n", 2)
        self.assertEqual(run.wait(), 0, run.describe())
        self.assertEqual(sum(" 1024 " in line for line in run.stdout().splitlines()), 1, run.describe())

    def test_lines_stay_whole(self):
        program = ("import os, sys\nfor i in range(300):\n"
                   "  for c in 'line %d of %s\\n' % (i, os.environ['BLINK_RANK']): os.write(1, c.encode())\n"
                   "os.write(1, b'no line feed')")
        run = self.start_python(3, program)
        self.assertEqual(run.wait(), 0)
        lines = run.stdout().splitlines()
        for rank in range(3):
            own = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] line {i} of {rank}" for i in range(300)] +
                             [f"[{rank}] no line feed"])
        self.assertEqual(len(lines), 3 * 301)

    def test_long_lines_are_broken(self):
        run = self.start_python(1, "print('x' * 40000)", "--no-prefix")
        self.assertEqual(run.wait(), 0)
        self.assertEqual(run.stdout().replace("\n", ""), "x" * 40000)
        self.assertEqual(len(run.stdout().splitlines()), 3)

    def test_standard_error_stays_standard_error(self):
        run = self.start_python(2, "import sys\nprint('no', file=sys.stderr)\nprint(sys.stdin.read() == '')")
        self.assertEqual(run.wait(), 0)
        self.assertEqual(sorted(run.stdout().splitlines()), ["[0] True", "[1] True"])
        self.assertEqual(sorted(run.stderr().splitlines()), ["[0] no", "[1] no"])

    def test_that_no_daemon_answers_is_said_once(self):
        nowhere = os.path.join(self.directory(), "blinkd.sock")
        run = self.start_run("-n", 4, "--keep-going", BLINK_PERF, "--socket", nowhere, "allreduce")
        self.assertEqual(run.wait(), 3)
        said = run.stderr().splitlines()
        self.assertEqual(len([line for line in said if "no daemon answers on " + nowhere in line]), 1, said)
        self.assertEqual(len([line for line in said if "ended with exit status 3" in line]), 4, said)

    def test_what_is_no_more_than_alike_is_said_by_each(self):
        for program in ("raise SystemExit('no daemon answers on ' + os.environ['BLINK_RANK'])",
                        "raise SystemExit('Traceback\\nno daemon answers on earth')",
                        "print('no daemon answers on earth')", "raise SystemExit('no daemon')"):
            run = self.start_python(3, "import os, sys\n" + program, "--keep-going")
            run.wait()
            said = [line for line in (run.stdout() + run.stderr()).splitlines() if "no daemon" in line]
            self.assertEqual(sorted(line[:3] for line in said), ["[0]", "[1]", "[2]"], program)

    def test_jobs_are_named_by_the_user_or_the_program(self):
        program = "import os; print(os.environ['BLINK_JOB'])"
        own = re.sub(r"[^\w.-]", "_", os.path.basename(sys.executable))[:30]
        jobs = set()
        for words, name in [([], own), ([], own), (["--name", "train-7"], "train-7"),
                            (["--name", 30 * "a"], 30 * "a"),
                            (["--name", "far", "--hosts", "a,b", "--ssh", self.fake_ssh()], "far")]:
            run = self.start_python(2, program, "--no-prefix", *words)
            self.assertEqual(run.wait(), 0, run.describe())
            [job] = set(run.stdout().split())
            self.assertRegex(job, rf"^{re.escape(name)}-[0-9a-f]{{16}}$")
            jobs.add(job)
        self.assertEqual(len(jobs), 5)

    def test_options_of_the_program_are_its_own(self):
        run = self.start_run("-n", 1, "--no-prefix", "echo", "-n", "--hosts", "-x")
        self.assertEqual((run.wait(), run.stdout()), (0, "--hosts -x\n"))

    def test_bad_usage(self):
        for arguments, said in [([], "start which program?"), (["true"], "how many ranks? -n N"),
                                (["-n", "0", "true"], "-n 0: a number from 1 to 4096"),
                                (["-n", "2", "--hosts", "a,b,c", "true"], "3 hosts for 2 ranks"),
                                (["-n", "2", "--hosts", ",", "true"], "no host is named"),
                                (["-n", "2", "--name", "a b", "true"], '--name "a b": 1 to 30 letters'),
                                (["-n", "2", "--name", "", "true"], "1 to 30 letters"),
                                (["-n", "2", "--name", 31 * "a", "true"], "1 to 30 letters"),
                                (["-n", "2", "--hosts", "a,-b", "true"], "\"-b\" is no host"),
                                (["-n", "2", "--hosts", "a,a", "true"], "a is named twice"),
                                (["-n", "2", "--hosts", "a[1-x]", "true"], "a[1-x]\": brackets have numbers"),
                                (["-n", "2", "--hosts", "a[1", "true"], "a[1\": brackets have numbers"),
                                (["-n", "2", "--hosts", "a[0-4294967295]", "true"], "brackets have numbers"),
                                (["-n", "2", "--hosts", "a[0-2000000000]", "true"], "--hosts: at most 1024"),
                                (["-n", "9", "--hosts", "a[0-2],a1", "true"], "a1 is named twice"),
                                (["-n", "2", "--hosts", "localhost,b", "true"], "find the first one by its")]:
            with self.subTest(arguments=arguments):
                run = self.start_run(*arguments)
                self.assertEqual(run.wait(), 2)
                self.assertIn(said, run.stderr())

    def test_a_program_that_is_not_there(self):
        run = self.start_run("-n", 3, "/nonexistent/program")
        self.assertEqual(run.wait(), 1)
        self.assertEqual(run.stderr(), "blinkrun: /nonexistent/program: No such file or directory\n")


class Ending(RunTest):
    def test_the_first_failure_ends_all(self):
        program, gate = self.failing(1, 7)
        run = self.start_python(3, program + WAIT)
        pids = self.pids(run, 2)
        self.open_gate(gate)
        self.assertEqual(run.wait(), 7)
        self.assertEqual(run.stderr(), "blinkrun: rank 1 ended with exit status 7; the others are ended\n")
        self.check_gone(pids)

    def test_the_others_go_on_if_they_are_to(self):
        program, gate = self.failing(1, 7)
        for hosts in ([], ["--hosts", "a", "--ssh", self.fake_ssh()]):
            with self.subTest(hosts=hosts):
                run = self.start_python(3, program + WAIT, "--keep-going", *hosts)
                pids = self.pids(run, 2)
                self.open_gate(gate)
                said = "rank 1 ended with exit status 7; the others go on\n"
                run.wait_for("the failure", lambda run: said in run.stderr())
                self.assertTrue(all(map(is_alive, pids)))
                os.kill(pids[0], signal.SIGKILL)
                run.wait_for("the signal", lambda run: "was ended by signal 9 (Killed)" in run.stderr())
                os.kill(pids[1], signal.SIGTERM)
                self.assertEqual(run.wait(), 7, run.describe())
                os.unlink(gate)

    def test_a_signal_is_named(self):
        run = self.start_python(2, WAIT)
        pids = self.pids(run, 2)
        os.kill(pids[0], signal.SIGKILL)
        self.assertEqual(run.wait(), 128 + signal.SIGKILL)
        self.assertIn("was ended by signal 9 (Killed); the others are ended", run.stderr())
        self.check_gone(pids)

    def test_a_killed_rank_is_named_though_another_ends_before(self):
        """As those do that fail of its end, which the kernel may tell later."""
        program, gate = self.failing(1, 7)
        program += ("import signal\n"
                    "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGSEGV))\n")
        for hosts in ([], ["--hosts", "a,b", "--ssh", self.fake_ssh()]):
            with self.subTest(hosts=hosts):
                run = self.start_python(2, program + WAIT, *hosts)
                pids = self.pids(run, 1)
                self.open_gate(gate)
                self.assertEqual(run.wait(), 128 + signal.SIGSEGV, run.describe())
                self.assertIn("rank 1 ended with exit status 7", run.stderr())
                self.assertIn("blinkrun: rank 0 was ended by signal 11 (Segmentation fault)\n", run.stderr())
                self.check_gone(pids)
                os.unlink(gate)

    def test_a_rank_that_aborts_because_another_failed_is_not_the_cause(self):
        program, gate = self.failing(1, 3)
        program += "import signal\nsignal.signal(signal.SIGTERM, lambda *_: os.abort())\n"
        run = self.start_python(2, program + WAIT)
        pids = self.pids(run, 1)
        self.open_gate(gate)
        self.assertEqual(run.wait(), 3, run.describe())
        self.assertEqual(run.stderr(), "blinkrun: rank 1 ended with exit status 3; the others are ended\n")
        self.check_gone(pids)

    def test_who_is_deaf_is_killed(self):
        program, gate = self.failing(1, 3)
        run = self.start_python(2, program + DEAF)
        pids = self.pids(run, 1)
        self.open_gate(gate)
        self.assertEqual(run.wait(), 3)
        self.check_gone(pids)

    def test_signals_go_on_to_all(self):
        program = ("import os, signal, sys, time\n"
                   "def hear(number, frame):\n  print('heard', number, flush=True)\n  sys.exit(0)\n"
                   "signal.signal(signal.{0}, hear)\n" + WAIT)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                run = self.start_python(2, program.format(number.name))
                pids = self.pids(run, 2)
                run.child.send_signal(number)
                self.assertEqual(run.wait(), -number)
                self.assertEqual(run.stdout().count(f"heard {int(number)}"), 2, run.describe())
                self.check_gone(pids)

    def test_a_second_signal_ends_all_at_once(self):
        run = self.start_python(2, "import os, signal\n"
                                "def hear(*_): print('heard', os.getpid(), flush=True)\n"
                                "signal.signal(signal.SIGTERM, hear)\n" + WAIT)
        pids = self.pids(run, 2)
        run.child.send_signal(signal.SIGTERM)
        self.pids(run, 4)
        run.child.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), -signal.SIGTERM)
        self.check_gone(pids)

    def test_what_ranks_leave_running_is_killed(self):
        gate = os.path.join(self.directory(), "gate")
        program = ("import os, sys, time\n"
                   "if os.fork() == 0:\n" + "".join(f"  {line}\n" for line in DEAF.splitlines()) +
                   f"while not os.path.exists({gate!r}): time.sleep(0.01)\n")
        run = self.start_python(2, program)
        pids = self.pids(run, 2)
        self.open_gate(gate)
        self.assertEqual(run.wait(), 0, run.describe())
        self.check_gone(pids)

    def test_ranks_end_with_it(self):
        run = self.start_python(3, DEAF)
        pids = self.pids(run, 3)
        run.child.kill()
        self.assertEqual(run.wait(), -signal.SIGKILL)
        self.check_gone(pids)


class OtherHosts(RunTest):
    """Whose ssh runs everything here."""

    def test_ranks_are_shared_out(self):
        tell = "echo $BLINK_RANK of $BLINK_SIZE, $BLINK_LOCAL_RANK at $BLINK_RENDEZVOUS"
        run = self.start_run("-n", 5, "--hosts", "user@a,b", "--no-prefix", "--ssh", self.fake_ssh(),
                             "sh", "-c", tell)
        self.assertEqual(run.wait(), 0, run.describe())
        self.assertEqual(sorted(run.stdout().splitlines()),
                         [f"{rank} of 5, {local} at a" for rank, local in enumerate([0, 1, 2, 0, 1])])

    def test_hosts_may_be_ranges(self):
        ssh = self.write_file("ssh-that-names", '#!/bin/sh\necho "$1"\n')
        os.chmod(ssh, 0o755)
        run = self.start_run("-n", 9, "--hosts", "me@r[1-2]n[08-10,3],last", "--ssh", ssh, "true")
        run.wait()
        self.assertEqual(sorted(run.stdout().split()), sorted(
            ["last"] + [f"me@r{rack}n{node}" for rack in (1, 2) for node in ("08", "09", "10", "3")]))

    def test_words_arrive_as_they_are(self):
        words = ["it's", "a  b", "$HOME", "`x`", "\\", "", "*", "\"", "a\nb"]
        run = self.start_run("-n", 1, "--hosts", "b", "--no-prefix", "--ssh", self.fake_ssh(), sys.executable,
                             "-c", "import sys, os\nprint(sys.argv[1:], os.getcwd())", *words)
        self.assertEqual((run.wait(), run.stdout()), (0, f"{words} {os.getcwd()}\n"), run.describe())

    def test_a_rank_that_fails_ends_those_elsewhere(self):
        program, gate = self.failing(3, 9)
        run = self.start_python(4, program + DEAF, "--hosts", "a,b", "--ssh", self.fake_ssh())
        pids = self.pids(run, 3)
        self.open_gate(gate)
        self.assertEqual(run.wait(), 9)
        self.assertIn("rank 3 ended with exit status 9", run.stderr())
        self.assertIn("host b ended with exit status 9; the others are ended", run.stderr())
        self.check_gone(pids)

    def test_a_host_that_cannot_be_reached(self):
        ssh = self.fake_ssh('test "$1" != b || exit 255; shift; exec sh -c "$*"')
        run = self.start_python(2, WAIT, "--hosts", "a,b", "--ssh", ssh)
        self.assertEqual(run.wait(), 255)
        self.assertIn("host b cannot be reached, or is lost; the others are ended", run.stderr())

    def test_signals_go_on_to_all(self):
        program = ("import os, signal, sys, time\n"
                   "def hear(number, frame):\n  print('heard', number, flush=True)\n  sys.exit(0)\n"
                   "signal.signal(signal.SIGINT, hear)\n" + WAIT)
        run = self.start_python(4, program, "--hosts", "a,b", "--ssh", self.fake_ssh())
        pids = self.pids(run, 4)
        run.child.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), -signal.SIGINT)
        self.assertEqual(run.stdout().count("heard 2"), 4, run.describe())
        self.check_gone(pids)

    def test_ranks_end_with_it(self):
        run = self.start_python(4, WAIT, "--hosts", "a,b", "--ssh", self.fake_ssh())
        pids = self.pids(run, 4)
        run.child.kill()
        self.assertEqual(run.wait(), -signal.SIGKILL)
        self.check_gone(pids)

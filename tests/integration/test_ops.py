"""blinkctl ops, and what the log says of the ops of a communicator that is lost."""
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from harness import BLINKCTL, IntegrationTest, new_id, needs

SHORT = "allreduce:100:float32:sum"
REMEMBERED = 1024
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "observe.md"


def needs_probes():
    needs("sys/sdt.h", glob.glob("/usr/include/**/sys/sdt.h", recursive=True), "systemtap-sdt-dev")


def needs_bpftrace():
    """Skip the test where bpftrace is not, or may not trace."""
    needs("bpftrace", shutil.which("bpftrace"), "bpftrace")
    tried = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, text=True,
                           check=False)
    if tried.returncode != 0:
        print(f"SKIPPED: bpftrace cannot trace here: {tried.stderr.strip()}", file=sys.stderr)
        raise unittest.SkipTest("bpftrace cannot trace")


class OpsTest(IntegrationTest):
    def start_pair(self, daemon, first, second):
        identifier = new_id()
        return [self.start_rank(daemon, identifier, 2, rank, steps)
                for rank, steps in enumerate((first, second))]

    def ops(self, daemon, *arguments):
        return self.ctl_json(daemon, "ops", "1", *arguments)["ops"]

    def finish(self, ranks):
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_who_came_and_who_is_missing(self):
        daemon = self.daemon()
        ranks = self.start_pair(daemon, [SHORT, SHORT, "gate:end"], [SHORT, "gate:late", SHORT, "gate:end"])
        ranks[1].wait_for_step("at-gate")
        self.until(lambda: len(self.ops(daemon)) == 2)
        ended, waiting = self.ops(daemon)
        self.assertEqual((ended["op"], ended["collective"], ended["bytes"], ended["doing"], ended["result"]),
                         (1, "allreduce", 400, "ended", "OK"))
        self.assertEqual(sorted(entry["rank"] for entry in ended["ranks"]), [0, 1])
        self.assertIn(0, [entry["came_us"] for entry in ended["ranks"]])
        self.assertGreaterEqual(ended["ended_us"], ended["began_us"])
        self.assertEqual((waiting["op"], waiting["doing"], waiting["result"], waiting["ended_us"]),
                         (2, "gathering", None, None))
        self.assertEqual(waiting["ranks"], [{"rank": 1, "came_us": None}, {"rank": 0, "came_us": 0}])
        self.assertRegex(self.ctl(daemon, "ops", "1"), r"(?m)^ *2 +allreduce .* gathering +rank 1 is missing")
        ranks[1].say()
        self.finish(ranks)

    def test_the_last_ops_are_remembered_and_no_more(self):
        daemon = self.daemon()
        count = REMEMBERED + 100
        ranks = self.start_pair(daemon, *[[f"times:{count}:{SHORT}", "gate:shown"]] * 2)
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.assertEqual([op["op"] for op in self.ops(daemon)], list(range(101, count + 1)))
        last = [op["op"] for op in self.ops(daemon, "--last", "3")]
        self.assertEqual(last, list(range(count - 2, count + 1)))
        self.finish(ranks)
        self.until(lambda: not self.ctl_json(daemon, "comms")["comms"])
        for tenant in self.ctl_json(daemon, "tenants")["tenants"]:
            self.assertEqual(tenant["budgets"]["op_bytes"]["used"], 0)

    def test_spans_for_perfetto_nest_and_do_not_overlap(self):
        daemon = self.daemon()
        ranks = self.start_pair(daemon, [f"times:50:{SHORT}", SHORT, "gate:end"],
                                [f"times:50:{SHORT}", "gate:late", SHORT, "gate:end"])
        ranks[1].wait_for_step("at-gate")
        self.until(lambda: len(self.ops(daemon)) == 51)
        events = json.loads(self.ctl(daemon, "ops", "1", "--format", "chrome"))["traceEvents"]
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(names - {"runs"}, {"communicator 1", "rank 0", "rank 1"})
        spans = [event for event in events if event["ph"] == "X"]
        self.assertIn("waits for rank 1", [span["name"] for span in spans])
        for track in {span["tid"] for span in spans}:
            open_until = []
            for span in sorted((span for span in spans if span["tid"] == track),
                               key=lambda span: (span["ts"], -span["dur"])):
                while open_until and open_until[-1] <= span["ts"]:
                    open_until.pop()
                end = span["ts"] + span["dur"]
                self.assertTrue(not open_until or end <= open_until[-1], span)
                open_until.append(end)
        ranks[1].say()
        self.finish(ranks)

    def test_a_lost_communicator_says_in_the_log_what_it_waited_for(self):
        daemon = self.daemon()
        ranks = self.start_pair(daemon, [SHORT, SHORT], [SHORT, "gate:late", "kill"])
        ranks[1].wait_for_step("at-gate")
        self.until(lambda: len(self.ops(daemon)) == 2)
        ranks[1].say()
        self.assert_step(ranks[0].finish(), SHORT, "PEER_LOST")
        ranks[1].finish()
        daemon.stop()
        self.assertRegex(daemon.stderr(), r"communicator 1: its oldest op is allreduce 2 of 400 bytes, begun "
                         r"[\d.e+-]+ s ago, to which 1 of 2 ranks here have come: it lacks rank 1\n")
        self.assertIn("communicator 1: its last op to end was allreduce 1 of 400 bytes, ", daemon.stderr())

    def lose(self, daemon, comm, step=SHORT):
        """A pair, whose communicator is to have this number. One dies while the other waits for it."""
        first, second = self.start_pair(daemon, [step, SHORT], [step, "gate:late", "kill"])
        second.wait_for_step("at-gate")
        self.until(lambda: self.ctl_json(daemon, "ops", str(comm))["ops"][-1]["doing"] == "gathering")
        second.say()
        second.finish()
        self.assert_step(first.finish(), SHORT, "PEER_LOST")
        self.until(lambda: not self.ctl_json(daemon, "comms")["comms"])

    def test_ops_of_a_lost_communicator_are_kept(self):
        """Those of a user's last four, with who had come."""
        daemon = self.daemon()
        for comm in range(1, 7):
            self.lose(daemon, comm)
            ended, lost = self.ctl_json(daemon, "ops", str(comm))["ops"]
            self.assertEqual((ended["op"], ended["result"]), (1, "OK"))
            self.assertEqual((lost["op"], lost["doing"], lost["result"]), (2, "ended", "PEER_LOST"))
            self.assertEqual(lost["ranks"], [{"rank": 1, "came_us": None}, {"rank": 0, "came_us": 0}])
        kept = [self.run_command([BLINKCTL, "--socket", daemon.socket, "ops", str(comm)])[0]
                for comm in range(1, 7)]
        self.assertEqual(kept, [1, 1, 0, 0, 0, 0])
        for tenant in self.ctl_json(daemon, "tenants")["tenants"]:
            self.assertEqual(tenant["budgets"]["op_bytes"]["used"], 0)

    def test_many_ops_of_a_lost_communicator(self):
        daemon = self.daemon()
        self.lose(daemon, 1, f"times:{REMEMBERED}:{SHORT}")
        self.assertEqual([op["op"] for op in self.ops(daemon)], list(range(2, REMEMBERED + 2)))

    def test_what_ended_well_is_not_kept(self):
        daemon = self.daemon()
        for rank in self.start_pair(daemon, [SHORT], [SHORT]):
            self.assert_all_ok(rank.finish())
        self.until(lambda: not self.ctl_json(daemon, "comms")["comms"])
        status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "ops", "1"])
        self.assertEqual(status, 1)
        self.assertIn("none of the last few that were lost", err)

    @unittest.skipIf(os.geteuid() != 0, "only root may become another user")
    def test_lost_ops_are_their_users_alone(self):
        daemon = self.daemon()
        self.lose(daemon, 1)
        status, _, err = self.ctl_of_nobody(daemon, "ops", "1")
        self.assertEqual(status, 1)
        self.assertIn("no communicator 1 ", err)

    def test_probes_are_in_the_daemon_where_their_header_was(self):
        needs_probes()
        status, notes, err = self.run_command(["readelf", "--notes", "--wide", os.environ["BLINKD"]])
        self.assertEqual(status, 0, err)
        probes = re.findall(r"Provider: blink\n +Name: (\w+)\n.*\n +Arguments: (.*)", notes)
        self.assertEqual({(name, len(arguments.split())) for name, arguments in probes},
                         {("op_submitted", 4), ("op_started", 4), ("op_ended", 6), ("comm_made", 3),
                          ("comm_lost", 3)})

    def test_bpftrace_sees_every_op_by_the_command_of_the_page(self):
        needs_probes()
        needs_bpftrace()
        program, = re.findall(r"^sudo bpftrace -e '(.*)'$", PAGE.read_text(), re.MULTILINE)
        self.assertIn("usdt:/usr/bin/blinkd:", program)
        # A probe is of the file: daemons of other tests would be counted, too.
        own = shutil.copy(os.environ["BLINKD"], self.directory())
        daemon = self.daemon(program=own)
        tracer = self.start(["bpftrace", "-e", program.replace("/usr/bin/blinkd", own)],
                            env={**os.environ, "__BPFTRACE_NOTIFY_PROBES_ATTACHED": "1"})
        tracer.wait_for("its probe is attached", lambda it: "PROBES_ATTACHED" in it.stderr())
        ranks = self.start_pair(daemon, *2 * (["times:20:allreduce:100:float32:sum"],))
        for rank in ranks:
            self.assert_all_ok(rank.finish())
        tracer.child.send_signal(signal.SIGINT)
        tracer.wait()
        kind, histogram = re.search(r"^@us\[(\d+)\]: *\n((?:[\[(].*\n)+)", tracer.stdout(),
                                    re.MULTILINE).groups()
        counts = [int(count) for count in re.findall(r"^[\[(][^\])]*[\])] +(\d+) ", histogram, re.MULTILINE)]
        self.assertEqual((int(kind), sum(counts)), (1, 20), tracer.stdout())

    def test_profilers_see_what_a_thread_calls(self):
        needs("NVTX", "NVTX_TOOL" in os.environ, "nvidia-cuda-toolkit")
        environment = {**os.environ, "NVTX_INJECTION64_PATH": os.environ.get("NVTX_TOOL", "")}
        rank = self.start_rank(self.daemon(), new_id(), 1, 0, [SHORT], env=environment)
        self.assert_all_ok(rank.finish())
        ranges = [line for line in rank.stderr().splitlines() if line.startswith("range ")]
        at = ranges.index("range blink_all_reduce")
        self.assertIn("range blink_wait", ranges[at + 2:])
        self.assertEqual(ranges.count("range ends") * 2, len(ranges), ranges)

    def test_what_is_not_there_is_named(self):
        daemon = self.daemon()
        for arguments, expected, text in ((["9"], 1, "no communicator 9 "), ([], 2, "of which communicator?"),
                                          (["x"], 2, "x: the number of a communicator"),
                                          (["1", "--format", "svg"], 2, "--format svg: text or chrome")):
            status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "ops", *arguments])
            self.assertEqual(status, expected, err)
            self.assertIn(text, err)


if __name__ == "__main__":
    unittest.main()

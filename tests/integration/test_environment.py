"""Environment variables that libblinkclient reads: what they may be, what they change, and what BLINK_DEBUG
tells."""
import os
import re
import shutil
import subprocess
import unittest
from unittest import mock

from harness import BLINK_RANK, IntegrationTest, new_id
from limit import SHORT_S

SHORT = "allreduce:100:float32:sum"
LINE = r"blink: \d+( rank \d+)?: "


def variables(**values):
    return mock.patch.dict(os.environ, values)


class EnvironmentTest(IntegrationTest):
    def algorithm(self, daemon):
        return [comm["algorithm"] for comm in self.ctl_json(daemon, "comms")["comms"]]

    def joined(self, daemon, algorithm=None):
        """Two ranks that have joined and wait for a word."""
        ranks = self.start_ranks(daemon, [0, 1], ["gate:go"], algorithm)
        for rank in ranks:
            rank.wait_for_step("at-gate")
        return ranks

    def dismiss(self, ranks):
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_bad_values_are_named(self):
        daemon = self.daemon()
        for name, value, right in (("BLINK_DEBUG", "all", "not info or trace"),
                                   ("BLINK_ALGORITHM", "fast", "not one of auto, trees, .*, shallow-trees"),
                                   ("BLINK_TIMEOUT", "soon", "not seconds from 0.001 to 4000000"),
                                   ("BLINK_TIMEOUT", "0", "not seconds from 0.001 to 4000000")):
            with self.subTest(name=name, value=value), variables(**{name: value}):
                self.assert_step(self.start_client(daemon, []).finish(), "open", "INVALID_ARGUMENT",
                                 f'{name} is "{value}", {right}')

    def test_algorithm_where_the_program_leaves_it_open(self):
        daemon = self.daemon(topology="dgx1v")
        for own, chosen in ((None, "ring"), ("trees", "trees")):
            with self.subTest(own=own), variables(BLINK_ALGORITHM="ring"):
                ranks = self.joined(daemon, own)
                self.assertEqual(self.algorithm(daemon), [chosen])
                self.dismiss(ranks)

    def test_time_out_where_the_program_leaves_it_open(self):
        with variables(BLINK_TIMEOUT=str(SHORT_S)):
            early, late = self.start_ranks(self.daemon(), [0, 1], {0: [SHORT], 1: ["gate:go"]})
            self.assert_step(early.finish(), SHORT, "TIMEOUT",
                             f"no submission from rank 1 within {SHORT_S:g} s")
            late.say()
            late.finish()

    def test_empty_variables_are_none(self):
        with variables(BLINK_DEBUG="", BLINK_ALGORITHM="", BLINK_TIMEOUT="", BLINK_DAEMON_TIMEOUT=""):
            for rank in self.start_ranks(self.daemon(), [0, 1], [SHORT]):
                self.assert_all_ok(rank.finish())
                self.assertEqual(rank.stderr(), "")

    def test_a_program_with_privileges_is_not_steered(self):
        path = os.path.join(self.directory(), "privileged")
        shutil.copy(BLINK_RANK, path)
        if os.geteuid() != 0 or os.statvfs(path).f_flag & os.ST_NOSUID:
            raise unittest.SkipTest("nobody is here to give privileges")
        os.chown(path, -1, os.getegid() + 1)
        os.chmod(path, 0o2755)
        with variables(BLINK_DEBUG="all", BLINK_TIMEOUT="soon"):
            status, out, err = self.run_command([path, "--socket", self.daemon().socket, "nop:1"])
        self.assertEqual((status, err), (0, ""))
        self.assertNotIn("INVALID_ARGUMENT", out)


class DebugTest(IntegrationTest):
    def lines(self, process):
        lines = process.stderr().splitlines()
        for line in lines:
            self.assertRegex(line, f"^blink: {process.pid}( rank \\d+)?: .")
        return [re.sub(LINE, r"\1 ", line).strip() for line in lines]

    def assert_lines(self, process, *patterns):
        """These lines, and no others."""
        lines = self.lines(process)
        self.assertEqual(len(lines), len(patterns), lines)
        for line, pattern in zip(lines, patterns):
            self.assertRegex(line, f"^{pattern}$")

    def test_info_tells_of_contexts_and_communicators(self):
        with variables(BLINK_DEBUG="info", BLINK_ALGORITHM="ring", BLINK_TIMEOUT="7.5"):
            daemon = self.daemon()
            ranks = self.start_ranks(daemon, [4, 5], {0: [SHORT, "split:0", "destroy"], 1: [
                SHORT, "split:1", "destroy"]})
            for rank in ranks:
                self.assert_all_ok(rank.finish())
        how = r"on one host: device {} \(host\), algorithm ring, op time-out 7.5 s"
        for number, rank in enumerate(ranks):
            self.assert_lines(
                rank, rf"opened {daemon.socket}: libblinkclient [\d.]+, blinkd [\d.]+, 8 devices",
                rf"rank {number} communicator \d+: joined as rank {number} of 2 {how.format(4 + number)}",
                rf"rank 0 communicator \d+: joined as rank 0 of 1 {how.format(4 + number)}",
                rf"rank {number} communicator \d+: split by color {number} and key 0: communicator \d+",
                r"rank 0 communicator \d+: left",
                rf"rank {number} communicator \d+: left")

    def test_trace_tells_of_ops(self):
        with variables(BLINK_DEBUG="trace"):
            ranks = self.start_ranks(self.daemon(), [0, 1], [SHORT, "group:2:allreduce:10:int32:sum", SHORT])
            for rank in ranks:
                self.assert_all_ok(rank.finish())
        for number, rank in enumerate(ranks):
            told = [line for line in self.lines(rank) if re.search(r" ops? \d", line)]
            told = [re.sub(r"\d+ us", "N us", line.replace("communicator 1", "C")) for line in told]
            self.assertEqual(told, [f"rank {number} C: {line}" for line in (
                "op 1: allreduce of 100 float32",
                "op 1: allreduce of 100 float32: BLINK_OK after N us",
                "op 2: allreduce of 10 int32, 1 of a group of 2",
                "op 3: allreduce of 10 int32, 2 of a group of 2",
                "ops 2 to 3: group of 2: BLINK_OK after N us",
                "op 4: allreduce of 100 float32",
                "op 4: allreduce of 100 float32: BLINK_OK after N us")])

    def test_an_op_has_one_number_in_the_trace_and_in_errors(self):
        other = "allreduce:101:float32:sum"
        with variables(BLINK_DEBUG="trace"):
            ranks = self.start_ranks(self.daemon(), [0, 1], {
                number: [SHORT, "group:2:allreduce:10:int32:sum", last]
                for number, last in enumerate((SHORT, other))})
            for rank in ranks:
                rank.finish()
        for rank in ranks:
            self.assertRegex(rank.stderr(), r"op 4: allreduce of 10. float32: BLINK_ERR_MISMATCH after "
                                            r"\d+ us: allreduce 4 of communicator 1: ")

    def test_a_stderr_that_nobody_reads_ends_no_program(self):
        daemon = self.daemon()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([BLINK_RANK, "--socket", daemon.socket, "nop:1"], stdout=subprocess.PIPE,
                              stderr=writer, env=os.environ | {"BLINK_DEBUG": "trace"}, check=False)
        os.close(writer)
        self.assertEqual(done.returncode, 0)

    def test_failures_are_told(self):
        with variables(BLINK_DEBUG="info"):
            daemon, same = self.daemon(), "0" * 31 + "1"
            aborter, other = [self.start_rank(daemon, same, 2, number, steps, number, name="grads")
                              for number, steps in enumerate([["submit:" + SHORT, "abort", "wait"],
                                                              ["await-lost"]])]
            aborter.finish()
            other.finish()
            refused = self.start_client(daemon, [f"join:{same}:2:7:0"])
            refused.finish()
        why = r"BLINK_ERR_ABORTED: rank 0 \(pid \d+\) aborted communicator 1 \(grads\)"
        for process, pattern in (
                (aborter, r"rank 0 communicator 1 \(grads\): aborted"),
                (aborter, rf"rank 0 communicator 1 \(grads\): an op failed: {why}"),
                (other, rf"rank 1 communicator 1 \(grads\): is of no more use: {why}"),
                (refused, "blink_comm_init_rank failed: BLINK_ERR_INVALID_ARGUMENT: rank 7 is not among 2 "
                 "ranks")):
            lines = self.lines(process)
            self.assertTrue(any(re.fullmatch(pattern, line) for line in lines), (pattern, lines))

    def test_a_join_that_is_given_up_is_told(self):
        with variables(BLINK_DEBUG="info"):
            client = self.start_client(self.daemon(), [f"begin:{new_id()}:2:1", "abort", "destroy"])
            self.assert_all_ok(client.finish())
        self.assert_lines(client, r"opened .*", "gave up as rank 1 of 2")

    def test_lines_name_the_rank_of_the_launcher(self):
        with variables(BLINK_DEBUG="info", BLINK_RANK="3", BLINK_SIZE="4"):
            client = self.start_client(self.daemon(), ["nop:1"])
            self.assert_all_ok(client.finish())
        self.assert_lines(client, r"rank 3 opened .*")

    def test_nothing_is_told_without_stderr(self):
        """Its descriptor is then that of the next socket."""
        with variables(BLINK_DEBUG="trace"):
            status, out, _ = self.run_command(["sh", "-c", 'exec "$@" 2>&-', "sh", BLINK_RANK, "--socket",
                                               self.daemon().socket, "nop:1"])
        self.assertEqual(status, 0)
        self.assertEqual(out.count("BLINK_OK"), 3, out)

    def test_a_lost_daemon_is_told(self):
        with variables(BLINK_DEBUG="info"):
            daemon = self.daemon()
            client = self.start_client(daemon, ["gate:go", "nop:1"])
            client.wait_for_step("at-gate")
            daemon.kill()
            client.wait_for("loss", lambda process: "has ended" in process.stderr())
            client.say()
            client.finish()
        self.assertRegex(self.lines(client)[1], rf"^the daemon \(pid {daemon.pid}\) has ended")

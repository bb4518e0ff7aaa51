"""What people write: sizes, ranges, names and nccl-tests' flags, the same in every program, and the sentences
that answer what is wrong."""
import json
import os
import re
import unittest

from harness import BLINK_PERF, BLINKCTL, BLINKD, IntegrationTest

BLINKRUN = os.environ["BLINKRUN"]
NO_DAEMON = "/nonexistent/blinkd.sock"


class WordsTest(IntegrationTest):
    def plan(self, *words, daemon=None):
        socket = daemon.socket if daemon else NO_DAEMON
        status, out, err = self.run_command([BLINKCTL, "--socket", socket, "plan", "--json", *words])
        self.assertEqual(status, 0, err)
        return {key: value for key, value in json.loads(out).items() if key != "plan_ms"}

    def refused(self, *command, status=2):
        got, out, err = self.run_command(command)
        self.assertEqual((got, out), (status, ""), err)
        return err

    def test_ranges_nodes_and_other_spellings_mean_the_same(self):
        plain = self.plan(*"-t dgx1v -r 0,1,2,3 -c broadcast --root 2 --bytes 65536".split())
        other = self.plan(*"-t dgx1v -r 0-1,gpu2,3-3 -c Broad_Cast --root gpu2 --bytes 64KiB".split())
        self.assertEqual(plain, other)
        self.assertEqual(self.plan("-t", "dgx1v", "-r", "3-0")["ranks"], ["gpu3", "gpu2", "gpu1", "gpu0"])

    def test_algorithms_are_taken_by_the_names_that_plans_have_in_print(self):
        for collective, name in [("allreduce", "packed-trees"), ("alltoall", "packed-routes")]:
            words = ["-t", "dgx1v", "-c", collective, "-a"]
            self.assertEqual(self.plan(*words, name), self.plan(*words, "trees"))

    def test_topologies_are_named_by_the_same_option_everywhere(self):
        shown = [self.run_command([BLINKCTL, "topology", *words]) for words in
                 (["dgx1v"], ["-t", "dgx1v"], ["--topology", "dgx1v"])]
        self.assertEqual([status for status, _, _ in shown], [0, 0, 0])
        self.assertEqual({out for _, out, _ in shown}, {shown[0][1]})
        self.assertIn("one topology", self.refused(BLINKCTL, "topology", "dgx1v", "-t", "dgx2"))

    def test_numbers_and_nouns_agree(self):
        words = ["-t", "dgx1v", "-r", "0,1", "-c", "broadcast"]
        status, out, _ = self.run_command([BLINKCTL, "explain", *words])
        self.assertEqual(status, 0)
        self.assertIn("trees 1, channels 1", out)
        self.assertIn(" 1 rank: ", self.run_command([BLINKCTL, "plan", "-t", "dgx1v", "-r", "0"])[1])

    def test_plan_explain_and_simulate_take_the_daemons_topology(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        self.assertEqual(self.plan(daemon=daemon), self.plan("-t", "dgx1v_hybrid"))
        for words in (["explain"], ["simulate", "-e", "1K"]):
            self.assertEqual(self.ctl_json(daemon, *words)["topology"], "dgx1v_hybrid")

    def test_without_daemon_and_topology_both_ways_out_are_named(self):
        for command in ("plan", "explain", "simulate"):
            err = self.refused(BLINKCTL, "--socket", NO_DAEMON, command, status=3)
            self.assertIn("--topology", err)
            self.assertIn("start one (blinkd --socket PATH", err)

    def test_ops_takes_the_communicator_as_other_commands_do(self):
        for words in (["3"], ["--comm", "3"]):
            self.refused(BLINKCTL, "--socket", NO_DAEMON, "ops", *words, status=3)
        self.assertIn("one communicator at a time", self.refused(BLINKCTL, "ops", "3", "--comm", "3"))

    def test_near_misses_are_answered_with_what_may_have_been_meant(self):
        for words, meant in [(["explian"], "explain"), (["plan", "-t", "dgx1"], "dgx1v"),
                             (["plan", "-t", "dgx1v", "-c", "allreduc"], "allreduce"),
                             (["plan", "-t", "dgx1v", "-a", "tree"], "trees"),
                             (["simulate", "--protocol", "simpel"], "simple"),
                             (["topology", "-f", "jsn"], "json")]:
            with self.subTest(words=words):
                status, _, err = self.run_command([BLINKCTL, *words])
                self.assertIn(status, (1, 2))
                self.assertIn(f"did you mean '{meant}'?", err)
        for words, meant in [(["allredcue"], "allreduce"), (["allreduce", "-d", "flot32"], "float32"),
                             (["allreduce", "-o", "summ"], "sum"),
                             (["allreduce", "--memory", "maloc"], "malloc"),
                             (["allreduce", "--algorithm", "rings"], "ring")]:
            with self.subTest(words=words):
                self.assertIn(f"did you mean '{meant}'?", self.refused(BLINK_PERF, *words))

    def test_options_that_there_are_not_are_answered_by_all_programs_alike(self):
        for words, meant in [([BLINKCTL, "--sokcet", "x", "links"], "socket"),
                             ([BLINKCTL, "plan", "--topolgy=dgx1v"], "topology"),
                             ([BLINKCTL, "top", "--no-colr"], "no-color"),
                             ([BLINKCTL, "links", "--json", "--wach"], "watch"),
                             ([BLINK_PERF, "allreduce", "--warm-up", "3"], "warmup"),
                             ([BLINK_PERF, "--verison"], "version"),
                             ([BLINKD, "--devcies", "host:2"], "devices"),
                             ([BLINKRUN, "-n", "2", "--host-s", "a", "true"], "hosts")]:
            with self.subTest(words=words):
                self.assertIn(f"(did you mean '--{meant}'?)\nTry `", self.refused(*words))
        self.assertIn("there is no option --zzzzzzzz\n", self.refused(BLINKCTL, "links", "--zzzzzzzz"))

    def test_arguments_where_there_are_only_options_are_named(self):
        for command in ("plan", "status", "links", "simulate", "top"):
            self.assertIn('"extra": there are only options here', self.refused(BLINKCTL, command, "extra"))

    def test_help_is_also_a_command(self):
        status, out, err = self.run_command([BLINKCTL, "help"])
        self.assertEqual((status, "blinkctl COMMAND --help tells more" in out), (0, True), err)

    def test_what_only_looks_like_an_option_is_none(self):
        words = ["-n", "1", "--ssh", "--sshh", "--no-prefix", "echo", "--rnks"]
        status, out, err = self.run_command([BLINKRUN, *words])
        self.assertEqual((status, out), (0, "--rnks\n"), err)
        self.assertEqual(self.plan("--topol", "dgx1v", "--rank", "0-3"),
                         self.plan("-t", "dgx1v", "-r", "0-3"))

    def test_a_daemon_that_cannot_make_its_socket_says_which_flag_helps(self):
        err = self.refused(BLINKD, "--socket", NO_DAEMON, "--devices", "host:2", status=1)
        self.assertIn("cannot make " + NO_DAEMON, err)
        self.assertIn("--socket names another place", err)


class PerfWordsTest(IntegrationTest):
    def measure(self, daemon, *words):
        status, out, err = self.run_command([BLINK_PERF, *words, "--socket", daemon.socket, "--json"])
        self.assertEqual(status, 0, err)
        return [json.loads(line) for line in out.splitlines()]

    def test_flags_of_nccl_tests_are_understood(self):
        daemon = self.daemon(devices=4)
        flags = ("-g 2 -t 2 -m 3 -z 1 -a 3 -C 0 -G 0 -R 0 -p 1 -S 0 -M 0 -u 0 -x 0 -D 0 -y 0 -I 0 -c 5 -r 0 "
                 "-d half -b 1KB -e 4KiB -i 1K -n 2 -w 1")
        lines = self.measure(daemon, "build/all_reduce_perf", *flags.split())
        self.assertEqual(sorted({line["bytes"] for line in lines}), [1024, 2048, 3072, 4096])
        for line in lines:
            self.assertEqual((line["ranks"], line["threads"], line["groups"], line["memory"], line["dtype"]),
                             (4, True, 3, "malloc", "float16"))

    def test_flags_of_nccl_tests_without_a_counterpart_are_answered_with_ours(self):
        for words, ours in [(["-z", "0"], "--stream"), (["-a", "1"], "slowest"), (["-C", "1"], "wall time"),
                            (["-T", "5"], "op_timeout_s"), (["-N", "2"], "--seconds"),
                            (["-S", "1"], "pipe"), (["-M", "1"], "blinkctl tenants"),
                            (["-u", "1"], "aligned"),
                            (["-x", "2"], "planner"), (["-D", "1"], "--algorithm"), (["-y", "1"], "--stream"),
                            (["-I", "1"], "percentile"), (["-J", "a.json"], "--json"),
                            (["-Y", "fine"], "--device-memory"),
                            (["-G", "1"], "--device-memory")]:
            with self.subTest(words=words):
                status, _, err = self.run_command([BLINK_PERF, "allreduce", *words])
                self.assertEqual((status, ours in err), (2, True), err)

    def test_the_root_may_be_a_node(self):
        daemon = self.daemon(topology="dgx1v")
        words = ["broadcast", "--devices", "4-7", "-b", "1K", "-e", "1K", "-n", "1", "--root"]
        self.assertEqual({line["root"] for line in self.measure(daemon, *words, "gpu6")}, {2})
        status, _, err = self.run_command([BLINK_PERF, *words, "gpu1", "--socket", daemon.socket])
        self.assertEqual((status, "--root gpu1" in err), (1, True), err)

    def test_more_ranks_than_devices_are_answered_with_what_to_do(self):
        daemon = self.daemon(devices=2)
        for words, said in [(["--ranks", "3"], "--ranks 3: the daemon has 2 devices, and each rank"),
                            (["--devices", "0,2"], "--devices: there is no device 2, the daemon has 2")]:
            status, _, err = self.run_command([BLINK_PERF, "allreduce", *words, "--socket", daemon.socket])
            self.assertEqual((status, said in err), (1, True), err)
        run = [BLINKRUN, "-n", "1", BLINK_PERF, "allreduce", "--devices", "2", "--socket", daemon.socket]
        status, _, err = self.run_command(run)
        self.assertIn("blink-perf: rank 0 asks for device 2; this daemon has devices 0 to 1", err)

    def test_a_root_of_what_has_none_is_refused(self):
        for collective in ("allreduce", "sendrecv", "barrier"):
            status, _, err = self.run_command([BLINK_PERF, collective, "--root", "1"])
            self.assertEqual((status, f"--root: {collective} has no root" in err), (2, True), err)

    def test_seconds_choose_the_iterations_of_all_ranks_alike(self):
        daemon = self.daemon(devices=2)
        lines = self.measure(daemon, "allreduce", "--seconds", "0.5", "-b", "8", "-e", "512")
        self.assertEqual(len(lines), 8)
        for line in lines:
            self.assertTrue(1 <= line["iterations"] <= 20000, line)
            self.assertEqual(line["wrong"], 0)

    def test_the_ideal_is_said_only_where_it_is_known(self):
        for flags, known in [([], False), (["--pace=0.01"], True)]:
            daemon = self.daemon(*flags, topology="dgx1v")
            for line in self.measure(daemon, "allreduce", "-b", "1K", "-e", "1K", "-n", "1"):
                self.assertEqual((line["ideal_GBps"] is not None, line["efficiency"] is not None),
                                 (known, known))

    def measure_privately(self, *words):
        """What is printed about one transfer between two devices of a topology that is too large for one
        core to keep up with."""
        one_core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        status, out, err = self.run_command([*one_core, BLINK_PERF, "sendrecv", "--private",
                                             *"--topology 64xdgx1v --devices 0,1 -b 4 -e 4 -n 1 -w 0".split(),
                                             *words])
        self.assertEqual(status, 0, err)
        return out, err

    def test_the_scale_that_was_chosen_is_printed_with_what_to_do_if_it_is_small(self):
        for pace in (["--pace"], ["--pace=auto"], ["--pace", "auto"]):
            out, err = self.measure_privately(*pace)
            scale = re.search(r"^# links are paced at (\S+) of their capacity$", out, re.M).group(1)
            self.assertRegex(err, rf"links are paced at {re.escape(scale)} of .*times as long.*--pace=0.001")

    def test_a_scale_that_was_named_is_printed_alone(self):
        out, err = self.measure_privately("--pace=0.0005")
        self.assertIn("# links are paced at 0.0005 of their capacity\n", out)
        self.assertEqual(err, "")
        out, err = self.measure_privately("--pace=0.0005", "--json")
        self.assertEqual((json.loads(out)["pace_scale"], err), (0.0005, ""))
        self.assertEqual(json.loads(self.measure_privately("--json")[0])["pace_scale"], 0)

    def test_a_long_run_says_so_beforehand(self):
        daemon = self.daemon("--pace=0.01", topology="dgx1v")
        perf = self.start([BLINK_PERF, "allreduce", "--socket", daemon.socket,
                           *"-b 16M -e 16M -n 10000 -w 0".split()])
        perf.wait_for("the estimate", lambda perf: re.search(r"take about \d.*--seconds", perf.stderr()))
        perf.kill()

    def test_decimal_points_stand_below_one_another(self):
        daemon = self.daemon(devices=2)
        status, out, err = self.run_command([BLINK_PERF, "allreduce", "--socket", daemon.socket,
                                             *"-b 8 -e 8M -f 1024 -n 2".split()])
        self.assertEqual(status, 0, err)
        rows = [line for line in out.splitlines() if not line.startswith("#")]
        points = [[at.start() for at in re.finditer(r"\.", row)] for row in rows]
        self.assertEqual(points, [points[0]] * len(rows), out)


if __name__ == "__main__":
    unittest.main()

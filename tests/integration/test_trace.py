"""blinkctl record, what blinkctl simulate predicts of a trace, and blink-perf replaying one."""
import json
import os
import pathlib
import re
import signal
import unittest

from goal import Goal, Replay
from harness import BLINKCTL, BLINK_PERF, IntegrationTest

# Buckets of gradients while a backward pass goes on, three times over.
LOOP = ["sleep:20", "allreduce:1000:float32:sum", "allreduce:300000:float32:sum", "sleep:10",
        "allreduce:300000:float32:sum"] * 3
DDP = pathlib.Path(__file__).resolve().parents[1] / "traces/ddp.trace"
HEADER = {"schema": "blink-trace/1", "host": "h", "topology": "t", "pace_scale": 0.0}
COMM = {"comm": 1, "name": None, "devices": [0, 1], "clients": [1, 2]}
END = {"ops": 1, "missed": 0}


def op(number, began_us, ended_us, **others):
    return {"comm": 1, "op": number, "collective": "allreduce", "bytes": 1 << 20, "datatype": "float32",
            "redop": "sum", "root": None, "peer": None, "result": "OK", "began_us": began_us,
            "ended_us": ended_us, "ranks": [0, 1], "came_us": [0, 5], **others}


class TraceTest(IntegrationTest):
    def file(self):
        return os.path.join(self.directory(), "trace")

    def write(self, *lines, tail="\n"):
        path = self.file()
        with open(path, "w", encoding="ascii") as out:
            out.write("\n".join(json.dumps(line) for line in lines) + tail)
        return path

    def simulate(self, path, *arguments):
        status, out, err = self.run_command([BLINKCTL, "simulate", "--trace", path, *arguments])
        self.assertEqual(status, 0, err)
        return out, err

    def predict(self, path, topology="dgx1v"):
        out, err = self.simulate(path, "--topology", topology, "--json")
        return json.loads(out), err

    def record_loop(self, daemon, devices, *arguments):
        """The lines of a trace of LOOP, and its file."""
        path = self.file()
        ranks = self.start_ranks(daemon, devices, ["gate:begin", *LOOP, "gate:end"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        recorder = self.start([BLINKCTL, "--socket", daemon.socket, "record", "-o", path, *arguments])
        self.until(lambda: os.path.exists(path) and os.path.getsize(path) > 0)
        for rank in ranks:
            rank.say()
        self.until(lambda: len(self.lines(path)) == 2 + len(LOOP) // 5 * 3)
        return path, recorder, ranks

    def lines(self, path):
        with open(path, encoding="ascii") as trace:
            return [json.loads(line) for line in trace if line.endswith("\n")]

    def finish(self, ranks):
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_a_job_is_recorded_and_predicted(self):
        for topology in ("dgx1v", "pcie8", "dgx_a100"):
            with self.subTest(topology=topology):
                daemon = self.daemon("--pace", topology=topology)
                path, recorder, ranks = self.record_loop(daemon, [0, 1, 2, 3])
                recorder.child.send_signal(signal.SIGINT)
                self.assertEqual(recorder.wait(), 0, recorder.stderr())
                self.assertIn("9 ops of 1 communicator are in", recorder.stdout())
                self.finish(ranks)
                header, comm, *ops, end = self.lines(path)
                self.assertEqual((header["schema"], header["topology"]), ("blink-trace/1", topology))
                self.assertEqual(comm["devices"], [0, 1, 2, 3])
                self.assertEqual([line["bytes"] for line in ops], [4000, 1200000, 1200000] * 3)
                self.assertEqual({(line["collective"], line["datatype"], line["redop"], line["root"],
                                   len(line["ranks"])) for line in ops},
                                 {("allreduce", "float32", "sum", None, 4)})
                self.assertEqual(end, {"ops": 9, "missed": 0})
                predicted, _ = self.predict(path, topology)
                self.assertEqual([(kind["bytes"], kind["ops"]) for kind in predicted["kinds"]],
                                 [(4000, 3), (1200000, 6)])
                # The times between the ops are in both.
                self.assertGreater(predicted["predicted_us"], 70000)
                self.assertGreater(predicted["recorded_us"], 70000)

    def test_one_communicator_is_recorded_until_it_ends(self):
        daemon = self.daemon()
        path, recorder, ranks = self.record_loop(daemon, [0, 1], "--comm", "1")
        self.finish(ranks)
        self.assertEqual(recorder.wait(), 0, recorder.stderr())
        self.assertEqual(self.lines(path)[-1], {"ops": 9, "missed": 0})
        self.assertIn("1 communicator ended meanwhile", recorder.stdout())

    def test_what_the_daemon_no_longer_remembers_is_counted(self):
        daemon = self.daemon()
        path = self.file()
        many = "times:1500:allreduce:1:float32:sum"
        ranks = self.start_ranks(daemon, [0, 1], ["gate:begin", many, "gate:end"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        recorder = self.start([BLINKCTL, "--socket", daemon.socket, "record", "-o", path])
        self.until(lambda: len(self.lines(path)) == 2 if os.path.exists(path) else False)
        recorder.child.send_signal(signal.SIGSTOP)
        for rank in ranks:
            rank.say()
        for rank in ranks:
            rank.wait_for_step(many)
        recorder.child.send_signal(signal.SIGCONT)
        recorder.child.send_signal(signal.SIGTERM)
        self.assertEqual(recorder.wait(), 0, recorder.stderr())
        end = self.lines(path)[-1]
        self.assertEqual(end["ops"] + end["missed"], 1500)
        self.assertGreaterEqual(end["missed"], 1)
        self.finish(ranks)
        _, said = self.predict(path)
        self.assertRegex(said, f"lacks {end['missed']} ops? ")

    def test_a_submission_keeps_its_distance_to_the_end_before_it(self):
        one = self.predict(self.write(HEADER, COMM, op(0, 1000, 2000), END))[0]
        time_us = one["kinds"][0]["predicted_us"]
        self.assertAlmostEqual(one["predicted_us"], 5 + time_us, places=3)
        waits = self.predict(self.write(HEADER, COMM, op(0, 1000, 2000), op(1, 7000, 9000), END))[0]
        self.assertEqual(waits["recorded_us"], 8000)
        self.assertAlmostEqual(waits["predicted_us"], 5 + time_us + 5005 + time_us, places=3)
        overlaps = self.predict(self.write(HEADER, COMM, op(0, 1000, 2000), op(1, 1500, 9000), END))[0]
        self.assertAlmostEqual(overlaps["predicted_us"], max(5 + time_us, 505) + time_us, places=3)

    def test_transfers_barriers_and_failed_ops(self):
        transfer = op(0, 1000, 2000, collective="transfer", root=0, peer=1)
        barrier = op(1, 3000, 3100, collective="barrier", bytes=0)
        failed = op(2, 4000, 5000, result="ABORTED", came_us=[0, None])
        path = self.write(HEADER, COMM, transfer, barrier, failed, END)
        predicted, said = self.predict(path)
        self.assertIn("1 op of", said)
        self.assertEqual([(kind["collective"], kind["root"], kind["peer"]) for kind in predicted["kinds"]],
                         [("transfer", 0, 1), ("barrier", None, None)])
        self.assertEqual(predicted["kinds"][1]["predicted_us"], 95)
        self.assertRegex(self.simulate(path, "-t", "dgx1v")[0], r"(?m)^ *1 +transfer +0 to 1 +1 MiB +1 ")

    def schedule(self, trace, *arguments):
        """The trace as a GOAL schedule, each of whose operations can happen, and its replay with the links of
        dgx1p in microseconds."""
        path = self.file()
        self.simulate(trace, "--topology", "dgx1p", "--goal", path, *arguments)
        with open(path, encoding="ascii") as file:
            goal = Goal(file.read())
        self.assertEqual(sorted(goal.sends.values()), sorted(goal.receives.values()))
        self.assertEqual(len(set(goal.ways())), len(goal.ways()))
        self.assertEqual(len(goal.order()), goal.size())
        return goal, Replay(goal, 1 / 20, 1000 * (3.4 + 1)).run_us()

    def test_a_schedule_has_all_ops_and_takes_as_long(self):
        goal, replayed_us = self.schedule(DDP)
        self.assertEqual(goal.ranks, 4)
        ends = {(rank, label) for rank, label in goal.calcs if re.fullmatch(r"e\d+", label)}
        self.assertEqual(ends, {(rank, f"e{number}") for rank in range(4) for number in range(82)})
        predicted, _ = self.predict(DDP, "dgx1p")
        self.assertAlmostEqual(replayed_us / predicted["predicted_us"], 1, delta=0.05)

    def test_a_schedule_keeps_what_ops_wait_for(self):
        """An op that is submitted after the end of another begins then; one that was not overlaps its gap."""
        one = self.schedule(self.write(HEADER, COMM, op(0, 1000, 2000), END))[1]
        after = self.schedule(self.write(HEADER, COMM, op(0, 1000, 2000), op(1, 7000, 9000), END))[1]
        self.assertAlmostEqual(after - one, 5005 + (one - 5), delta=50)
        meanwhile = self.schedule(self.write(HEADER, COMM, op(0, 1000, 2000), op(1, 1500, 9000), END))[1]
        self.assertAlmostEqual(meanwhile, 505 + (one - 5), delta=50)

    def test_a_schedule_of_transfers_and_barriers(self):
        """A rank that comes to a barrier 3 ms late keeps the other one."""
        transfer = op(0, 1000, 2000, collective="transfer", root=0, peer=1)
        barrier = op(1, 3000, 6100, collective="barrier", bytes=0, came_us=[0, 3000])
        path = self.write(HEADER, COMM, transfer, barrier, op(2, 7000, 7100), END)
        goal, replayed_us = self.schedule(path)
        self.assertEqual({message.destination for message in goal.sends.values()}, {0, 1})
        self.assertEqual(sum(message.bytes for message in goal.sends.values()),
                         (1 << 20) + 2 + 2 * (1 << 20))
        self.assertGreater(replayed_us, 4000)

    def test_a_schedule_needs_all_ranks(self):
        """Of another host, or beyond those that the daemon remembers."""
        remote = {**COMM, "devices": [0, None]}
        barrier = op(0, 1000, 2000, collective="barrier", bytes=0)
        unknown = op(0, 1000, 2000, ranks=[0], came_us=[0])
        for lines, text in (((remote, barrier), "where rank 1 of communicator 1 is"),
                            ((COMM, unknown), "when all ranks of communicator 1 came")):
            status, _, err = self.run_command([BLINKCTL, "simulate", "-t", "dgx1p", "--trace",
                                               self.write(HEADER, *lines, END), "--goal", self.file()])
            self.assertEqual(status, 1)
            self.assertIn(text, err)

    def test_a_trace_that_was_cut_is_read_up_to_there(self):
        whole = [HEADER, COMM, op(0, 1000, 2000)]
        for tail in ("\n", '\n{"comm":1,"op":1,"coll'):
            predicted, said = self.predict(self.write(*whole, tail=tail))
            self.assertTrue(predicted["cut"])
            self.assertIn("was cut", said)
            self.assertEqual(predicted["kinds"][0]["ops"], 1)

    def test_pacing_is_named_and_predicted(self):
        path = self.write({**HEADER, "pace_scale": 0.002}, COMM, op(0, 1000, 2000), END)
        whole, said = self.predict(path)
        self.assertIn("paced at 0.002 of", said)
        out, said = self.simulate(path, "--topology", "dgx1v", "--json", "--pace", "0.002")
        self.assertEqual(said, "")
        self.assertAlmostEqual(json.loads(out)["kinds"][0]["predicted_us"],
                               whole["kinds"][0]["predicted_us"] / 0.002, delta=1)

    def test_what_is_no_trace_is_refused(self):
        good = op(0, 1000, 2000)
        cases = [(([],), "no JSON object"),
                 (({**HEADER, "schema": "blink-trace/2"},), '"blink-trace/2", and this version'),
                 (({"comms": []},), 'no "schema"'),
                 ((HEADER, END), "no op that succeeded"),
                 ((HEADER, good), 'line 2: "comm" is not the number of a communicator'),
                 ((HEADER, COMM, COMM), "line 3: \"comm\" is not another number"),
                 ((HEADER, COMM, {**good, "collective": "allreduc"}), 'collective "allreduc" (did you mean'),
                 ((HEADER, COMM, {**good, "bytes": -1}), 'line 3: "bytes" is not a number'),
                 ((HEADER, COMM, {**good, "ranks": [0, 2]}), 'line 3: "ranks" is not a list of ranks'),
                 ((HEADER, COMM, {**good, "ended_us": 1004}), 'line 3: "ended_us" is not after'),
                 ((HEADER, {**COMM, "devices": [0, 8]}, good), "was on device 8, and there are 8"),
                 ((HEADER, {**COMM, "devices": [0, None]}, good), "on another host")]
        for lines, expected in cases:
            with self.subTest(expected=expected):
                self.refused(self.write(*lines), expected)
        self.refused(self.write(tail=""), "is empty")
        self.refused(self.write(HEADER, tail="\n{]\n"), "line 2: ")
        self.refused("/nonexistent", "No such file")

    def refused(self, path, expected):
        status, out, err = self.run_command([BLINKCTL, "simulate", "-t", "dgx1v", "--trace", path])
        self.assertEqual((status, out), (1, ""), err)
        self.assertIn(expected, err)

    def replay(self, path, *arguments):
        status, out, err = self.run_command([BLINK_PERF, "--replay", path, "--json", *arguments])
        self.assertEqual(status, 0, err)
        return json.loads(out), err

    def test_a_job_is_replayed(self):
        daemon = self.daemon(devices=4)
        path, recorder, ranks = self.record_loop(daemon, [0, 1, 3])
        self.finish(ranks)
        recorder.child.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(), 0, recorder.stderr())
        *before, last, end = self.lines(path)
        later = {key: last[key] + 1000000 for key in ("began_us", "ended_us")}
        path = self.write(*before, {**last, **later}, end)
        again = os.path.join(self.directory(), "again")
        recorder = self.start([BLINKCTL, "--socket", daemon.socket, "record", "-o", again])
        self.until(lambda: os.path.exists(again) and os.path.getsize(again) > 0)
        result, said = self.replay(path, "--socket", daemon.socket)
        self.assertEqual((result["ops"], result["threads"], said), (9, 3, ""))
        # The sleeps of LOOP are in it.
        self.assertGreater(result["recorded_us"], 90000)
        self.assertGreater(result["replayed_us"], 90000)
        events = [event["kind"] for event in self.ctl_json(daemon, "events")["events"] if event["comm"] == 2]
        self.assertNotIn("comm-lost", events)
        recorder.child.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(), 0, recorder.stderr())
        (_, comm, *ops, _), (_, comm_again, *ops_again, _) = self.lines(path), self.lines(again)
        self.assertEqual(comm["devices"], comm_again["devices"])
        what = ("collective", "bytes", "datatype", "redop", "root", "peer", "result", "ranks")
        # The last op may end and be forgotten with its communicator between two looks of the recorder.
        self.assertGreaterEqual(len(ops_again), 8)
        self.assertEqual([[line[key] for key in what] for line in ops[:len(ops_again)]],
                         [[line[key] for key in what] for line in ops_again])
        self.assertEqual(self.replay(path, "--private", "--no-gaps")[0]["ops"], 9)

    def test_a_loop_of_pytorch_is_replayed_and_predicted(self):
        result, said = self.replay(str(DDP), "--private", "--topology", "dgx1v", "--no-gaps")
        self.assertEqual((result["ops"], result["threads"], result["cut"], said), (82, 4, False, ""))
        predicted, _ = self.predict(str(DDP))
        self.assertEqual(sum(kind["ops"] for kind in predicted["kinds"]), 82)

    def test_transfers_of_a_ring_are_replayed_as_a_group(self):
        comm = {**COMM, "devices": [0, 1, 2], "clients": [1, 2, 3]}
        ring = [op(rank, 1000, 2000 + rank, collective="transfer", redop=None, root=rank, peer=(rank + 1) % 3,
                   ranks=[rank, (rank + 1) % 3]) for rank in range(3)]
        own = op(3, 3000, 3100, collective="transfer", redop=None, root=1, peer=1, ranks=[1, 1])
        path = self.write(HEADER, comm, *ring, own, END)
        self.assertEqual(self.replay(path, "--private")[0]["ops"], 4)

    def test_what_cannot_be_replayed_is_refused(self):
        good = op(0, 1000, 2000)
        cut = self.write(HEADER, COMM, good, tail='\n{"comm":1,"op":1,"coll')
        self.assertIn("was cut", self.replay(cut, "--private")[1])
        for lines, expected in (
                ((HEADER, {**COMM, "devices": [0, 9]}, good), "of 10 devices and the daemon has 8"),
                ((HEADER, {**COMM, "devices": [0, None]}, good), "where rank 1 of communicator 1 was"),
                ((HEADER, {**COMM, "devices": [2, 2], "clients": [7, 7]}, good), "ranks 0 and 1 of commun"),
                ((HEADER, COMM, {**good, "ranks": [1], "came_us": [0]}), "1 of 2 ranks"),
                ((HEADER, COMM, {**good, "ranks": [0, 0]}), "not each rank once"),
                ((HEADER, COMM, {**good, "collective": "transfer", "root": 0, "peer": 1, "ranks": [1, 0]}),
                 "and then its"),
                ((HEADER, COMM), "no op that succeeded"),
                (({**HEADER, "schema": "blink-trace/2"},), '"blink-trace/2", and this version')):
            with self.subTest(expected=expected):
                arguments = ["--replay", self.write(*lines), "--private", "--topology", "dgx1v"]
                status, out, err = self.run_command([BLINK_PERF, *arguments])
                self.assertEqual((status, out), (1, ""), err)
                self.assertIn(expected, err)
        for words, expected in ((["allreduce", "--replay", "x"], "not both"),
                                (["barrier", "--no-gaps"], "is for --replay"),
                                (["--replay", "x", "--ranks", "2"], "leave out --ranks")):
            status, _, err = self.run_command([BLINK_PERF, *words])
            self.assertEqual(status, 2, err)
            self.assertIn(expected, err)

    def test_bad_usage(self):
        daemon = self.daemon()
        old = self.write(HEADER, COMM, op(0, 1000, 2000), END)
        before = self.lines(old)
        for expected, status, words in (
                ("name it: --output", 2, ["record"]),
                ("leave out --json", 2, ["record", "-o", "x", "--json"]),
                ("run blinkctl record there", 2, ["record", "-o", "x", "--host", "other"]),
                ("no communicator 7", 1, ["record", "-o", old, "--comm", "7"]),
                ("write /nonexistent/x", 1, ["record", "-o", "/nonexistent/x"]),
                ("--trace FILE has sizes", 2, ["simulate", "--trace", "x", "--bytes", "1K"]),
                ("--trace prints a table or --json", 2, ["simulate", "--trace", "x", "--csv"])):
            with self.subTest(words=words):
                ended, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, *words])
                self.assertEqual(ended, status, err)
                self.assertIn(expected, err)
        self.assertEqual(self.lines(old), before, "a trace that was there is gone")


if __name__ == "__main__":
    unittest.main()

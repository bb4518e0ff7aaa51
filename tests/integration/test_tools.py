"""blinkctl and blink-perf against a daemon at work, and the byte counts of links."""
import json
import os
import signal
import socket
import threading
import unittest

from harness import ALL, BLINK_PERF, BLINKCTL, IntegrationTest, is_alive, new_id
from limit import LIMIT_S
from raw import QUERY, VERSION, message, parse

LONG = "allreduce:4000000:float32:sum"


class ToolsTest(IntegrationTest):
    def test_everything_can_be_asked_while_an_op_is_under_way(self):
        daemon = self.daemon("--pace=0.0001", topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1, 4], [LONG])
        while not sum(link["bytes"] for link in self.ctl_json(daemon, "links")["links"]):
            pass
        self.check_status(daemon)
        self.check_comms(daemon)
        self.check_clients(daemon, {rank.pid for rank in ranks})
        self.check_devices(daemon)
        self.check_links(daemon)
        self.check_topology(daemon)
        for rank in ranks:
            self.assert_all_ok(rank.finish())
        self.assertEqual(self.ctl_json(daemon, "status")["op_count"], 1)

    def check_status(self, daemon):
        status = self.ctl_json(daemon, "status")
        self.assertEqual((status["pid"], status["device_count"], status["comm_count"]), (daemon.pid, 8, 1))
        self.assertEqual((status["topology"], status["socket"]), ("dgx1v_hybrid", daemon.socket))
        self.assertEqual(status["pace_scale"], 0.0001)
        self.assertGreaterEqual(status["registered_bytes"], 3 * 2 * 16000000)
        self.assertIn("dgx1v_hybrid", self.ctl(daemon, "status"))

    def check_comms(self, daemon):
        [comm] = self.ctl_json(daemon, "comms")["comms"]
        self.assertEqual((comm["rank_count"], comm["devices"], comm["state"]), (3, [0, 1, 4], "ready"))
        self.assertEqual(len(set(comm["clients"])), 3)
        self.assertEqual(comm["uid"], os.geteuid())
        self.assertIn("ready", self.ctl(daemon, "comms"))

    def check_clients(self, daemon, pids):
        clients = self.ctl_json(daemon, "clients")["clients"]
        ours = [client for client in clients if client["pid"] in pids]
        self.assertEqual({client["pid"] for client in ours}, pids)
        for client in ours:
            self.assertEqual((client["member_count"], client["region_count"]), (1, 1))
            self.assertEqual(client["uid"], os.geteuid())
        table = self.ctl(daemon, "clients")
        for pid in pids:
            self.assertRegex(table, rf"\b{pid}\b")

    def check_devices(self, daemon):
        devices = self.ctl_json(daemon, "devices")["devices"]
        self.assertEqual([(device["index"], device["node"]) for device in devices],
                         [(i, f"gpu{i}") for i in ALL])
        self.assertEqual([device["comm_count"] for device in devices], [1, 1, 0, 0, 1, 0, 0, 0])
        self.assertIn("gpu7", self.ctl(daemon, "devices"))

    def check_links(self, daemon):
        links = self.ctl_json(daemon, "links")["links"]
        [comm] = self.ctl_json(daemon, "comms")["comms"]
        for link in links:
            self.assertGreaterEqual(link["now_GBps"], 0)
            self.assertGreaterEqual(link["bytes"], sum(use["bytes"] for use in link["uses"]))
            self.assertLessEqual({use["comm"] for use in link["uses"]}, {comm["comm"]})
        self.assertIn("gpu0", self.ctl(daemon, "links"))

    def check_topology(self, daemon):
        topology = json.loads(self.ctl(daemon, "topology", "--format", "json"))
        self.assertEqual((topology["schema"], topology["name"]), ("blink-topology/1", "dgx1v_hybrid"))
        self.assertIn("gpu0", self.ctl(daemon, "topology"))
        self.assertIn("graph", self.ctl(daemon, "topology", "--format", "dot"))
        self.assertIn("<svg", self.ctl(daemon, "topology", "--format", "svg"))

    def test_an_idle_daemon_shows_nothing_at_work(self):
        daemon = self.daemon()
        self.assertEqual(self.ctl_json(daemon, "comms")["comms"], [])
        self.assertEqual(self.ctl_json(daemon, "status")["comm_count"], 0)
        for query in ["status", "devices", "topology", "links", "comms", "clients"]:
            self.ctl(daemon, query)

    def test_a_communicator_being_joined_is_shown(self):
        daemon = self.daemon()
        self.start_rank(daemon, new_id(), 3, 1, [])
        while not (comms := self.ctl_json(daemon, "comms")["comms"]):
            pass
        self.assertEqual((comms[0]["state"], comms[0]["rank_count"]), ("joining", 3))
        self.assertEqual([client != 0 for client in comms[0]["clients"]], [False, True, False])

    def test_without_a_daemon_the_exit_status_is_3(self):
        for query in ["status", "devices", "topology", "links", "comms", "clients"]:
            status, out, err = self.run_command([BLINKCTL, "--socket", "/nonexistent/blinkd.sock", query])
            self.assertEqual((status, out), (3, ""), err)
            self.assertIn("/nonexistent/blinkd.sock", err)

    def test_a_pipe_that_closes_ends_what_prints_into_it(self):
        daemon = self.daemon()
        for words in [[BLINKCTL, "links", "--watch=0.05"], [BLINKCTL, "top", "--json", "--delay", "0.25"],
                      [BLINK_PERF, "allreduce", "--ranks 2 -b 1M -e 4M -n 2"]]:
            with self.subTest(words=words):
                command = " ".join([*words, "--socket", daemon.socket, "| head -n 1"])
                status, out, err = self.run_command(["sh", "-c", command])
                self.assertEqual((status, len(out.splitlines()), err), (0, 1, ""))

    def test_the_socket_may_come_from_the_environment(self):
        daemon = self.daemon()
        status, out, _ = self.run_command([BLINKCTL, "status", "--json"],
                                          env=os.environ | {"BLINK_SOCKET": daemon.socket})
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out)["pid"], daemon.pid)


class LinkBytesTest(IntegrationTest):
    COUNT = 1 << 20

    def run_and_count(self, devices, algorithm, step="allreduce", last="sum"):
        """Bytes that one collective moved over each link, by (from, to)."""
        daemon = self.daemon(topology="dgx1v_hybrid")
        for steps in self.run_ranks(daemon, devices, [f"{step}:{self.COUNT}:float32:{last}"], algorithm):
            self.assert_all_ok(steps)
        links = self.ctl_json(daemon, "links")["links"]
        daemon.stop()
        return {(link["from"], link["to"], link["kind"]): link["bytes"] for link in links if link["bytes"]}

    def plan(self, collective, devices, algorithm):
        status, out, err = self.run_command([BLINKCTL, "plan", "--topology", "dgx1v_hybrid", "--collective",
                                             collective, "--ranks", ",".join(map(str, devices)),
                                             "--algorithm", algorithm, "--json"])
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def planned_loads(self, plan):
        loads = {}
        for tree in plan["trees"]:
            for edge in tree["edges"]:
                for pair in zip(edge["path"], edge["path"][1:]):
                    loads[pair] = loads.get(pair, 0) + tree["share"]
        return loads

    def check_loads(self, devices, algorithm, collective="allreduce"):
        moved = {}
        for (start, end, _), count in self.run_and_count(devices, algorithm, collective,
                                                         "sum" if collective == "allreduce" else "0").items():
            moved[start, end] = moved.get((start, end), 0) + count
        loads = self.planned_loads(self.plan(collective, devices, algorithm))
        self.assertEqual(set(moved), set(pair for pair, load in loads.items() if load > 0))
        for pair, load in loads.items():
            # Shares are cut to 16 bytes per channel.
            self.assertAlmostEqual(moved.get(pair, 0) / (4 * self.COUNT), load, delta=1e-3, msg=pair)

    def test_an_nvlink_ring_moves_two_payloads_less_one_share_over_each_hop(self):
        """A ring AllReduce of n ranks moves 2 (n-1)/n of the payload over each hop: 2 (n-1) payloads in
        all."""
        moved = self.run_and_count([0, 1, 2, 3], "ring")
        self.assertEqual({kind for _, _, kind in moved}, {"nvlink"})
        self.assertEqual(sum(moved.values()), 2 * 3 * 4 * self.COUNT)

    def test_links_carry_what_the_plan_says(self):
        for algorithm in ["trees", "ring"]:
            for devices in [ALL, [1, 4, 5, 6]]:
                for collective in ["allreduce", "broadcast"]:
                    with self.subTest(algorithm=algorithm, devices=devices, collective=collective):
                        self.check_loads(devices, algorithm, collective)


class PerfTest(IntegrationTest):
    def test_measures_and_checks_on_a_running_daemon(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        for collective in ["allreduce", "broadcast"]:
            status, out, err = self.run_command([BLINK_PERF, collective, "--socket", daemon.socket, "--ranks",
                                                 "4", "-b", "1K", "-e", "64K", "-f", "4", "-n", "3", "-w",
                                                 "1", "--check", "--json"])
            self.assertEqual(status, 0, err)
            lines = [json.loads(line) for line in out.splitlines()]
            self.assertEqual({line["bytes"] for line in lines}, {1024, 4096, 16384, 65536})
            for line in lines:
                self.assertEqual((line["collective"], line["ranks"], line["wrong"]), (collective, 4, 0))

    def test_private_daemon(self):
        status, out, err = self.run_command([BLINK_PERF, "allreduce", "--private", "--topology", "dgx1v",
                                             "--ranks", "8", "-b", "64K", "-e", "64K", "-n", "3", "-w", "1",
                                             "--check", "--json"])
        self.assertEqual(status, 0, err)
        self.assertEqual([json.loads(line)["wrong"] for line in out.splitlines()],
                         [0] * len(out.splitlines()))
        self.assertTrue(out)

    def measure(self, daemon, *arguments):
        status, out, err = self.run_command([BLINK_PERF, *arguments, "--socket", daemon.socket, "-n", "2",
                                             "-w", "1", "--json"])
        self.assertEqual(status, 0, err)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(lines)
        self.assertEqual([line["wrong"] for line in lines], [0] * len(lines))
        return lines

    def test_several_ops_at_a_time_have_the_bandwidth_of_all(self):
        daemon = self.daemon(devices=3)
        for how in [["--groups", "3"], ["--comms", "4"], ["--threads"],
                    ["--threads", "--groups", "2", "--comms", "2", "--memory", "malloc"]]:
            for collective in ["allreduce", "alltoallv", "sendrecv"]:
                with self.subTest(how=how, collective=collective):
                    line = self.measure(daemon, collective, "--ranks", "3", "-b", "12K", "-e", "12K", *how)[0]
                    moved = line["bytes"] * line["groups"] * line["comms"]
                    self.assertAlmostEqual(line["algbw_GBps"], moved / line["time_us"] / 1e3,
                                           delta=1e-6 * line["algbw_GBps"])

    def test_sizes_are_of_all_blocks_and_counts_of_one(self):
        daemon = self.daemon(devices=4)
        for collective, count, factor in [("allreduce", 1024, 1.5), ("broadcast", 1024, 1),
                                          ("allgather", 256, 0.75), ("reducescatter", 256, 0.75),
                                          ("gather", 256, 0.75), ("scatter", 256, 0.75),
                                          ("alltoall", 256, 0.75), ("sendrecv", 1024, 1)]:
            with self.subTest(collective=collective):
                line = self.measure(daemon, collective, "--ranks", "4", "-b", "4K", "-e", "4K")[0]
                self.assertEqual((line["bytes"], line["count"]), (4096, count))
                self.assertAlmostEqual(line["busbw_GBps"], factor * line["algbw_GBps"],
                                       delta=1e-6 * line["algbw_GBps"])

    def test_placements_and_lists_are_measured_as_asked(self):
        daemon = self.daemon(devices=2)
        small = ["--ranks", "2", "-b", "64", "-e", "64"]
        lines = self.measure(daemon, "reduce", *small, "--datatype", "all", "--op", "all", "--in-place",
                             "yes")
        self.assertEqual(len({(line["dtype"], line["op"]) for line in lines}), 12 * 6)
        self.assertEqual({line["in_place"] for line in lines}, {True})
        self.assertEqual([line["in_place"] for line in self.measure(daemon, "alltoall", *small)], [False])
        barriers = self.measure(daemon, "barrier", "--ranks", "2")
        self.assertEqual([(line["bytes"], line["dtype"], line["op"], line["root"]) for line in barriers],
                         [(0, None, None, None)])

    def test_memory_that_is_not_there_is_not_tried(self):
        command = [BLINK_PERF, "allreduce", "--private", "--ranks", "2", "-b", "1T"]
        status, out, err = self.run_command(command)
        self.assertEqual((status, out), (1, ""), err)
        self.assertRegex(err, "2 ranks would take 4.00 TiB, and this machine has .* left")

    def test_what_cannot_be_measured_is_refused_by_name(self):
        for arguments, text in [(["allreducev"], "allgatherv"),
                                (["alltoall", "--in-place", "yes"], "alltoall"),
                                (["allreduce", "--memory", "hbm"], "hbm"),
                                (["allreduce", "--op", "xor"], "xor"),
                                (["allreduce", "--in-place", "maybe"], "maybe"),
                                (["allreduce", "--groups", "0"], "--groups 0"),
                                (["allreduce", "--comms", "many"], "many"),
                                (["nop", "--comms", "2"], "--comms")]:
            with self.subTest(arguments=arguments):
                status, _, err = self.run_command([BLINK_PERF, *arguments])
                self.assertEqual(status, 2)
                self.assertIn(text, err)

    def kill_a_rank(self, is_stopped):
        """What is said of it. The program may be stopped until all ranks have ended."""
        daemon = self.daemon()
        perf = self.start([BLINK_PERF, "allreduce", "--socket", daemon.socket, "--ranks", "2", "--memory",
                           "malloc", "-b", "64M", "-e", "64M", "-n", "1000000"])
        self.until(lambda: self.ctl_json(daemon, "status")["op_count"] > 2)
        pid_of = {client["client"]: client["pid"] for client in self.ctl_json(daemon, "clients")["clients"]}
        [comm] = self.ctl_json(daemon, "comms")["comms"]
        pids = [pid_of[client] for client in comm["clients"]]
        if is_stopped:
            os.kill(perf.pid, signal.SIGSTOP)
        os.kill(pids[1], signal.SIGKILL)
        if is_stopped:
            self.until(lambda: not any(map(is_alive, pids)))
            os.kill(perf.pid, signal.SIGCONT)
        self.assertEqual(perf.wait(), 1)
        return perf.stderr()

    def test_a_killed_rank_is_named_whichever_ends_first(self):
        for is_stopped in [True, False]:
            with self.subTest(is_stopped=is_stopped):
                self.assertRegex(self.kill_a_rank(is_stopped), r"rank 1 was ended by signal 9 \(Killed\)\n")

    def test_without_a_daemon_it_says_so(self):
        status, _, err = self.run_command([BLINK_PERF, "allreduce", "--socket", "/nonexistent/blinkd.sock",
                                           "--ranks", "2"])
        self.assertGreater(status, 0)
        self.assertIn("/nonexistent/blinkd.sock", err)


class FakeDaemon(threading.Thread):
    """Serves one tool with an answer to each question, whatever it is."""

    def __init__(self, path, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.start()

    def run(self):
        tool, _ = self.listener.accept()
        stream = tool.makefile("rwb")
        while header := stream.read(4):
            request = parse(stream.read(int.from_bytes(header, "little")))
            hello = message(_3=message(_1=VERSION, _2=b"0.0.9"))
            body = message(_6=self.answer) if QUERY in request else hello
            reply = message(_1=request[1]) + body
            stream.write(len(reply).to_bytes(4, "little") + reply)
            stream.flush()
        tool.close()


class OddAnswers(IntegrationTest):
    def refused(self, answer, *arguments):
        path = os.path.join(self.directory(), "blinkd.sock")
        daemon = FakeDaemon(path, answer)
        status, out, err = self.run_command([BLINKCTL, "--socket", path, *arguments])
        daemon.join(LIMIT_S)
        daemon.listener.close()
        self.assertEqual((status, out), (1, ""), err)
        return err

    def test_an_answer_without_an_end_is_not_awaited(self):
        self.assertIn("the answer does not end", self.refused(message(_15=1), "clients"))

    def test_an_older_daemon_that_overlooks_the_host_is_noticed(self):
        self.assertIn("the daemon of this host is blinkd 0.0.9, which asks no other hosts",
                      self.refused(b"", "clients", "--host", "n2"))


if __name__ == "__main__":
    unittest.main()

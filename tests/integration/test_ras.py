"""blinkctl ras: what collectors of NCCL's RAS are told, and who talks to it as nobody should."""
import json
import socket
import unittest

from harness import BLINKCTL, LIMIT_S, new_id
from test_metrics import ServingTest

SHORT = "allreduce:100:float32:sum"


class RasTest(ServingTest):
    def say(self, port, text):
        """What is answered, until the connection is closed."""
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
            connection.sendall(text)
            with connection.makefile("rb") as answer:
                return answer.read().decode()

    def report(self, port):
        """As NCCL's own client asks for it."""
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
            with connection.makefile("rwb") as talk:
                for line, answer in (("CLIENT PROTOCOL 2", "SERVER PROTOCOL 2"), ("TIMEOUT 5", "OK"),
                                     ("SET FORMAT json", "OK")):
                    talk.write(f"{line}\n".encode())
                    talk.flush()
                    self.assertEqual(talk.readline().decode(), f"{answer}\n")
                talk.write(b"STATUS\n")
                talk.flush()
                return json.loads(talk.read())

    def start_with_a_late_rank(self, daemon):
        """Rank 1 of "grads" comes to one op only, and one op waits for it."""
        identifier = new_id()
        ranks = [self.start_rank(daemon, identifier, 2, rank, steps, name="grads")
                 for rank, steps in enumerate(([SHORT, SHORT], [SHORT, "gate:late", SHORT]))]
        ranks[1].wait_for_step("at-gate")
        self.until(lambda: len(self.ctl_json(daemon, "ops", "1")["ops"]) == 2)
        return ranks

    def finish(self, ranks):
        ranks[1].say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_who_lacks_is_told_as_collectors_want_it(self):
        daemon = self.daemon()
        port = self.serve(daemon, "ras", "--serve")
        ranks = self.start_with_a_late_rank(daemon)
        report = self.report(port)
        self.assertEqual((report["communicators_count"], report["ras"]["timeouts_count"]), (1, 0))
        comm, = report["communicators"]
        self.assertRegex(comm["hash"], "^0x[0-9a-f]{8}$")
        self.assertEqual((comm["name"], comm["size"], comm["ranks_count"], comm["missing_ranks"]),
                         ("grads", 2, 2, []))
        pids = {client["client"]: client["pid"] for client in self.ctl_json(daemon, "clients")["clients"]}
        clients = self.ctl_json(daemon, "comms")["comms"][0]["clients"]
        for number, rank in enumerate(comm["ranks"]):
            self.assertEqual((rank["rank"], rank["host"], rank["pid"], rank["cuda_dev"]),
                             (number, socket.gethostname(), pids[clients[number]], number))
            self.assertEqual(rank["status"], {"init_state": 0, "async_error": 0, "finalize_called": False,
                                              "destroy_flag": False, "abort_flag": False})
            self.assertEqual((rank["collective_counts"]["AllReduce"], rank["collective_counts"]["Other"]),
                             (2 - number, 0))
        self.assertEqual((comm["oldest_op"]["collective"], comm["oldest_op"]["missing_ranks"]),
                         ("allreduce", [1]))
        self.assertEqual(comm["completed_ops"], 1)
        text = self.say(port, b"VERBOSE STATUS\r\n")
        self.assertRegex(text, r"(?m)^ *1 +[0-9a-f]{8} +grads +2 +0 +1 +0 +RUNNING +MISMATCH$")
        self.assertRegex(text, r"(?m)^ *1 +1 +\d+ +\S+ +1 +here$")
        self.assertIn("communicator 1: allreduce 2 of 400 B waits for rank 1, since ", text)
        self.finish(ranks)

    def test_ranks_that_have_not_joined_are_missing(self):
        daemon = self.daemon()
        identifier = new_id()
        first = self.start_rank(daemon, identifier, 2, 0, [SHORT])
        self.until(lambda: self.ctl_json(daemon, "comms")["comms"])
        comm, = self.ctl_json(daemon, "ras")["communicators"]
        self.assertEqual([rank["status"]["init_state"] for rank in comm["ranks"]], [7])
        missing, = comm["missing_ranks"]
        self.assertEqual((missing["rank"], missing["status"]),
                         (1, {"unresponsive": True, "considered_dead": False}))
        text = self.ctl(daemon, "ras")
        self.assertRegex(text, r"(?m) INIT +INCOMPLETE$")
        self.assertIn("communicator 1: rank 1 has not joined\n", text)
        second = self.start_rank(daemon, identifier, 2, 1, [SHORT])
        for rank in (first, second):
            self.assert_all_ok(rank.finish())

    def test_without_communicators_there_is_no_table(self):
        daemon = self.daemon()
        for words in ([], ["--verbose"]):
            text = self.ctl(daemon, "ras", *words)
            self.assertIn("Communicators\n=============\n\nnone\n\nErrors\n", text)

    def test_rubbish_and_who_hangs_are_bounded(self):
        daemon = self.daemon()
        port = self.serve(daemon, "ras", "--serve")
        idle = [socket.create_connection(("127.0.0.1", port), LIMIT_S) for _ in range(8)]
        idle[0].sendall(b"STAT")
        answers = self.say(port, b"timeout x\nset format xml\nmonitor\n\0\xff\n\nstatus\n").split("\n")
        for answer, beginning in zip(answers, ("ERROR: no time-out", "ERROR: the format is text or json",
                                               *["ERROR: blinkd does not know the command"] * 3, "blinkd ")):
            self.assertTrue(answer.startswith(beginning), answers)
        self.assertEqual(self.say(port, b"x" * 1024), "")
        self.assertEqual(self.say(port, b"timeout 5\n" * 64), "OK\n" * 64)
        self.assertEqual(self.report(port)["communicators"], [])
        for connection in idle:  # who says nothing, or no whole line, is left
            with connection, connection.makefile("rb") as answer:
                self.assertEqual(answer.read(), b"")
        daemon.check_serves()

    def test_without_a_daemon_the_answer_is_an_error(self):
        daemon = self.daemon()
        port = self.serve(daemon, "ras", "--serve")
        daemon.stop()
        answer = self.say(port, b"status\n")
        self.assertTrue(answer.startswith("ERROR: "), answer)
        self.assertIn(daemon.socket, answer)
        status, _, err = self.run_command([BLINKCTL, "ras", "--serve"])
        self.assertEqual(status, 1)
        self.assertIn("blinkd-ras.socket", err)


if __name__ == "__main__":
    unittest.main()

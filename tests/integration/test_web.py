"""blinkctl web: what it answers, whom it refuses, and the page in a browser."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from xml.etree import ElementTree

from harness import BLINKCTL, Daemon, IntegrationTest
from limit import LIMIT_S

LONG = "allreduce:4000000:float32:sum"
SHORT = "allreduce:1000:float32:sum"
CHROMIUM = shutil.which("chromium")


class WebTest(IntegrationTest):
    def web(self, daemon, listen="127.0.0.1:0"):
        """The address, which the server prints when it listens."""
        self.server = self.start([BLINKCTL, "--socket", daemon.socket, "web", "--listen", listen])
        self.server.wait_for("its address", lambda server: "\n" in server.stdout())
        return self.server.stdout().strip()

    def stop(self):
        self.server.child.terminate()
        self.assertEqual(self.server.wait(), 0, self.server.describe())

    def get(self, address, method="GET"):
        """Status, headers, text."""
        request = urllib.request.Request(address, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def refused(self, address, status, *texts, method="GET"):
        answered, _, text = self.get(address, method)
        self.assertEqual(answered, status, text)
        for part in texts:
            self.assertIn(part, text)

    def busy_daemon(self):
        daemon = self.daemon("--pace=0.0001", topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1, 4], [SHORT, LONG])
        self.until(lambda: self.ctl_json(daemon, "status")["op_count"] > 0)
        return daemon, ranks

    def test_page_state_and_pictures(self):
        daemon, _ = self.busy_daemon()
        address = self.web(daemon)
        status, headers, page = self.get(address)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotRegex(page, r"(src|href)=", "the page loads something")
        state = json.loads(self.get(address + "top.json")[2])
        self.assertEqual((state["schema"], state["comms"][0]["rank_count"]), ("blink-top/1", 3))
        self.assertEqual(state["events"][-1]["kind"], "daemon-started")
        for picture in ["topology.svg", "topology.svg?comm=1", "plan.svg?comm=1"]:
            status, headers, text = self.get(address + picture)
            self.assertEqual((status, headers["Content-Type"]), (200, "image/svg+xml"), text)
            self.assertEqual(ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
        self.stop()

    def test_who_has_no_key_or_asks_for_something_else_is_refused(self):
        daemon = self.daemon()
        address = self.web(daemon)
        root, key = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)([0-9a-f]{32})/", address).groups()
        self.refused(root, 403, "key")
        self.refused(root + "top.json", 403)
        self.refused(root + key[:-1] + "/", 403)
        self.refused(root + key, 404, "ends with /")
        self.refused(root + key + "x/", 404)
        self.refused(address + "../../etc/passwd", 404)
        self.refused(address + "nothing", 404, "/top.json")
        self.refused(address + "plan.svg?comm=7", 404, "no communicator 7")
        self.refused(address + "plan.svg?comm=-1", 400, "the number of a communicator")
        self.refused(address, 405, method="POST")
        self.assertEqual(self.get(address)[0], 200)
        self.stop()

    def test_a_daemon_that_goes_is_said_and_found_again(self):
        daemon = self.daemon()
        address = self.web(daemon)
        self.assertEqual(self.get(address + "topology.svg")[0], 200)
        daemon.stop()
        self.refused(address + "topology.svg", 503)
        self.refused(address + "topology.svg", 503, "no daemon answers")
        again = Daemon(self, directory=daemon.directory)
        self.assertEqual(self.get(address + "topology.svg")[0], 200)
        again.stop()
        self.stop()

    def test_without_a_daemon_it_says_so_at_once_and_waits_for_one(self):
        directory = self.directory()
        self.server = self.start([BLINKCTL, "--socket", os.path.join(directory, "blinkd.sock"), "web",
                                  "--listen", "127.0.0.1:0"])
        self.server.wait_for("address and note", lambda server: "\n" in server.stdout() and
                             "no daemon answers" in server.stderr())
        address = self.server.stdout().strip()
        self.refused(address + "topology.svg", 503, "no daemon answers")
        daemon = Daemon(self, directory=directory)
        self.assertEqual(self.get(address + "topology.svg")[0], 200)
        daemon.stop()
        self.stop()

    def test_another_run_of_the_daemon_counts_anew(self):
        """Also one that has been up for longer than the one before had been when it was last looked at."""
        daemon = self.daemon()
        address = self.web(daemon)

        def look(daemon, steps, up_s):
            ranks = self.start_ranks(daemon, [0, 1], [*steps, "gate:shown"])
            self.until(lambda: (status := self.ctl_json(daemon, "status"))["op_count"] == len(steps)
                       and status["uptime_s"] > up_s)
            state = json.loads(self.get(address + "top.json")[2])
            for rank in ranks:
                rank.say()
            for rank in ranks:
                self.assert_all_ok(rank.finish())
            return state

        before = look(daemon, [SHORT], 0.6)
        daemon.stop()
        self.until(lambda: self.get(address + "top.json")[0] == 503)  # it gives the last look for a while
        again = Daemon(self, directory=daemon.directory)
        after = look(again, [SHORT] * 3, before["uptime_s"] + 0.1)
        self.assertEqual([comm["op_count"] for comm in before["comms"] + after["comms"]], [1, 3])
        self.assertEqual([comm["ops_per_s"] for comm in after["comms"]], [0])
        again.stop()
        self.stop()

    def test_who_connects_and_says_nothing_is_in_nobodys_way(self):
        daemon = self.daemon()
        address = self.web(daemon)
        port = int(re.search(r":(\d+)/", address)[1])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        silent[0].sendall(b"GET / HTTP/1.1\r\nHost: ")
        self.assertEqual(self.get(address + "top.json")[0], 200)
        for connection in silent:
            connection.close()
        self.stop()

    def test_a_unix_socket_is_its_owners_alone(self):
        daemon = self.daemon()
        path = os.path.join(self.directory(), "web.sock")
        self.assertEqual(self.web(daemon, path), path)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(b"GET /top.json HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        self.assertIn(b"200 OK", answer)
        self.assertIn(b"blink-top/1", answer)
        self.stop()
        self.assertFalse(os.path.exists(path))

    def test_what_is_there_already_is_left_alone(self):
        daemon = self.daemon()
        path = self.write_file("web.sock", "mine")
        status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "web", "--listen", path])
        self.assertEqual(status, 1)
        self.assertIn("something is there already", err)
        self.assertTrue(os.path.isfile(path))

    def test_a_port_alone_is_one_of_this_machine(self):
        self.assertRegex(self.web(self.daemon(), "0"), r"^http://127\.0\.0\.1:[1-9]\d*/")
        self.stop()

    def test_other_addresses_are_refused(self):
        daemon = self.daemon()
        for where in ["0.0.0.0:8674", "[::]:8674", "127.0.0.1", "127.0.0.1:70000", "70000", "host:80", ":80",
                      ""]:
            status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "web", "--listen", where])
            self.assertEqual(status, 1)
            self.assertIn("ssh -L", err)

    def browse(self, address):
        """The page after some seconds of a browser's clock, as HTML."""
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   f"--user-data-dir={self.directory()}", "--virtual-time-budget=4000", "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * LIMIT_S, check=True)
        return done.stdout

    def test_the_page_in_a_browser(self):
        if not CHROMIUM:
            print("SKIPPED: no chromium here", file=sys.stderr)
            raise unittest.SkipTest("no chromium")
        daemon, _ = self.busy_daemon()
        page = self.browse(self.web(daemon) + "#comm=1")
        self.assertRegex(page, r'(?s)id="comms".*<td class="">allreduce of 3\.91 KiB</td>')
        self.assertRegex(page, r'<path data-from="gpu0" data-to="gpu1"[^>]*stroke="rgb\(')
        self.assertRegex(page, r'(?s)id="plan".*allreduce on dgx1v_hybrid, 3 ranks')
        self.assertRegex(page, r'id="notice" role="status"></div>')
        self.stop()

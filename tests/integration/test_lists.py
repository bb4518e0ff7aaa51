"""blinkctl's lists: filters, order, and --watch on a terminal and elsewhere."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from harness import BLINKCTL, IntegrationTest
from limit import LIMIT_S


class ListsTest(IntegrationTest):
    def test_filters_and_order(self):
        daemon = self.daemon(topology="dgx1v")
        ranks = self.start_ranks(daemon, [0, 1], ["allreduce:1000:float32:sum", "gate"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        [comm] = self.ctl_json(daemon, "comms")["comms"]
        mine, other = str(os.geteuid()), str(os.geteuid() + 1)
        links = lambda *words: self.ctl_json(daemon, "links", *words)["links"]
        self.assertEqual({(link["from"], link["to"]) for link in links("--comm", str(comm["comm"]))},
                         {("gpu0", "gpu1"), ("gpu1", "gpu0")})
        for view in ("links", "comms", "clients"):
            status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, view, "--comm", "999"])
            self.assertEqual((status, "--comm 999: there is no communicator 999" in err), (1, True), err)
        self.assertEqual(self.ctl_json(daemon, "events", "--comm", "999")["events"], [])
        self.assertIn("Nothing of it is as the filters ask.", self.ctl(daemon, "links", "--user", other))
        self.assertEqual((len(links("--user", mine)), links("--user", other)), (2, []))
        moved = [link["bytes"] for link in links("--sort", "bytes")]
        self.assertEqual(moved, sorted(moved, reverse=True))
        self.assertEqual([link["bytes"] for link in links("--sort=-bytes")], sorted(moved))
        clients = self.ctl_json(daemon, "clients", "--comm", str(comm["comm"]), "--sort", "pid")["clients"]
        self.assertEqual([client["pid"] for client in clients],
                         sorted((rank.pid for rank in ranks), reverse=True))
        for view in ("comms", "clients", "tenants"):
            self.assertTrue(self.ctl_json(daemon, view, "--busy", "--user", mine)[view])
            self.assertEqual(self.ctl_json(daemon, view, "--user", other)[view], [])
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_empty_lists_say_that_there_is_nothing(self):
        daemon = self.daemon()
        for view, said in [("comms", "There are no communicators."),
                           ("clients", "No application is connected."),
                           ("nodes", "This daemon knows no other host")]:
            self.assertIn(said, self.ctl(daemon, view))
            self.assertEqual(self.ctl_json(daemon, view)[view], [])

    def test_what_a_list_cannot_be_asked_is_refused(self):
        for words, text in [(["links", "--sort", "byte"], "did you mean 'bytes'?"),
                            (["tenants", "--comm", "1"], "comm"), (["links", "--comm", "0"], "--comm 0"),
                            (["comms", "--user", "no-such-user"], "no-such-user"),
                            (["links", "--watch=0"], "--watch 0"),
                            (["links", "--watch", "--host", "all"], "one host")]:
            with self.subTest(words=words):
                status, _, err = self.run_command([BLINKCTL, *words])
                self.assertEqual((status, text in err), (2, True), err)

    def test_watching_prints_a_line_of_json_each_time(self):
        daemon = self.daemon()
        watches = [self.start([BLINKCTL, "--socket", daemon.socket, "links", *words, "--json"])
                   for words in (["--watch=0.05"], ["--watch", "0.05"])]
        for watch in watches:
            watch.wait_for("three lines", lambda watch: watch.stdout().count("\n") >= 3)
            for line in watch.stdout().splitlines()[:3]:
                self.assertEqual(json.loads(line)["schema"], "blink-links/1")
        daemon.stop()
        self.assertEqual([watch.wait() for watch in watches], [3, 3])


class Terminal:
    """A program on a terminal of so many rows and columns, and what its last screen shows."""

    def __init__(self, case, rows, columns, *command):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.text = ""
        self.child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave,
                                      start_new_session=True)
        os.close(slave)
        case.addCleanup(self.close)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def screen(self):
        """The lines of the last whole screen."""
        screens = self.text.split("\x1b[H")
        last = next((text for text in reversed(screens) if "\x1b[J" in text), "")
        return re.sub(r"\x1b\[\w+", "", last.split("\x1b[J")[0]).split("\r\n")

    def until(self, condition):
        deadline = time.monotonic() + LIMIT_S
        while not condition(self.screen()):
            if time.monotonic() > deadline:
                raise AssertionError("\n".join(self.screen()))
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode()
                except OSError:  # the other end is closed
                    break
        return self.screen()

    def settings(self):
        return termios.tcgetattr(self.master)[3]

    def close(self):
        self.child.kill()
        self.child.wait()
        os.close(self.master)


class TerminalTest(IntegrationTest):
    def watch(self, daemon, rows, columns):
        return Terminal(self, rows, columns, BLINKCTL, "--socket", daemon.socket, "links", "--watch=0.05",
                        "--sort", "from")

    def test_the_header_stays_while_pages_turn(self):
        daemon = self.daemon(topology="dgx1v")
        terminal = self.watch(daemon, 12, 80)
        first = terminal.until(lambda screen: len(screen) == 12 and "rows 1-9 of" in screen[-1])
        self.assertRegex(first[0], r"^\d+ directed links")
        self.assertRegex(first[1], r"^from +to +kind")
        terminal.press(" ")
        second = terminal.until(lambda screen: "rows 10-18 of" in screen[-1])
        self.assertEqual(second[:2], first[:2])
        self.assertNotEqual(second[2:11], first[2:11])
        terminal.press("b")
        terminal.until(lambda screen: "rows 1-9 of" in screen[-1])

    def test_a_smaller_terminal_gets_smaller_pages(self):
        daemon = self.daemon(topology="dgx1v")
        terminal = self.watch(daemon, 24, 80)
        terminal.until(lambda screen: len(screen) == 24)
        terminal.resize(6, 30)
        small = terminal.until(lambda screen: len(screen) == 6)
        self.assertLessEqual(max(map(len, small)), 30)
        self.assertIn("rows 1-3 of", small[-1])

    def test_the_terminal_is_as_before_however_it_ends(self):
        daemon = self.daemon(topology="dgx1v")
        for end in (lambda terminal: terminal.press("q"),
                    lambda terminal: terminal.child.send_signal(signal.SIGTERM)):
            terminal = self.watch(daemon, 24, 80)
            terminal.until(lambda screen: len(screen) == 24)
            end(terminal)
            terminal.child.wait(LIMIT_S)
            self.assertTrue(terminal.settings() & termios.ECHO and terminal.settings() & termios.ICANON)

    def test_a_daemon_that_goes_ends_it_with_the_reason(self):
        daemon = self.daemon(topology="dgx1v")
        terminal = self.watch(daemon, 24, 80)
        terminal.until(lambda screen: len(screen) == 24)
        daemon.stop()
        self.assertEqual(terminal.child.wait(LIMIT_S), 3)


if __name__ == "__main__":
    unittest.main()

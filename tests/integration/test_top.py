"""blinkctl top: on terminals of several sizes, as tmux emulates them, and as text."""
import json
import os
import shlex
import subprocess

from harness import BLINKCTL, Daemon, IntegrationTest
from limit import LIMIT_S

LONG = "allreduce:4000000:float32:sum"
PARTS = ["USER", "COMM", "LINK"]


class Terminal:
    """blinkctl top in a terminal of tmux's, which it has for itself."""

    def __init__(self, case, daemon, columns, lines, *arguments, environment=""):
        self.case = case
        self.tmux = ["tmux", "-f", "/dev/null", "-S", os.path.join(case.directory(), "tmux")]
        command = shlex.join([BLINKCTL, "--socket", daemon.socket, "top", *arguments])
        # Curses keeps memory to the end, which AddressSanitizer takes for lost.
        known = case.write_file("lsan", "leak:libncurses\nleak:libtinfo\n")
        environment += f" LSAN_OPTIONS=suppressions={known}"
        self.call("new-session", "-d", "-x", columns, "-y", lines,
                  f"{environment} {command}; echo status $?; exec sleep {LIMIT_S}")
        case.addCleanup(self.call, "kill-server")

    def call(self, *arguments):
        done = subprocess.run([*self.tmux, *map(str, arguments)], capture_output=True, text=True,
                              timeout=LIMIT_S, check=True)
        return done.stdout

    def lines(self, *flags):
        return self.call("capture-pane", "-p", *flags).splitlines()

    def press(self, *keys):
        self.call("send-keys", *keys)

    def wait_for(self, text):
        self.case.until(lambda: any(text in line for line in self.lines()))

    def headers(self):
        return [line.split()[0] for line in self.lines() if line.split() and line.split()[0] in PARTS]


class TopTest(IntegrationTest):
    def busy_daemon(self):
        daemon = self.daemon("--pace=0.0001", topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1, 4], [LONG])
        self.until(lambda: self.ctl_json(daemon, "links")["links"][0]["bytes"] > 0)
        return daemon, ranks

    def test_all_parts_fit_on_small_and_large_terminals(self):
        daemon, _ = self.busy_daemon()
        for columns, lines in [(80, 24), (200, 60)]:
            terminal = Terminal(self, daemon, columns, lines)
            terminal.wait_for("q quit")
            shown = terminal.lines()
            self.assertEqual(terminal.headers(), PARTS, shown)
            self.assertLessEqual(max(map(len, shown)), columns)
            self.assertRegex("\n".join(shown), r"gpu0 +gpu1 +nvlink")
            terminal.press("q")
            terminal.wait_for("status 0")

    def test_a_terminal_that_shrinks_and_grows(self):
        daemon, _ = self.busy_daemon()
        terminal = Terminal(self, daemon, 120, 40)
        terminal.wait_for("q quit")
        for columns, lines in [(30, 6), (5, 1), (80, 24)]:
            terminal.call("resize-window", "-x", columns, "-y", lines)
        terminal.wait_for("arrows scroll")
        self.assertEqual(terminal.headers(), PARTS)

    def test_keys_sort_scroll_and_pause(self):
        daemon, _ = self.busy_daemon()
        terminal = Terminal(self, daemon, 80, 24)
        terminal.wait_for("s by rate")
        terminal.press("s", "s")
        terminal.wait_for("s by name")
        terminal.press("End")
        terminal.wait_for("-29 of 29 <")
        terminal.press("Home", "Down")
        terminal.wait_for(" 2-")
        terminal.press("p")
        terminal.wait_for("p go on")

    def test_colours_can_be_switched_off(self):
        daemon, _ = self.busy_daemon()
        terminal = Terminal(self, daemon, 80, 24, environment="NO_COLOR=1")
        terminal.wait_for("q quit")
        self.assertNotRegex("\n".join(terminal.lines("-e")), "\x1b\\[[0-9;]*3[0-7]m")

    def test_a_daemon_that_goes_is_said_and_found_again(self):
        daemon = self.daemon()
        terminal = Terminal(self, daemon, 160, 24, "--delay", "0.25")
        terminal.wait_for("q quit")
        daemon.stop()
        terminal.wait_for("no daemon answers")
        again = Daemon(self, directory=daemon.directory)
        self.until(lambda: not any("no daemon answers" in line for line in terminal.lines()))
        again.stop()

    def test_terminals_that_cannot_be_drawn_on(self):
        daemon = self.daemon()
        for kind in ["dumb", "of-no-such-kind"]:
            terminal = Terminal(self, daemon, 160, 24, environment=f"TERM={kind}")
            terminal.wait_for("status 1")
            self.assertIn(f"TERM={kind} is no terminal", "\n".join(terminal.lines()))
        status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "top"])
        self.assertEqual(status, 1)
        self.assertIn("--once", err)

    def test_once_as_text_and_as_json(self):
        daemon, _ = self.busy_daemon()
        text = self.ctl(daemon, "top", "--once", "--delay", "0.25")
        self.assertRegex(text, r"LINK +TO +KIND")
        self.assertRegex(text, r"PROCESSES +RANKS +RANK OPS/S")
        state = self.ctl_json(daemon, "top", "--once", "--delay", "0.25")
        self.assertEqual(state["schema"], "blink-top/1")
        [comm] = state["comms"]
        self.assertEqual((comm["rank_count"], comm["state"], comm["latest"]), (3, "ready", None))
        self.assertEqual([job["process_count"] for job in state["jobs"] if job["member_count"]], [3])
        ends = {(link["from"], link["to"], link["kind"]) for link in state["links"]}
        back = {(to, source, kind) for source, to, kind in ends}
        self.assertFalse(ends & back, "a direction stands apart from the other one")

    def test_parts_without_anything_in_them_are_left_out(self):
        text = self.ctl(self.daemon(), "top", "--once", "--delay", "0.25")
        self.assertEqual([part for part in PARTS if f"\n{part} " in text], ["LINK"], text)
        self.assertNotIn("\n\n\n", text)

    def test_who_is_missing_is_named(self):
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1, 2], {1: ["gate"], None: ["allreduce:1000:float32:sum"]})
        def awaits():
            comms = self.ctl_json(daemon, "top", "--once", "--delay", "0.25")["comms"]
            return comms and comms[0]["awaits"]
        self.until(lambda: awaits() == "1")
        self.assertIn("awaits rank 1 ", self.ctl(daemon, "top", "--once", "--delay", "0.25"))
        for rank in ranks:
            rank.kill()

    def test_each_look_is_a_line_of_json(self):
        daemon = self.daemon()
        top = self.start([BLINKCTL, "--socket", daemon.socket, "top", "--json", "--delay", "0.25"])
        top.wait_for("two looks", lambda process: process.stdout().count("\n") >= 2)
        top.kill()
        for line in top.stdout().splitlines()[:2]:
            self.assertEqual(json.loads(line)["schema"], "blink-top/1")

    def test_a_delay_that_makes_no_sense(self):
        daemon = self.daemon()
        for delay in ["0", "-1", "nan", "1e9", "1s"]:
            status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "top", "--delay", delay])
            self.assertEqual(status, 2)
            self.assertIn("seconds, from 0.25", err)

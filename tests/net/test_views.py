"""What a tool sees of another host, through the daemon of its own: blinkctl --host."""
import json
import os
import re
import shutil
import signal
import unittest

from cluster import OP, RanksTest, require_namespaces
from harness import BLINK_RANK, BLINKCTL, Rank
from test_faults import NOBODY

#: What changes between two looks.
MOMENTARY = {"uptime_s", "since_s", "window_s", "now_GBps", "utilization", "used", "turn_steps_most",
             "engine_steps_most"}

VIEWS = ["status", "devices", "links", "comms", "clients", "tenants", "nodes", "topology", "version"]


def setUpModule():
    require_namespaces()


def settled(view):
    """Without what changes by itself."""
    if isinstance(view, dict):
        return {key: settled(value) for key, value in view.items() if key not in MOMENTARY}
    return [settled(item) for item in view] if isinstance(view, list) else view


class ViewsTest(RanksTest):
    def met(self, host_count, **options):
        """Hosts of which the first has a session with all others."""
        hosts = self.cluster(host_count, **options)
        for host in hosts:
            host.start(peers=hosts[0].v4)
        self.wait_connected(hosts[0], *hosts[1:])
        return hosts

    def at_gate(self, places, **options):
        """Ranks that have done some ops and are idle."""
        return self.start_waiting(places, f"times:5:{OP}", **options)

    def words(self, host, *arguments):
        """What a view shows, without its numbers, which may have changed."""
        return re.findall("[a-z]+", self.ctl(host.daemon, *arguments))

    def ask(self, host, *arguments, **options):
        return self.run_command([BLINKCTL, "--socket", host.daemon.socket, *arguments], **options)

    def refused(self, host, status, *arguments):
        got, out, err = self.ask(host, *arguments)
        self.assertEqual((got, out), (status, ""), err)
        return err


class Seen(ViewsTest):
    def test_every_view_is_the_one_that_the_host_shows_itself(self):
        one, two = self.met(2)
        ranks = self.at_gate([(one, 0), (two, 0), (two, 1)])
        own = self.start_ranks(two.daemon, [0, 1], ["gate", "destroy"])
        self.wait_at_gates(own)
        comm = str(self.ctl_json(two.daemon, "comms")["comms"][0]["comm"])
        for view in VIEWS + [["explain", "--comm", comm], ["topology", "--comm", comm]]:
            words = [view] if isinstance(view, str) else view
            with self.subTest(view=words):
                there = self.ctl_json(two.daemon, *words)
                self.assertEqual(settled(self.ctl_json(one.daemon, "--host", "n2", *words)), settled(there))
                self.assertEqual(self.words(one, *words, "--host", "n2"), self.words(two, *words))
        self.assertNotEqual(self.ctl_json(one.daemon, "status")["pid"], two.daemon.pid)
        for rank in ranks + own:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_all_hosts_are_asked_at_once(self):
        one, two = self.met(2)
        ranks = self.at_gate([(one, 0), (two, 0)])
        for view in VIEWS:
            if not isinstance(view, str) or view in ("topology", "version"):
                continue
            with self.subTest(view=view):
                views = self.ctl_json(one.daemon, view, "--host", "all")["hosts"]
                self.assertEqual(settled(views), {host.name: settled(self.ctl_json(host.daemon, view))
                                                  for host in (one, two)})
                lines = self.ctl(one.daemon, view, "--host", "all").splitlines()
                self.assertEqual({line.split(": ")[0] for line in lines}, {"n1", "n2"})
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_hosts_that_do_not_answer_do_not_hide_the_others(self):
        one, two, three = self.cluster(3)
        one.start(peers=f"{two.v4} {three.v4}")
        two.start()
        self.wait_connected(one, two)
        self.until(lambda: one.why_not().get(three.v4))
        status, out, err = self.ask(one, "status", "--host", "all", "--json")
        self.assertEqual((status, "1 of 3 hosts did not answer" in err), (1, True), err)
        views = json.loads(out)["hosts"]
        self.assertEqual({name: view.get("pid") for name, view in views.items()},
                         {"n1": one.daemon.pid, "n2": two.daemon.pid, three.v4: None})
        self.assertIn("there is no session with host", views[three.v4]["error"])
        status, out, _ = self.ask(one, "--host", "all", "status")
        self.assertEqual(status, 1)
        self.assertRegex(out, f"(?m)^n2: blinkd .*, pid {two.daemon.pid}")
        self.assertRegex(out, f"(?m)^{three.v4}: there is no session")

    def test_all_hosts_of_a_daemon_that_knows_none(self):
        daemon = self.daemon()
        status, _, err = self.run_command([BLINKCTL, "--socket", daemon.socket, "status", "--host", "all"])
        self.assertEqual((status, "knows no other host" in err), (1, True), err)

    def test_answers_of_many_pages_come_whole(self):
        one, two = self.cluster(2)
        one.start()
        two.start(peers=one.v4, topology="1xdgx1v_hybrid@5", devices=8)
        self.wait_connected(one, two)
        ranks = [rank for _ in range(40) for rank in self.start_ranks(two.daemon, [0, 1], [OP, "gate"])]
        self.wait_at_gates(ranks)
        for view in ("links", "comms", "clients", "topology"):
            there = self.ctl_json(two.daemon, view)
            self.assertEqual(settled(self.ctl_json(one.daemon, view, "--host", "n2")), settled(there))
        self.assertEqual(len(self.ctl_json(one.daemon, "clients", "--host", "n2")["clients"]), 80)
        for rank in ranks:
            rank.kill()

    def test_links_are_watched_from_afar(self):
        one, two = self.met(2)
        rank = self.start_at([(one, 0), (two, 0)], f"times:1000000:{OP}")
        watch = self.start([BLINKCTL, "--socket", one.daemon.socket, "--host", "n2", "links", "--watch=0.05",
                            "--json"])
        moved = lambda line: sum(link["bytes"] for link in json.loads(line)["links"])
        totals = lambda: {moved(line) for line in watch.stdout().split("\n")[:-1]}
        self.until(lambda: len(totals() - {0}) > 2)
        watch.kill()
        for each in rank:
            each.kill()

    def test_own_name_is_this_host(self):
        one, = self.cluster(1)
        one.start()
        self.assertEqual(self.ctl_json(one.daemon, "status", "--host", "n1")["pid"], one.daemon.pid)

    def test_many_ask_at_once(self):
        one, two = self.met(2)
        asks = [self.start([BLINKCTL, "--socket", one.daemon.socket, "--host", "n2", view, "--json"])
                for view in VIEWS * 4]
        for ask in asks:
            self.assertEqual(ask.wait(), 0, ask.describe())
        self.assertEqual({json.loads(ask.stdout())["pid"] for ask in asks if "status" in ask.arguments},
                         {two.daemon.pid})

    @unittest.skipUnless(os.geteuid() == 0 and "BLINK_TEST_IN_USER_NAMESPACE" not in os.environ,
                         "becoming other users needs root")
    def test_a_user_sees_there_what_the_user_would_see_there(self):
        one, two = self.met(2)
        users = {uid: [self.start_as(uid, two, rank) for rank in range(2)] for uid in (NOBODY, NOBODY - 1)}
        self.wait_at_gates(sum(users.values(), []))
        own = self.start_ranks(one.daemon, [0, 1], ["gate"])
        self.wait_at_gates(own)
        for view in ("comms", "clients", "tenants"):
            seen = lambda uid: {item["uid"] for item in self.seen_by(uid, one, view)[view]}
            self.assertEqual(seen(NOBODY), {NOBODY})
            self.assertTrue(seen(0) >= {NOBODY, NOBODY - 1}, view)
        self.assertEqual(len(self.seen_by(NOBODY, one, "nodes")["nodes"]), 2)
        comms = self.seen_by(0, one, "comms")["comms"]
        other = next(comm["comm"] for comm in comms if comm["uid"] != NOBODY)
        status, _, err = self.ask_as(NOBODY, one, "topology", "--comm", str(other))
        self.assertEqual(status, 1)
        self.assertIn(f"host n2: no communicator {other}", err)
        for rank in own + sum(users.values(), []):
            rank.kill()

    def program(self, host, path):
        """A copy that every user may run."""
        os.chmod(host.daemon.directory, 0o755)
        copy = os.path.join(host.daemon.directory, os.path.basename(path))
        if not os.path.exists(copy):
            shutil.copy(path, copy)
            for name in os.listdir(libraries := os.path.join(os.path.dirname(path), "..", "client", "lib")):
                if name.startswith("libblinkclient.so"):
                    shutil.copy(os.path.join(libraries, name), host.daemon.directory)
        return copy

    def start_as(self, uid, host, rank):
        child = Rank([self.program(host, BLINK_RANK), "--socket", host.daemon.socket, "--id", f"{uid:032x}",
                      "--ranks", 2, "--rank", rank, "--device", rank, OP, "gate"],
                     user=uid, group=uid, extra_groups=[],
                     env=os.environ | {"LD_LIBRARY_PATH": host.daemon.directory})
        self.children.append(child)
        return child

    def ask_as(self, uid, host, *arguments):
        return self.run_command([self.program(host, BLINKCTL), "--socket", host.daemon.socket, "--host", "n2",
                                 *arguments], user=uid, group=uid, extra_groups=[],
                                env=os.environ | {"LD_LIBRARY_PATH": host.daemon.directory})

    def seen_by(self, uid, host, view):
        status, out, err = self.ask_as(uid, host, view, "--json")
        self.assertEqual(status, 0, err)
        return json.loads(out)


class NotSeen(ViewsTest):
    def test_unknown_host_is_told_apart(self):
        one, _, _ = self.met(3)
        self.assertIn("there is no session with a host 'n22' (did you mean 'n2'?); there are n1, n2, n3",
                      self.refused(one, 1, "status", "--host", "n22"))
        err = self.refused(one, 1, "links", "--host", "elsewhere")
        self.assertIn("with a host 'elsewhere'; there are n1, n2, n3", err)
        self.assertIn("host name 'no/name'", self.refused(one, 1, "status", "--host", "no/name"))

    def test_host_that_is_dialled_in_vain(self):
        one, two = self.cluster(2)
        one.start(peers=two.v4)
        self.until(lambda: one.why_not().get(two.v4))
        self.assertRegex(self.refused(one, 1, "status", "--host", two.v4),
                         f"no session with host '{two.v4}' yet: .*refused")

    def test_daemon_that_knows_no_others(self):
        err = self.refused(Alone(self.daemon()), 1, "status", "--host", "n2")
        self.assertIn("needs [network] listen", err)

    def test_communicator_that_is_not_there(self):
        one, _ = self.met(2)
        err = self.refused(one, 1, "--host", "n2", "explain", "--comm", "77")
        self.assertIn("no communicator 77 on n2", err)
        err = self.refused(one, 1, "--host", "n2", "topology", "--comm", "77")
        self.assertIn("host n2: no communicator 77", err)

    def test_commands_that_ask_nobody(self):
        one, = self.cluster(1)
        one.start()
        for words in (["plan", "--topology", "dgx1v"], ["simulate", "--topology", "dgx1v"], ["key", "new"],
                      ["topology", "dgx1v"], ["explain", "--topology", "dgx1v"]):
            for arguments in (["--host", "n1", *words], [*words, "--host", "n1"]):
                self.assertIn("--host", self.refused(one, 2, *arguments))

    def test_host_that_hangs_is_not_waited_for(self):
        """Its session outlives that, and what it answers at last is dropped."""
        one, two = self.met(2)
        two.daemon.child.send_signal(signal.SIGSTOP)
        self.assertIn("host n2 has not answered within 5 s", self.refused(one, 1, "status", "--host", "n2"))
        two.daemon.child.send_signal(signal.SIGCONT)
        self.until(lambda: self.ask(one, "status", "--host", "n2")[0] == 0)
        self.assertEqual(self.ctl_json(one.daemon, "status", "--host", "n2")["pid"], two.daemon.pid)
        self.assertEqual(one.connected(), ["n2"])

    def test_host_that_is_lost(self):
        one, two = self.met(2)
        watch = self.start([BLINKCTL, "--socket", one.daemon.socket, "--host", "n2", "links", "--watch=0.05"])
        self.until(lambda: "directed links" in watch.stdout())
        two.daemon.kill()
        self.assertEqual(watch.wait(), 1)
        self.assertIn("n2", watch.stderr())

    def test_tool_that_goes_while_it_waits(self):
        one, two = self.met(2)
        two.daemon.child.send_signal(signal.SIGSTOP)
        before = one.daemon.descriptors()
        asks = [self.start([BLINKCTL, "--socket", one.daemon.socket, "--host", "n2", "status"])
                for _ in range(5)]
        self.until(lambda: one.daemon.descriptors() > before)
        for ask in asks:
            ask.kill()
        self.until(lambda: one.daemon.descriptors() <= before)
        two.daemon.child.send_signal(signal.SIGCONT)
        self.assertEqual(self.ctl_json(one.daemon, "status", "--host", "n2")["pid"], two.daemon.pid)


class Alone:
    def __init__(self, daemon):
        self.daemon = daemon


if __name__ == "__main__":
    unittest.main()
